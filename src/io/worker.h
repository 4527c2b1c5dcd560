/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Threads for work that blocks. Callers use cay_loop_submit(); this is the pool behind it. Threads
 * are our own rather than libuv's because a worker that acts as a sandbox user changes its
 * file-system uid, which must never leak into somebody else's pool.
 */

#include "io/loop.h"

/* Blocking work waits for disks, not for a CPU: more threads than cores. When all are at work, a
 * lane of which none is gets one more. The last ones are held back for owners of whom none is: so
 * no owner waits for another's jobs. */
enum {
    CAY_WORKER_THREADS = 8,
    CAY_WORKER_THREADS_MAX = 64,
    CAY_WORKER_THREADS_HELD_BACK = 16,
    CAY_LANE_THREADS = CAY_WORKER_THREADS / 2,
    CAY_SHARE_PLAIN_THREADS = 2,   /* of one owner's jobs at once; those beyond are patient */
    CAY_SHARE_HALF_NS = 50000000,  /* after so long an owner has half of its use behind it */
    CAY_SHARE_PROMPT_NS = 5000000, /* who used no more lately has its only job done promptly */
    CAY_PROMPT_NICE = -8,          /* of threads that rest or run such jobs */
    CAY_PATIENT_NICE = 10,         /* of threads while they run patient jobs */
};

struct cay_workers;

struct cay_workers *cay_workers_create(void);

/* Jobs that run now, and those that wait for a thread. */
void cay_workers_count(struct cay_workers *workers, size_t *out_at_work, size_t *out_queued);

/* Waits until nothing is queued and no thread is at work. */
void cay_workers_wait(struct cay_workers *workers);

/* Finishes what was submitted, then joins the threads. */
void cay_workers_destroy(struct cay_workers *workers);
void cay_workers_submit(struct cay_workers *workers, struct cay_job *job);

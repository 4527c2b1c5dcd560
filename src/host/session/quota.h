/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Limits of bytes and files on disk. Where the store's file system has quotas the kernel keeps the
 * bytes: commands and tools get EDQUOT or ENOSPC, and measuring is only for telling. All else is
 * kept by measuring, on a worker: a session's layers, those of all its snapshots, and the files
 * without names that its processes hold, or readers (held.h). Who is over its limit has its
 * commands killed (cause: quota), and everything that adds to it refused until it is below again.
 *
 * When: a session that has a limit is looked at as long as something runs or was written, as often
 * as it takes to fill what is left at 1 GiB per second, between 250 ms and 2 s; never for more than
 * a fifth of the time. It may be exceeded by what is written in that time. What the daemon itself
 * writes is counted as it comes. Sessions without limits are measured now and then, for telling.
 */

#include <stdatomic.h>

#include "base/error.h"

struct cay_host;
struct cay_session;

/* What a session knows of its measuring; of the loop thread but for what is atomic. */
struct cay_quota {
    _Atomic int64_t bytes; /* as last measured, */
    _Atomic int64_t files; /* with what has no name */
    bool is_over;          /* one of the limits, */
    const char *why;       /* or what cannot be measured; NULL: bytes or files */
    bool is_measured;      /* just now */
    bool is_dirty;         /* something may have been written since */
    uint64_t due_ms;       /* when it is to be looked at again */
    uint64_t cpu_usec;     /* of the sandbox at the last look: nobody ran, nobody wrote */
    uint64_t in_flight_ms; /* since when there are descriptors in flight; 0: none */
    /* Written by the daemon since it was measured, also by workers while they are at it. */
    _Atomic int64_t handed_bytes, handed_files;
    _Atomic int64_t reserved_bytes; /* of writes under way */
};

void cay_quota_start(struct cay_host *host);
void cay_quota_stop(struct cay_host *host);

/* On a worker: lets the kernel keep the limit of a tree, where it can; 0 is none. */
[[nodiscard]] bool cay_quota_set(struct cay_host *host, const char *store_id, int64_t bytes_max,
                                 struct cay_error *err);

/* For what adds to a session's files. QUOTA_EXCEEDED. */
[[nodiscard]] bool cay_quota_check(const struct cay_session *session, struct cay_error *err);

/* So many bytes are about to be written by the daemon: they count from now on, until they are
 * released with what became of them. QUOTA_EXCEEDED, and then nothing is reserved. */
[[nodiscard]] bool cay_quota_reserve(struct cay_session *session, int64_t bytes,
                                     struct cay_error *err);
void cay_quota_release(struct cay_session *session, int64_t reserved_bytes, int64_t written_bytes,
                       int64_t written_files);

/* For a worker that writes much at once, inside an operation on the session: what it takes counts
 * from then on. False, and nothing is taken, when a limit leaves no room. */
struct cay_quota_taker {
    struct cay_quota *quota;
    int64_t bytes_max, files_max;
};
void cay_quota_taker_init(struct cay_quota_taker *taker, struct cay_session *session);
bool cay_quota_take(void *taker, uint64_t bytes, uint64_t files);

/* Something of the session was or may have been written: an operation ended. */
void cay_quota_touch(struct cay_session *session);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The event loop: one thread, which owns everything that is not on a worker. libuv does the
 * waiting; its handles live and die inside this room, so an object that holds a watch or a timer
 * can be freed at once after closing it.
 *
 * Order: create -> watches, timers, listeners, workers ... -> run (returns after stop) -> destroy
 * (every watch and timer must be closed by then).
 */

#include "base/base.h"
#include "base/list.h"

struct cay_loop;
struct cay_heirs;

enum { CAY_LOOP_NICE = -10 }; /* of the thread that runs it, if it may */

[[nodiscard]] int cay_loop_create(struct cay_loop **out_loop);
void cay_loop_destroy(struct cay_loop *loop);
void cay_loop_run(struct cay_loop *loop);
void cay_loop_stop(struct cay_loop *loop);

/* Where its listeners come from and go to (heirs.h). Borrowed; NULL: they are made and closed. */
void cay_loop_set_heirs(struct cay_loop *loop, struct cay_heirs *heirs);
struct cay_heirs *cay_loop_heirs(const struct cay_loop *loop);

/* Milliseconds of the monotonic clock at the start of this turn of the loop. */
uint64_t cay_loop_now_ms(const struct cay_loop *loop);

/* Another number in each turn. What is sent in one turn leaves at its end, so nobody outside can
 * have heard of it and asked again before the next. */
uint64_t cay_loop_turn(const struct cay_loop *loop);

/* A buffer for one read whose bytes are used up before the callback returns: idle connections need
 * none of their own. */
#define CAY_LOOP_SCRATCH_BYTES (64u * 1024u)
char *cay_loop_scratch(struct cay_loop *loop);

/* Work for the loop thread, from any thread that ends before the loop does. The task belongs to the
 * caller and must live until it ran. */
struct cay_task {
    void (*run)(struct cay_task *task);
    struct cay_task *next;
};
void cay_loop_post(struct cay_loop *loop, struct cay_task *task);

/* What one owner may have of the workers, over all its lanes: at most threads_max of them run at
 * once, and one of them always does, whatever other owners have ordered. Zeroed but for the first
 * two; it must live until the last of its jobs is done. */
struct cay_share {
    unsigned threads_max;    /* 0: as many as there are */
    bool is_patient;         /* its jobs take long and yield the processor to others */
    bool is_ready;           /* the rest is the room's own: the lists below are made */
    struct cay_list waiting; /* its lanes of which nothing runs */
    struct cay_list served;  /* those that may have more */
    struct cay_list_node in_shares;
    unsigned at_work;
    uint64_t spent_ns; /* processor time of its jobs, half forgotten ever and again */
    uint64_t spent_at_ns;
};

/* Jobs that wait for each other in one queue, like those of a session: at most CAY_LANE_THREADS of
 * them run at once. Embedded in what stands for them, zeroed but for the share; it must live until
 * the last of its jobs is done. */
struct cay_lane {
    struct cay_share *share; /* NULL: one for all that have none */
    struct cay_job *first;
    struct cay_job *last;
    struct cay_list_node in_lanes; /* while a job of it may start */
    unsigned at_work;
};

/* Runs on a worker thread, then `done` on the loop thread. Workers get values and descriptors,
 * never objects the loop thread owns. The job belongs to the caller and must live until `done`. */
struct cay_job {
    void (*work)(struct cay_job *job);
    void (*done)(struct cay_job *job);
    struct cay_lane *lane; /* NULL: the daemon's own */
    struct cay_loop *loop; /* the rest is the room's own */
    int nice;              /* while it runs */
    struct cay_job *next;
    struct cay_task finished;
};
void cay_loop_submit(struct cay_loop *loop, struct cay_job *job);

/* The same, but false when the workers have been finished. */
[[nodiscard]] bool cay_loop_try_submit(struct cay_loop *loop, struct cay_job *job);

/* Jobs that run now, and those that wait for a worker. */
void cay_loop_count_jobs(struct cay_loop *loop, size_t *out_at_work, size_t *out_queued);

/* For the end: waits for every job and runs its `done`. Nothing may be submitted afterwards. */
void cay_loop_finish_jobs(struct cay_loop *loop);

/* What a descriptor can be watched for. HANGUP is the peer closing its end, also while reading is
 * off. */
enum cay_ready {
    CAY_READY_READ = 1,
    CAY_READY_WRITE = 2,
    CAY_READY_HANGUP = 4,
};

struct cay_watch_handle;

/* Embedded in its owner; zeroed when closed. Level-triggered. The descriptor stays the owner's. */
struct cay_watch {
    void (*ready)(struct cay_watch *watch, unsigned events);
    struct cay_watch_handle *handle;
    unsigned events;
};

[[nodiscard]] int cay_watch_open(struct cay_watch *watch, struct cay_loop *loop, int fd,
                                 void (*ready)(struct cay_watch *watch, unsigned events));
void cay_watch_set(struct cay_watch *watch, unsigned events);
void cay_watch_close(struct cay_watch *watch);

struct cay_timer_handle;

/* Embedded in its owner; fires once, or every repeat_ms. Closing an unopened timer does nothing. */
struct cay_timer {
    void (*fired)(struct cay_timer *timer);
    struct cay_timer_handle *handle;
};

void cay_timer_open(struct cay_timer *timer, struct cay_loop *loop,
                    void (*fired)(struct cay_timer *timer));
void cay_timer_start(struct cay_timer *timer, uint64_t delay_ms, uint64_t repeat_ms);
void cay_timer_stop(struct cay_timer *timer);
void cay_timer_close(struct cay_timer *timer);

/* Signals as events. The loop restores nothing at the end: this is for a daemon's own life. */
struct cay_signal_handle;

struct cay_signal {
    void (*caught)(struct cay_signal *signal, int number);
    struct cay_signal_handle *handle;
};

[[nodiscard]] int cay_signal_open(struct cay_signal *signal, struct cay_loop *loop, int number,
                                  void (*caught)(struct cay_signal *signal, int number));
void cay_signal_close(struct cay_signal *signal);

/* SPDX-License-Identifier: Apache-2.0 */
#include "io/worker.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "sys/pace.h"

/* Threads on their way at once, for owners of whom nothing runs: one that gets no processor does
 * not keep the others of them waiting. */
enum { COMING_MAX = 4 };

struct cay_workers {
    pthread_mutex_t lock;
    pthread_cond_t work_or_stop;
    pthread_cond_t at_rest;
    struct cay_lane own; /* of jobs without a lane */
    struct cay_share own_share;
    struct cay_share any_share; /* of lanes without a share */
    struct cay_list hungry;     /* shares of which nothing runs: they come first */
    struct cay_list waiting;    /* those with a lane of which nothing runs */
    struct cay_list served;     /* those that may have more */
    bool can_change_pace;
    bool stopping;
    unsigned coming; /* threads that were called and have not looked at the queue yet */
    size_t queued;
    size_t at_work;
    size_t idle; /* counts a thread that was called and has not woken yet */
    size_t thread_count;
    pthread_t threads[CAY_WORKER_THREADS_MAX];
};

static void *worker_main(void *arg);

/* Signals belong to the loop thread: workers block them all. */
static void start_thread(struct cay_workers *workers)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int status =
        pthread_create(&workers->threads[workers->thread_count], NULL, worker_main, workers);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status == 0)
        workers->thread_count++;
    else
        assert(workers->thread_count > 0); /* without any worker the job would never run */
}

static void make_ready(struct cay_share *share)
{
    if (share->is_ready)
        return;
    cay_list_init(&share->waiting);
    cay_list_init(&share->served);
    share->is_ready = true;
}

static void place_share(struct cay_workers *workers, struct cay_share *share)
{
    bool is_own = share == &workers->own_share;
    bool has_waiting = !cay_list_empty(&share->waiting);
    cay_list_remove(&share->in_shares);
    if ((!has_waiting && cay_list_empty(&share->served)) ||
        (share->threads_max && share->at_work >= share->threads_max))
        return;
    if (share->at_work < (is_own ? CAY_LANE_THREADS : 1))
        cay_list_push_back(&workers->hungry, &share->in_shares);
    else
        cay_list_push_back(has_waiting ? &workers->waiting : &workers->served, &share->in_shares);
}

/* Whenever a lane has got a job, or one of its jobs has been taken or finished. */
static void place(struct cay_workers *workers, struct cay_lane *lane)
{
    cay_list_remove(&lane->in_lanes);
    if (lane->first && lane->at_work == 0)
        cay_list_push_back(&lane->share->waiting, &lane->in_lanes);
    else if (lane->first && (lane == &workers->own || lane->at_work < CAY_LANE_THREADS))
        cay_list_push_back(&lane->share->served, &lane->in_lanes);
    place_share(workers, lane->share);
}

/* The share whose turn it is; NULL when there is no job that may run now. */
static struct cay_share *next_share(const struct cay_workers *workers)
{
    struct cay_list_node *node = cay_list_first(&workers->hungry);
    if (!node && workers->at_work < CAY_WORKER_THREADS_MAX - CAY_WORKER_THREADS_HELD_BACK) {
        node = cay_list_first(&workers->waiting);
        if (!node)
            node = cay_list_first(&workers->served);
    }
    return node ? CAY_CONTAINER_OF(node, struct cay_share, in_shares) : NULL;
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* What the share's jobs took of the processors lately: half of it is forgotten every
 * CAY_SHARE_HALF_NS. */
static uint64_t spent_lately(struct cay_share *share)
{
    uint64_t now = clock_ns(CLOCK_MONOTONIC_COARSE);
    uint64_t halves = (now - share->spent_at_ns) / CAY_SHARE_HALF_NS;
    if (halves) {
        share->spent_ns = halves < 64 ? share->spent_ns >> halves : 0;
        share->spent_at_ns += halves * CAY_SHARE_HALF_NS;
    }
    return share->spent_ns;
}

/* Of a job that was just taken: whoever has several at work, or took much lately, yields the
 * processor to those who have few and took little. */
static int nice_of(struct cay_share *share)
{
    if (share->is_patient || (share->threads_max && share->at_work > CAY_SHARE_PLAIN_THREADS))
        return CAY_PATIENT_NICE;
    return share->at_work > 1 || spent_lately(share) > CAY_SHARE_PROMPT_NS ? 0 : CAY_PROMPT_NICE;
}

static struct cay_job *next_job(struct cay_workers *workers)
{
    struct cay_share *share = next_share(workers);
    if (!share)
        return NULL;
    struct cay_list_node *node = cay_list_first(&share->waiting);
    if (!node)
        node = cay_list_first(&share->served);
    assert(node); /* or it would not be in a list of shares */
    struct cay_lane *lane = CAY_CONTAINER_OF(node, struct cay_lane, in_lanes);
    struct cay_job *job = lane->first;
    lane->first = job->next;
    lane->at_work++;
    share->at_work++;
    job->nice = nice_of(share);
    place(workers, lane);
    return job;
}

static bool has_job(const struct cay_workers *workers)
{
    return next_share(workers) != NULL;
}

/* For jobs that nobody has taken yet. But for owners of whom nothing runs, threads are called one
 * after the other, each by the one before it when it has taken its job: short jobs are then done by
 * the thread that is awake already, and do not pay for the switch to one that is not, while long
 * ones soon have a thread each. True when one is to be signalled, best after the lock is released.
 */
static bool call_thread(struct cay_workers *workers)
{
    if (!has_job(workers) ||
        workers->coming >= (cay_list_empty(&workers->hungry) ? 1u : COMING_MAX))
        return false;
    if (workers->idle > workers->coming) {
        workers->coming++;
        return true;
    }
    size_t most = !cay_list_empty(&workers->hungry) ? CAY_WORKER_THREADS_MAX
                  : !cay_list_empty(&workers->waiting)
                      ? CAY_WORKER_THREADS_MAX - CAY_WORKER_THREADS_HELD_BACK
                      : CAY_WORKER_THREADS;
    if (workers->thread_count < most) {
        size_t before = workers->thread_count;
        start_thread(workers);
        workers->coming += workers->thread_count > before;
    }
    return false;
}

static void set_pace(const struct cay_workers *workers, int *nice, int wanted)
{
    if (workers->can_change_pace && *nice != wanted)
        (void)cay_pace_set(wanted,
                           wanted == CAY_PROMPT_NICE ? CAY_SLICE_SHORT_USEC : CAY_SLICE_USUAL);
    *nice = wanted;
}

/* *nice is the pace of this thread. It rests at that of prompt jobs, so that these need not wait
 * for it to wake, and stays at any other while there is more to do: to change it takes as long as a
 * short job. */
static struct cay_job *take_job(struct cay_workers *workers, int *nice)
{
    pthread_mutex_lock(&workers->lock);
    if (!workers->queued && !workers->at_work)
        pthread_cond_broadcast(&workers->at_rest);
    if (*nice != CAY_PROMPT_NICE && !has_job(workers)) {
        pthread_mutex_unlock(&workers->lock);
        set_pace(workers, nice, CAY_PROMPT_NICE);
        pthread_mutex_lock(&workers->lock);
    }
    workers->idle++;
    while (!has_job(workers) && !workers->stopping) {
        pthread_cond_wait(&workers->work_or_stop, &workers->lock);
        workers->coming -= workers->coming > 0;
    }
    workers->idle--;
    struct cay_job *job = next_job(workers);
    if (job) {
        workers->queued--;
        workers->at_work++;
    }
    bool is_more = call_thread(workers);
    pthread_mutex_unlock(&workers->lock);
    if (is_more)
        pthread_cond_signal(&workers->work_or_stop);
    return job;
}

/* Before the loop hears of it: the lane may go with its last job. */
static void leave_lane(struct cay_workers *workers, struct cay_lane *lane, uint64_t spent_ns)
{
    pthread_mutex_lock(&workers->lock);
    (void)spent_lately(lane->share);
    lane->share->spent_ns += spent_ns;
    lane->at_work--;
    lane->share->at_work--;
    place(workers, lane);
    pthread_mutex_unlock(&workers->lock);
}

static void *worker_main(void *arg)
{
    struct cay_workers *workers = arg;
    struct cay_job *job = NULL;
    int nice = 0;
    pthread_mutex_lock(&workers->lock);
    workers->coming -= workers->coming > 0;
    pthread_mutex_unlock(&workers->lock);
    set_pace(workers, &nice, CAY_PROMPT_NICE);
    while ((job = take_job(workers, &nice)) != NULL) {
        uint64_t begun = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        set_pace(workers, &nice, job->nice);
        job->work(job);
        leave_lane(workers, job->lane, clock_ns(CLOCK_THREAD_CPUTIME_ID) - begun);
        cay_loop_post(job->loop, &job->finished);
        pthread_mutex_lock(&workers->lock);
        workers->at_work--;
        pthread_mutex_unlock(&workers->lock);
    }
    return NULL;
}

struct cay_workers *cay_workers_create(void)
{
    struct cay_workers *workers = cay_new(struct cay_workers);
    cay_list_init(&workers->hungry);
    cay_list_init(&workers->waiting);
    cay_list_init(&workers->served);
    workers->own.share = &workers->own_share;
    make_ready(&workers->own_share);
    workers->can_change_pace = cay_pace_can_be_changed();
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->work_or_stop, NULL);
    pthread_cond_init(&workers->at_rest, NULL);
    return workers;
}

void cay_workers_count(struct cay_workers *workers, size_t *out_at_work, size_t *out_queued)
{
    pthread_mutex_lock(&workers->lock);
    *out_at_work = workers->at_work;
    *out_queued = workers->queued;
    pthread_mutex_unlock(&workers->lock);
}

void cay_workers_wait(struct cay_workers *workers)
{
    pthread_mutex_lock(&workers->lock);
    while (workers->queued || workers->at_work)
        pthread_cond_wait(&workers->at_rest, &workers->lock);
    pthread_mutex_unlock(&workers->lock);
}

void cay_workers_destroy(struct cay_workers *workers)
{
    if (!workers)
        return;
    pthread_mutex_lock(&workers->lock);
    workers->stopping = true;
    pthread_cond_broadcast(&workers->work_or_stop);
    pthread_mutex_unlock(&workers->lock);
    for (size_t i = 0; i < workers->thread_count; i++)
        pthread_join(workers->threads[i], NULL);
    pthread_cond_destroy(&workers->work_or_stop);
    pthread_cond_destroy(&workers->at_rest);
    pthread_mutex_destroy(&workers->lock);
    free(workers);
}

void cay_workers_submit(struct cay_workers *workers, struct cay_job *job)
{
    if (!job->lane)
        job->lane = &workers->own;
    struct cay_lane *lane = job->lane;
    job->next = NULL;
    pthread_mutex_lock(&workers->lock);
    if (!lane->share)
        lane->share = &workers->any_share;
    make_ready(lane->share);
    assert(!workers->stopping);
    workers->queued++;
    if (lane->first)
        lane->last->next = job;
    else
        lane->first = job;
    lane->last = job;
    place(workers, lane);
    bool is_more = call_thread(workers);
    pthread_mutex_unlock(&workers->lock);
    if (is_more)
        pthread_cond_signal(&workers->work_or_stop);
}

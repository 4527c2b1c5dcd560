/* SPDX-License-Identifier: Apache-2.0 */
#include "io/worker.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct cay_workers {
    pthread_mutex_t lock;
    pthread_cond_t work_or_stop;
    pthread_cond_t at_rest;
    struct cay_job *first;
    struct cay_job *last;
    bool stopping;
    bool is_one_coming; /* a thread was called and has not looked at the queue yet */
    size_t queued;
    size_t at_work;
    size_t idle; /* counts a thread that was called and has not woken yet */
    size_t thread_count;
    size_t thread_count_max;
    pthread_t threads[];
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

/* For jobs that nobody has taken yet. Threads are called one after the other, each by the one
 * before it when it has taken its job: short jobs are then done by the thread that is awake
 * already, and do not pay for the switch to one that is not, while long ones soon have a thread
 * each. True when one is to be signalled, best after the lock is released. */
static bool call_thread(struct cay_workers *workers)
{
    if (!workers->first || workers->is_one_coming)
        return false;
    if (workers->idle) {
        workers->is_one_coming = true;
        return true;
    }
    if (workers->thread_count < workers->thread_count_max) {
        size_t before = workers->thread_count;
        start_thread(workers);
        workers->is_one_coming = workers->thread_count > before;
    }
    return false;
}

static struct cay_job *take_job(struct cay_workers *workers)
{
    pthread_mutex_lock(&workers->lock);
    if (!workers->queued && !workers->at_work)
        pthread_cond_broadcast(&workers->at_rest);
    workers->idle++;
    while (!workers->first && !workers->stopping) {
        pthread_cond_wait(&workers->work_or_stop, &workers->lock);
        workers->is_one_coming = false;
    }
    workers->idle--;
    struct cay_job *job = workers->first;
    if (job) {
        workers->queued--;
        workers->at_work++;
        workers->first = job->next;
        if (!workers->first)
            workers->last = NULL;
    }
    bool is_more = call_thread(workers);
    pthread_mutex_unlock(&workers->lock);
    if (is_more)
        pthread_cond_signal(&workers->work_or_stop);
    return job;
}

static void *worker_main(void *arg)
{
    struct cay_workers *workers = arg;
    struct cay_job *job = NULL;
    pthread_mutex_lock(&workers->lock);
    workers->is_one_coming = false;
    pthread_mutex_unlock(&workers->lock);
    while ((job = take_job(workers)) != NULL) {
        job->work(job);
        cay_loop_post(job->loop, &job->finished);
        pthread_mutex_lock(&workers->lock);
        workers->at_work--;
        pthread_mutex_unlock(&workers->lock);
    }
    return NULL;
}

struct cay_workers *cay_workers_create(size_t thread_count)
{
    struct cay_workers *workers = cay_alloc(sizeof(*workers) + thread_count * sizeof(pthread_t));
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->work_or_stop, NULL);
    pthread_cond_init(&workers->at_rest, NULL);
    workers->thread_count_max = thread_count;
    return workers;
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
    job->next = NULL;
    pthread_mutex_lock(&workers->lock);
    assert(!workers->stopping);
    workers->queued++;
    if (workers->last)
        workers->last->next = job;
    else
        workers->first = job;
    workers->last = job;
    bool is_more = call_thread(workers);
    pthread_mutex_unlock(&workers->lock);
    if (is_more)
        pthread_cond_signal(&workers->work_or_stop);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "io/loop.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uv.h>

#include "io/loop_internal.h"
#include "io/stream.h"
#include "io/worker.h"
#include "sys/pace.h"

/* All that was posted, oldest first. */
static void run_posted(struct cay_loop *loop)
{
    struct cay_task *newest = atomic_exchange(&loop->posted, NULL);
    struct cay_task *first = NULL;
    while (newest) {
        struct cay_task *older = newest->next;
        newest->next = first;
        first = newest;
        newest = older;
    }
    while (first) {
        struct cay_task *next = first->next; /* running may free it */
        first->run(first);
        first = next;
    }
}

static void on_woken(uv_poll_t *wake, int, int)
{
    struct cay_loop *loop = CAY_CONTAINER_OF(wake, struct cay_loop, wake);
    uint64_t count = 0;
    /* First: whoever posts from here on wakes us again. */
    (void)!read(loop->wake_fd, &count, sizeof(count));
    run_posted(loop);
}

/* By a descriptor rather than uv_async: that has the loop spin while a thread that sends to it has
 * lost its processor, maybe to the loop. */
static int open_wake(struct cay_loop *loop)
{
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->wake_fd < 0)
        return -errno;
    int status = uv_poll_init(&loop->uv, &loop->wake, loop->wake_fd);
    if (status == 0)
        status = uv_poll_start(&loop->wake, UV_READABLE, on_woken);
    if (status < 0)
        close(loop->wake_fd);
    return status;
}

static void flush_streams(uv_prepare_t *prepare)
{
    struct cay_loop *loop = CAY_CONTAINER_OF(prepare, struct cay_loop, before_wait);
    loop->turn++;
    cay_stream_flush_all(loop);
}

int cay_loop_create(struct cay_loop **out_loop)
{
    cay_autofree struct cay_loop *loop = cay_new(struct cay_loop);
    int status = uv_loop_init(&loop->uv);
    if (status < 0)
        return status;
    status = open_wake(loop);
    if (status < 0) {
        uv_loop_close(&loop->uv);
        return status;
    }
    uv_unref((uv_handle_t *)&loop->wake);
    uv_prepare_init(&loop->uv, &loop->before_wait);
    uv_prepare_start(&loop->before_wait, flush_streams);
    uv_unref((uv_handle_t *)&loop->before_wait);
    loop->scratch = cay_alloc(CAY_LOOP_SCRATCH_BYTES);
    loop->workers = cay_workers_create();
    cay_map_init(&loop->shares);
    *out_loop = cay_take_ptr(loop);
    return 0;
}

void cay_loop_set_heirs(struct cay_loop *loop, struct cay_heirs *heirs)
{
    loop->heirs = heirs;
}

struct cay_heirs *cay_loop_heirs(const struct cay_loop *loop)
{
    return loop->heirs;
}

bool cay_loop_try_submit(struct cay_loop *loop, struct cay_job *job)
{
    if (!loop->workers)
        return false;
    cay_loop_submit(loop, job);
    return true;
}

void cay_loop_finish_jobs(struct cay_loop *loop)
{
    if (!loop || !loop->workers)
        return;
    /* What is done may order more: until there is nothing left. */
    bool goes_on = true;
    while (goes_on) {
        cay_workers_wait(loop->workers);
        goes_on = atomic_load(&loop->posted) != NULL;
        run_posted(loop);
    }
    cay_workers_destroy(cay_take_ptr(loop->workers));
}

void cay_loop_destroy(struct cay_loop *loop)
{
    if (!loop)
        return;
    cay_loop_finish_jobs(loop);
    uv_close((uv_handle_t *)&loop->wake, NULL);
    uv_close((uv_handle_t *)&loop->before_wait, NULL);
    /* Closed handles go in one turn; another one, because a stop that came when nothing ran ends
     * the first before it begins. Without waiting: what was left open must not hang us. */
    uv_run(&loop->uv, UV_RUN_NOWAIT);
    uv_run(&loop->uv, UV_RUN_NOWAIT);
    int status = uv_loop_close(&loop->uv);
    assert(status == 0); /* somebody left a watch or a timer open */
    (void)status;
    close(loop->wake_fd);
    cay_map_finish(&loop->shares);
    free(loop->scratch);
    free(loop);
}

/* Everybody's calls go through this thread, and each needs little of it: it comes before workers,
 * and before sandboxes where these are not in groups of their own. What it starts, threads and
 * processes, begins at 0. Where the kernel does not allow it things go on as they are; so does a
 * daemon that somebody gave another priority. */
static bool come_first(void)
{
    return cay_pace_can_be_changed() && cay_pace_set(CAY_LOOP_NICE, CAY_SLICE_SHORT_USEC) == 0;
}

void cay_loop_run(struct cay_loop *loop)
{
    bool is_first = come_first();
    /* The wake-up handle keeps the loop alive until somebody says stop. */
    uv_ref((uv_handle_t *)&loop->wake);
    uv_run(&loop->uv, UV_RUN_DEFAULT);
    uv_unref((uv_handle_t *)&loop->wake);
    if (is_first)
        (void)cay_pace_set(0, CAY_SLICE_USUAL);
}

void cay_loop_stop(struct cay_loop *loop)
{
    uv_stop(&loop->uv);
}

uint64_t cay_loop_now_ms(const struct cay_loop *loop)
{
    return uv_now(&loop->uv);
}

uint64_t cay_loop_turn(const struct cay_loop *loop)
{
    return loop->turn;
}

char *cay_loop_scratch(struct cay_loop *loop)
{
    return loop->scratch;
}

void cay_loop_post(struct cay_loop *loop, struct cay_task *task)
{
    const uint64_t one = 1;
    task->next = atomic_load(&loop->posted);
    while (!atomic_compare_exchange_weak(&loop->posted, &task->next, task))
        ;
    /* The loop may take the processor from us at any of these steps, and never has to wait for us
     * to get it back. */
    (void)!write(loop->wake_fd, &one, sizeof(one));
}

static void run_done(struct cay_task *task)
{
    struct cay_job *job = CAY_CONTAINER_OF(task, struct cay_job, finished);
    job->done(job);
}

void cay_loop_count_jobs(struct cay_loop *loop, size_t *out_at_work, size_t *out_queued)
{
    *out_at_work = *out_queued = 0;
    if (loop->workers)
        cay_workers_count(loop->workers, out_at_work, out_queued);
}

void cay_loop_submit(struct cay_loop *loop, struct cay_job *job)
{
    assert(job->work && job->done);
    job->loop = loop;
    job->finished.run = run_done;
    cay_workers_submit(loop->workers, job);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/tidy.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/stop.h"
#include "host/runtime/runtime.h"
#include "host/session/host.h"
#include "host/store/store.h"

enum {
    COLLECT_STEP = 20'000,
    SPARES_QUIET_MS = 30,   /* without turns and births; a spare is as much work as one of them */
    SPARES_LATEST_MS = 500, /* on a host that is never quiet */
    FREEING_LOOK_MS = 20,
};

struct collect_job {
    struct cay_job job;
    struct cay_host *host;
    struct cay_store *store; /* the host's when it began */
    bool has_more;
    bool has_records; /* more to do in the database */
    bool is_awaited;
    uint64_t mark;
    bool is_freed;
    struct cay_error err;
};

static void collect_work(struct cay_job *job)
{
    struct collect_job *self = CAY_CONTAINER_OF(job, struct collect_job, job);
    struct cay_store *store = self->store;
    struct cay_error db_err = {};
    /* The end of the daemon does not wait for what the next one can remove as well. */
    (void)cay_stop_watch(self->is_awaited ? &self->host->is_freeing_over : &self->host->is_ending);
    if (!cay_db_shrink(self->host->db, &self->has_records, &db_err))
        cay_log(CAY_WARN, "db.shrink_failed", CAY_ERR(&db_err));
    if (!cay_store_collect(store, COLLECT_STEP, &self->has_more, &self->err) ||
        (!self->has_more && self->is_awaited &&
         !cay_store_is_freed(store, &self->mark, &self->is_freed, &self->err))) {
        self->has_more = false;
        if (!cay_stop_asked())
            cay_log(CAY_WARN, "store.collect_failed", CAY_ERR(&self->err));
    }
    (void)cay_stop_watch(NULL);
}

static void tell_freed(struct cay_list *list, const struct cay_error *err)
{
    struct cay_list_node *node = NULL;
    while ((node = cay_list_pop_front(list)) != NULL) {
        struct cay_freeing *freeing = CAY_CONTAINER_OF(node, struct cay_freeing, in_host);
        freeing->freed(freeing, err);
    }
}

static void on_freeing_look(struct cay_timer *timer)
{
    cay_host_collect_soon(CAY_CONTAINER_OF(timer, struct cay_host, freeing_look));
}

/* The file system takes its time: looks again soon. */
static void look_again(struct cay_host *host)
{
    if (!host->freeing_look.handle)
        cay_timer_open(&host->freeing_look, host->loop, on_freeing_look);
    cay_timer_start(&host->freeing_look, FREEING_LOOK_MS, 0);
}

static void collect_done(struct cay_job *job)
{
    struct collect_job *self = CAY_CONTAINER_OF(job, struct collect_job, job);
    struct cay_host *host = self->host;
    bool goes_on = self->has_more || self->has_records || host->is_collect_wanted;
    host->is_collecting = false;
    host->is_collect_wanted = false;
    host->freeing_mark = self->mark;
    if (self->is_awaited && (self->is_freed || self->err.reason))
        tell_freed(&host->freeing, self->err.reason ? &self->err : NULL);
    if (goes_on || !cay_list_empty(&host->freeing_next))
        cay_host_collect_soon(host);
    else if (!cay_list_empty(&host->freeing))
        look_again(host);
    bool is_quiet = !goes_on;
    free(self);
    if (is_quiet)
        host->on_tidy(host);
}

/* The daemon ends, and nobody is left who waits for this. */
static bool is_over(const struct cay_host *host)
{
    bool is_awaited = !cay_list_empty(&host->freeing) || !cay_list_empty(&host->freeing_next);
    return host->is_freeing_over || (host->is_ending && !is_awaited);
}

void cay_host_collect_soon(struct cay_host *host)
{
    if (is_over(host)) {
        cay_host_free_no_longer(host);
        return;
    }
    if (host->is_collecting) {
        host->is_collect_wanted = true;
        return;
    }
    struct collect_job *self = cay_new(struct collect_job);
    if (cay_list_empty(&host->freeing)) {
        struct cay_list_node *node = NULL;
        while ((node = cay_list_pop_front(&host->freeing_next)) != NULL)
            cay_list_push_back(&host->freeing, node);
        host->freeing_mark = 0;
    }
    self->host = host;
    self->store = host->store;
    self->is_awaited = !cay_list_empty(&host->freeing);
    self->mark = host->freeing_mark;
    self->job.work = collect_work;
    self->job.done = collect_done;
    host->is_collecting = true;
    if (!cay_loop_try_submit(host->loop, &self->job)) {
        host->is_collecting = false; /* the daemon ends; the next one goes on */
        free(self);
        cay_host_free_no_longer(host);
    }
}

void cay_host_collect_then(struct cay_host *host, struct cay_freeing *freeing)
{
    cay_list_push_back(&host->freeing_next, &freeing->in_host);
    cay_host_collect_soon(host);
}

void cay_host_free_no_longer(struct cay_host *host)
{
    struct cay_error err = {};
    cay_fail(&err, CAY_R_UNAVAILABLE,
             "the session is gone, but the daemon ends before its space is free; the next daemon "
             "frees it");
    cay_timer_close(&host->freeing_look);
    tell_freed(&host->freeing, &err);
    tell_freed(&host->freeing_next, &err);
}

static void on_spares(struct cay_timer *timer)
{
    struct cay_host *host = CAY_CONTAINER_OF(timer, struct cay_host, spares);
    host->spares_wanted_ms = 0;
    cay_host_collect_soon(host);
}

void cay_host_spares_soon(struct cay_host *host)
{
    if (!(cay_store_caps(host->store) & CAY_STORE_PREPARES) || atomic_load(&host->is_stopping))
        return;
    uint64_t now_ms = cay_loop_now_ms(host->loop);
    if (!host->spares.handle)
        cay_timer_open(&host->spares, host->loop, on_spares);
    if (!host->spares_wanted_ms)
        host->spares_wanted_ms = now_ms;
    uint64_t latest_ms = host->spares_wanted_ms + SPARES_LATEST_MS;
    cay_timer_start(&host->spares,
                    CAY_MIN((uint64_t)SPARES_QUIET_MS, latest_ms > now_ms ? latest_ms - now_ms : 0),
                    0);
}

struct ready_job {
    struct cay_job job;
    struct cay_host *host;
};

static void ready_work(struct cay_job *job)
{
    const struct cay_host *host = CAY_CONTAINER_OF(job, struct ready_job, job)->host;
    cay_runtime_prepare(cay_runtimes_default(&host->runtimes));
}

static void ready_done(struct cay_job *job)
{
    struct ready_job *self = CAY_CONTAINER_OF(job, struct ready_job, job);
    self->host->is_preparing = false;
    free(self);
}

void cay_host_prepare_soon(struct cay_host *host)
{
    if (host->is_preparing)
        return;
    struct ready_job *self = cay_new(struct ready_job);
    self->host = host;
    self->job.work = ready_work;
    self->job.done = ready_done;
    host->is_preparing = cay_loop_try_submit(host->loop, &self->job);
    if (!host->is_preparing)
        free(self);
}

struct close_job {
    struct cay_job job;
    int fd;
};

static void close_work(struct cay_job *job)
{
    close(CAY_CONTAINER_OF(job, struct close_job, job)->fd);
}

static void close_done(struct cay_job *job)
{
    free(CAY_CONTAINER_OF(job, struct close_job, job));
}

void cay_host_close_later(struct cay_host *host, int fd)
{
    if (fd < 0)
        return;
    struct close_job *self = cay_new(struct close_job);
    self->fd = fd;
    self->job.work = close_work;
    self->job.done = close_done;
    if (!cay_loop_try_submit(host->loop, &self->job)) {
        close(fd);
        free(self);
    }
}

struct bury_job {
    struct cay_job job;
    struct cay_sandbox *sandbox;
};

static void bury_work(struct cay_job *job)
{
    struct bury_job *self = CAY_CONTAINER_OF(job, struct bury_job, job);
    struct cay_error err = {};
    if (!cay_sandbox_destroy(self->sandbox, &err))
        cay_log(CAY_WARN, "sandbox.destroy_failed", CAY_ERR(&err));
}

static void bury_done(struct cay_job *job)
{
    free(CAY_CONTAINER_OF(job, struct bury_job, job));
}

void cay_host_bury(struct cay_host *host, struct cay_sandbox *sandbox)
{
    struct bury_job *self = cay_new(struct bury_job);
    self->sandbox = sandbox;
    self->job.work = bury_work;
    self->job.done = bury_done;
    if (!cay_loop_try_submit(host->loop, &self->job)) {
        bury_work(&self->job);
        free(self);
    }
}

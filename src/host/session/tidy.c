/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What is done behind the calls' backs, on workers: the store tidies up, things are made ahead of
 * need, what takes long to let go of is let go.
 */

#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "host/runtime/runtime.h"
#include "host/session/host.h"
#include "host/store/store.h"

enum {
    COLLECT_STEP = 20'000,
    SPARES_QUIET_MS = 30,   /* without turns and births; a spare is as much work as one of them */
    SPARES_LATEST_MS = 500, /* on a host that is never quiet */
};

struct collect_job {
    struct cay_job job;
    struct cay_host *host;
    bool has_more;
};

static void collect_work(struct cay_job *job)
{
    struct collect_job *self = CAY_CONTAINER_OF(job, struct collect_job, job);
    struct cay_error err = {};
    if (!cay_store_collect(self->host->store, COLLECT_STEP, &self->has_more, &err)) {
        self->has_more = false;
        cay_log(CAY_WARN, "store.collect_failed", CAY_ERR(&err));
    }
}

static void collect_done(struct cay_job *job)
{
    struct collect_job *self = CAY_CONTAINER_OF(job, struct collect_job, job);
    struct cay_host *host = self->host;
    bool goes_on = self->has_more || host->is_collect_wanted;
    free(self);
    host->is_collecting = false;
    host->is_collect_wanted = false;
    if (goes_on)
        cay_host_collect_soon(host);
}

void cay_host_collect_soon(struct cay_host *host)
{
    if (host->is_collecting) {
        host->is_collect_wanted = true;
        return;
    }
    struct collect_job *self = cay_new(struct collect_job);
    self->host = host;
    self->job.work = collect_work;
    self->job.done = collect_done;
    host->is_collecting = true;
    if (!cay_loop_try_submit(host->loop, &self->job)) {
        host->is_collecting = false; /* the daemon ends; the next one goes on */
        free(self);
    }
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
    cay_runtime_prepare(CAY_CONTAINER_OF(job, struct ready_job, job)->host->runtime);
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

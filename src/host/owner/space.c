/* SPDX-License-Identifier: Apache-2.0 */
#include "host/owner/space.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/quantity.h"
#include "host/session/host.h"

struct look_job {
    struct cay_job job;
    struct cay_host *host;
    struct cay_pool pool;    /* a copy: the host may move meanwhile, and keeps the old one open */
    struct cay_store *store; /* that, too */
    struct cay_space space;
};

void cay_space_look(const struct cay_pool *pool, struct cay_store *store,
                    struct cay_space *out_space)
{
    if (cay_pool_look(pool, &out_space->now, &out_space->err))
        (void)cay_store_health(store, &out_space->health, &out_space->err);
    out_space->looked_ns = cay_clock_wall_ns();
}

static void look_work(struct cay_job *job)
{
    struct look_job *self = CAY_CONTAINER_OF(job, struct look_job, job);
    cay_space_look(&self->pool, self->store, &self->space);
}

/* How full the pool is, by whatever it has least of. */
struct fullness {
    double share;
    bool is_inodes;
    char left[48]; /* "12 MiB", "300 files" */
};

static struct fullness bytes_of(const struct cay_pool_space *space)
{
    /* What only root may still write is not for sandboxes. */
    uint64_t usable = space->used_bytes + space->available_bytes;
    struct fullness full = {.share = usable ? (double)space->used_bytes / (double)usable : 1};
    char size[CAY_SIZE_BYTES];
    cay_size_format(space->available_bytes, size);
    snprintf(full.left, sizeof(full.left), "%s", size);
    return full;
}

static struct fullness inodes_of(const struct cay_pool_space *space)
{
    struct fullness full = {
        .share = space->inodes ? 1 - (double)space->free_inodes / (double)space->inodes : 0,
        .is_inodes = true,
    };
    snprintf(full.left, sizeof(full.left), "room for %" PRIu64 " files", space->free_inodes);
    return full;
}

static struct fullness fullness_of(const struct cay_pool_space *space)
{
    struct fullness bytes = bytes_of(space);
    struct fullness inodes = inodes_of(space);
    return inodes.share > bytes.share ? inodes : bytes;
}

void cay_space_seen(struct cay_host *host, const struct cay_pool *pool,
                    const struct cay_space *space)
{
    if (pool->path == host->pool.path)
        host->space->seen = *space;
}

/* What one of them is told may let others leave. */
static void tell_all(struct cay_host *host)
{
    struct cay_list_node *node;
    while ((node = cay_list_pop_front(&host->space->calls))) {
        struct cay_call *call = CAY_CONTAINER_OF(node, struct cay_call, in_service);
        call->on_cancel = NULL;
        host->space->looked(host, call);
    }
}

static void look_done(struct cay_job *job)
{
    struct look_job *self = CAY_CONTAINER_OF(job, struct look_job, job);
    struct cay_host *host = self->host;
    struct fullness before = fullness_of(&host->space->seen.now);
    cay_space_seen(host, &self->pool, &self->space);
    struct fullness now = fullness_of(&host->space->seen.now);
    if (before.share < host->settings->pool_warn && now.share >= host->settings->pool_warn)
        cay_log(CAY_WARN, "pool.nearly_full",
                CAY_I("used_bytes", (int64_t)host->space->seen.now.used_bytes),
                CAY_I("available_bytes", (int64_t)host->space->seen.now.available_bytes),
                CAY_I("free_inodes", (int64_t)host->space->seen.now.free_inodes));
    host->space->is_looking = false;
    free(self);
    tell_all(host);
}

static void look(struct cay_host *host)
{
    if (host->space->is_looking) /* a disk that does not answer is asked once */
        return;
    struct look_job *self = cay_new(struct look_job);
    self->host = host;
    self->pool = host->pool;
    self->store = host->store;
    self->job.work = look_work;
    self->job.done = look_done;
    host->space->is_looking = cay_loop_try_submit(host->loop, &self->job);
    if (!host->space->is_looking)
        free(self);
}

static void on_look(struct cay_timer *timer)
{
    look(CAY_CONTAINER_OF(timer, struct cay_space_watch, look)->host);
}

static void leave(struct cay_call *call)
{
    struct cay_error err = {};
    cay_list_remove(&call->in_service);
    cay_fail(&err, CAY_R_CANCELED, NULL);
    cay_call_fail(call, &err);
}

void cay_space_ask(struct cay_host *host, struct cay_call *call,
                   void (*seen)(struct cay_host *host, struct cay_call *call))
{
    look(host);
    if (!host->space->is_looking) { /* the workers have too much to do: what is known must do */
        seen(host, call);
        return;
    }
    host->space->looked = seen;
    call->on_cancel = leave;
    cay_list_push_back(&host->space->calls, &call->in_service);
}

void cay_space_start(struct cay_host *host)
{
    cay_space_look(&host->pool, host->store, &host->space->seen);
    cay_timer_open(&host->space->look, host->loop, on_look);
    uint64_t interval_ms = (uint64_t)host->settings->health_interval_ms;
    cay_timer_start(&host->space->look, interval_ms, interval_ms);
}

void cay_space_stop(struct cay_host *host)
{
    cay_timer_close(&host->space->look);
}

bool cay_space_check(struct cay_host *host, struct cay_error *err)
{
    struct cay_pool_space space;
    if (!cay_pool_look(&host->pool, &space, err))
        return false;
    if (space.is_read_only)
        return cay_fail(err, CAY_R_UNAVAILABLE,
                        "the pool is read-only; look at the kernel's log for what happened to it");
    struct fullness full = fullness_of(&space);
    return full.share < host->settings->pool_critical ||
           cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                    "the pool has only %s left; remove sessions ('cay du'), prune snapshots or "
                    "enlarge it",
                    full.left);
}

uint64_t cay_space_room(const struct cay_host *host, const struct cay_pool_space *space)
{
    double usable = (double)(space->used_bytes + space->available_bytes);
    double room = usable * host->settings->pool_critical - (double)space->used_bytes;
    return room > 0 ? (uint64_t)room : 0;
}

uint64_t cay_space_room_files(const struct cay_host *host, const struct cay_pool_space *space)
{
    double kept = (double)space->inodes * (1 - host->settings->pool_critical);
    double room = (double)space->free_inodes - kept;
    if (!space->inodes)
        return UINT64_MAX; /* as many as fit */
    return room > 0 ? (uint64_t)room : 0;
}

static const struct {
    enum cay_v1_pool_state state;
    const char *reason;
    const char *text;
} devices[] = {
    [CAY_STORE_HEALTH_UNKNOWN] = {CAY_V1_POOL_STATE_UNSPECIFIED, "pool_unknown",
                                  "the state of the pool's devices is not known"},
    [CAY_STORE_ONLINE] = {CAY_V1_POOL_STATE_ONLINE, NULL, NULL},
    [CAY_STORE_DEGRADED] = {CAY_V1_POOL_STATE_DEGRADED, "pool_degraded",
                            "the pool has fewer devices than it should have"},
    [CAY_STORE_FAULTED] = {CAY_V1_POOL_STATE_FAULTED, "pool_faulted",
                           "the pool cannot be used because of errors"},
    [CAY_STORE_OFFLINE] = {CAY_V1_POOL_STATE_OFFLINE, "pool_offline", "the pool is offline"},
    [CAY_STORE_UNAVAIL] = {CAY_V1_POOL_STATE_UNAVAIL, "pool_unavailable",
                           "the pool's devices cannot be opened"},
    [CAY_STORE_REMOVED] = {CAY_V1_POOL_STATE_REMOVED, "pool_removed",
                           "the pool's devices were removed"},
};

enum cay_v1_pool_state cay_space_state(const struct cay_space *space)
{
    if (space->err.reason)
        return CAY_V1_POOL_STATE_UNAVAIL;
    return space->health == CAY_STORE_ONLINE && space->now.is_read_only
               ? CAY_V1_POOL_STATE_READ_ONLY
               : devices[space->health].state;
}

static void add_full(const struct cay_host *host, const struct fullness *full,
                     struct cay_problems *problems)
{
    const char *advice = "remove sessions, prune snapshots or enlarge it";
    if (full->share >= host->settings->pool_critical)
        cay_problem_add(problems, CAY_V1_HEALTH_STATUS_UNHEALTHY,
                        full->is_inodes ? "pool_inodes_critical" : "pool_space_critical",
                        "the pool has only %s left; %s", full->left, advice);
    else if (full->share >= host->settings->pool_warn && (!full->is_inodes || full->share > 0))
        cay_problem_add(problems, CAY_V1_HEALTH_STATUS_DEGRADED,
                        full->is_inodes ? "pool_inodes_low" : "pool_space_low",
                        "the pool is %d %% full, it has %s left; %s", (int)(full->share * 100),
                        full->left, advice);
}

void cay_space_problems(const struct cay_host *host, struct cay_problems *problems)
{
    const struct cay_space *space = &host->space->seen;
    if (space->err.reason) { /* nothing else is known */
        cay_problem_add(problems, CAY_V1_HEALTH_STATUS_UNHEALTHY, "pool_unavailable",
                        "the pool cannot be used: %s", space->err.text);
        return;
    }
    if (space->health != CAY_STORE_ONLINE)
        cay_problem_add(problems,
                        space->health == CAY_STORE_DEGRADED ? CAY_V1_HEALTH_STATUS_DEGRADED
                                                            : CAY_V1_HEALTH_STATUS_UNHEALTHY,
                        devices[space->health].reason, "%s; 'zpool status' says more",
                        devices[space->health].text);
    if (space->now.is_read_only)
        cay_problem_add(problems, CAY_V1_HEALTH_STATUS_UNHEALTHY, "pool_read_only",
                        "the pool is read-only; look at the kernel's log");
    struct fullness bytes = bytes_of(&space->now);
    struct fullness inodes = inodes_of(&space->now);
    add_full(host, &bytes, problems);
    add_full(host, &inodes, problems);
}

void cay_problem_add(struct cay_problems *problems, enum cay_v1_health_status status,
                     const char *reason, const char *format, ...)
{
    va_list args;
    if (problems->count == CAY_PROBLEMS_MAX)
        return;
    char text[256];
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    size_t at = problems->count++;
    for (; at > 0 && problems->items[at - 1].status < status; at--)
        problems->items[at] = problems->items[at - 1];
    problems->items[at] = (struct cay_v1_health_problem){
        .reason = cay_str(reason),
        .status = status,
        .message = cay_arena_str(problems->arena, cay_str(text)),
    };
}

struct cay_space_watch *cay_space_watch_create(struct cay_host *host)
{
    struct cay_space_watch *watch = cay_new(struct cay_space_watch);
    watch->host = host;
    cay_list_init(&watch->calls);
    return watch;
}

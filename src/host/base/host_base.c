/* SPDX-License-Identifier: Apache-2.0 */
#include "host/base/host_base.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/quantity.h"
#include "base/stop.h"
#include "host/base/base_record.h"
#include "host/base/builds.h"
#include "host/session/endless.h"
#include "host/session/host.h"
#include "host/session/tidy.h"
#include "host/store/base.h"

enum {
    FIRST_LOOK_MS = 1000, /* a daemon that lives for one call does not begin with it */
    LOOK_MS = 10'000,
    LOOK_AGAIN_MS = 500,
    TICK_MS = 500,
    SETTLE_MS = 2000, /* packages come and go together: the last one is waited for */
    WAIT_MS = 10'000, /* of a create */
    BLOCK_BYTES = 4096,
};

static const char host_name[] = "host";

struct host_base_job {
    struct cay_job job;
    struct cay_host *host;
    struct cay_store *store; /* the host's when it began, */
    struct cay_pool pool;    /* and what that is in; the host keeps both open */
    struct cay_host_base_cost cost;
    char failed[CAY_STORE_NAME_SIZE]; /* not tried again unless somebody asks */
    bool is_asked;
    bool is_dropped; /* watched by the worker: the host has moved */
    int64_t started_ns;
    char name[CAY_STORE_NAME_SIZE];
    bool is_new;     /* it was made just now */
    bool is_early;   /* packages are still changing */
    bool is_skipped; /* nothing was tried */
    bool is_full;    /* others have taken the room meanwhile */
    bool is_good;
    struct cay_error err;
};

struct waiter {
    struct cay_list_node in_list;
    struct cay_host *host;
    struct cay_call *call;
    cay_verb *verb;
    struct cay_timer limit;
};

static bool is_there(const struct cay_host *host)
{
    char found[CAY_STORE_NAME_SIZE];
    struct cay_error ignored = {};
    return cay_store_base_resolve(host->store, host_name, found, &ignored);
}

/* --- the worker --- */

static bool check_room(const struct cay_host *host, const struct cay_pool *pool,
                       const struct cay_copy_stats *cost, struct cay_error *err)
{
    struct cay_pool_space space;
    char wanted[CAY_SIZE_BYTES];
    char room[CAY_SIZE_BYTES];
    if (!cost->entries)
        return true;
    if (!cay_pool_look(pool, &space, err))
        return false;
    uint64_t bytes_max = cay_space_room(host, &space);
    uint64_t files_max = cay_space_room_files(host, &space);
    static const char advice[] = "enlarge the pool ('cay pool grow'), or build or import a smaller "
                                 "base and make it default_base";
    if (cost->bytes > bytes_max) {
        cay_size_format(cost->bytes, wanted);
        cay_size_format(bytes_max, room);
        return cay_fail(err, CAY_R_NO_SPACE,
                        "the base 'host' is a copy of this machine's programs here, %s, and the "
                        "pool has room for %s; %s",
                        wanted, room, advice);
    }
    return cost->entries <= files_max ||
           cay_fail(err, CAY_R_NO_SPACE,
                    "the base 'host' is a copy of this machine's programs here, %llu files, and "
                    "the pool has room for %llu; %s",
                    (unsigned long long)cost->entries, (unsigned long long)files_max, advice);
}

void cay_host_base_measure(const struct cay_host *host, const struct cay_pool *pool,
                           struct cay_store *store, struct cay_host_base_cost *out_cost)
{
    struct cay_base_host_state state;
    struct cay_error ignored = {};
    if (!cay_base_host_state(host->host_base->root, &state, &ignored) ||
        !cay_base_host_cost(store, host->host_base->root, &out_cost->stats, &ignored))
        return;
    memcpy(out_cost->name, state.name, sizeof(state.name));
    (void)check_room(host, pool, &out_cost->stats, &out_cost->err);
}

/* Before anything is copied. */
static bool take_cost(void *context, const struct cay_copy_stats *cost, struct cay_error *err)
{
    struct host_base_job *self = context;
    struct cay_host_base *base = self->host->host_base;
    self->cost.stats = *cost;
    memcpy(self->cost.name, self->name, sizeof(self->name));
    if (!check_room(self->host, &self->pool, cost, err))
        return false;
    atomic_store(&base->bytes_total, CAY_MAX(cost->bytes, (uint64_t)1));
    cay_log(CAY_INFO, "base.copying", CAY_S("base", host_name),
            CAY_I("bytes", (int64_t)cost->bytes), CAY_I("files", (int64_t)cost->entries));
    return true;
}

/* The pool stays usable for others: whoever else writes to it comes first. */
static bool goes_on(void *context, uint64_t entries, uint64_t bytes)
{
    struct host_base_job *self = context;
    struct cay_host_base *base = self->host->host_base;
    struct cay_pool_space space;
    struct cay_error ignored = {};
    if (!atomic_load(&base->bytes_total))
        return true;
    /* A small file is as much work as a block or two. */
    const struct cay_copy_stats *cost = &self->cost.stats;
    double done = (double)bytes + (double)entries * BLOCK_BYTES;
    double total = (double)cost->bytes + (double)cost->entries * BLOCK_BYTES;
    atomic_store(&base->fraction, CAY_MIN(done / total, 1.0));
    self->is_full =
        cay_pool_look(&self->pool, &space, &ignored) &&
        (!cay_space_room(self->host, &space) || !cay_space_room_files(self->host, &space));
    return !self->is_full;
}

static bool make(struct host_base_job *self, struct cay_error *err)
{
    const struct cay_base_options options = {
        .progress = goes_on, .room = take_cost, .progress_ctx = self};
    if (!strcmp(self->cost.name, self->name) &&
        !check_room(self->host, &self->pool, &self->cost.stats, err))
        return false;
    self->is_new =
        cay_base_host(self->store, self->host->host_base->root, &options, self->name, err);
    if (self->is_full)
        cay_fail(err, CAY_R_NO_SPACE,
                 "the pool ran full while the base 'host' was being copied into it, and the copy "
                 "was removed; make room, or use a smaller base");
    return self->is_new;
}

static bool look(struct host_base_job *self, struct cay_error *err)
{
    struct cay_base_host_state state;
    struct cay_error ignored = {};
    char found[CAY_STORE_NAME_SIZE];
    if (!cay_base_host_state(self->host->host_base->root, &state, err))
        return false;
    memcpy(self->name, state.name, sizeof(state.name));
    bool has_one = cay_store_base_resolve(self->store, host_name, found, &ignored);
    if (has_one && !strcmp(found, state.name))
        return true;
    int64_t age_ns = cay_clock_wall_ns() - state.changed_ns;
    self->is_early = has_one && age_ns >= 0 && age_ns < SETTLE_MS * (int64_t)CAY_NS_PER_MS;
    self->is_skipped = !self->is_asked && !strcmp(self->failed, state.name);
    return self->is_early || self->is_skipped || make(self, err);
}

static void look_work(struct cay_job *job)
{
    struct host_base_job *self = CAY_CONTAINER_OF(job, struct host_base_job, job);
    (void)cay_stop_watch(&self->host->is_ending);
    cay_stop_watch_also(&self->is_dropped);
    self->is_good = look(self, &self->err);
    (void)cay_stop_watch(NULL);
}

/* --- those who wait --- */

static void waiter_free(struct waiter *self)
{
    cay_list_remove(&self->in_list);
    cay_list_remove(&self->call->in_service);
    self->call->state = NULL;
    self->call->on_cancel = NULL;
    cay_timer_close(&self->limit);
    free(self);
}

static void waiter_fail(struct waiter *self, const struct cay_error *err)
{
    struct cay_call *call = self->call;
    waiter_free(self);
    cay_call_fail(call, err);
}

static void on_cancel(struct cay_call *call)
{
    struct cay_error err = {};
    cay_fail(&err, CAY_R_CANCELED, NULL);
    waiter_fail(call->state, &err);
}

/* "3.1 GiB of 9.0 GiB are copied" */
static void how_far(const struct cay_host_base *base, char out[static 64])
{
    char done[CAY_SIZE_BYTES];
    char total[CAY_SIZE_BYTES];
    uint64_t bytes = atomic_load(&base->bytes_total);
    if (!bytes)
        bytes = base->cost.stats.bytes;
    cay_size_format((uint64_t)((double)bytes * atomic_load(&base->fraction)), done);
    cay_size_format(bytes, total);
    if (bytes)
        snprintf(out, 64, "%s of %s are copied", done, total);
    else
        snprintf(out, 64, "this takes some seconds");
}

static void on_limit(struct cay_timer *timer)
{
    struct waiter *self = CAY_CONTAINER_OF(timer, struct waiter, limit);
    struct cay_error err = {};
    char far[64];
    how_far(self->host->host_base, far);
    cay_fail(&err, CAY_R_BASE_NOT_READY,
             "the base 'host' is being made: %s; try again soon, or name another base", far);
    waiter_fail(self, &err);
}

static void wake_all(struct cay_host *host, const struct cay_error *err)
{
    struct cay_list_node *node = NULL;
    struct cay_list ready;
    cay_list_init(&ready);
    while ((node = cay_list_pop_front(&host->host_base->waiting)) != NULL)
        cay_list_push_back(&ready, node);
    while ((node = cay_list_first(&ready)) != NULL) {
        struct waiter *self = CAY_CONTAINER_OF(node, struct waiter, in_list);
        struct cay_call *call = self->call;
        cay_verb *verb = self->verb;
        if (err) {
            waiter_fail(self, err);
        } else {
            waiter_free(self);
            verb(&host->service, call);
        }
    }
}

/* --- the loop --- */

static void start_look(struct cay_host *host, bool is_asked);

static void tell_progress(struct cay_host *host)
{
    struct cay_host_base *base = host->host_base;
    if (!atomic_load(&base->bytes_total))
        return;
    if (!base->build) {
        base->build = cay_builds_begin(host, host_name);
        cay_build_tell(base->build, 0, "files cannot be linked into this pool: they are copied");
    }
    cay_build_tell(base->build, atomic_load(&base->fraction), NULL);
}

static void on_tick(struct cay_timer *timer)
{
    tell_progress(CAY_CONTAINER_OF(timer, struct cay_host_base, tick)->host);
}

static void settle(struct cay_host *host, struct host_base_job *job)
{
    struct cay_host_base *base = host->host_base;
    bool is_over = __atomic_load_n(&host->is_ending, __ATOMIC_RELAXED);
    if (base->build)
        cay_build_ended(cay_take_ptr(base->build), job->is_good ? NULL : &job->err);
    atomic_store(&base->bytes_total, 0);
    atomic_store(&base->fraction, 0);
    if (job->is_new) {
        cay_log(CAY_INFO, "base.made", CAY_S("base", job->name),
                CAY_I("duration_ms", (cay_clock_ns() - job->started_ns) / (int64_t)CAY_NS_PER_MS));
        base->has_old = true;
    }
    bool is_told = strcmp(base->err.text, job->err.text) == 0;
    if (!job->is_good && !is_over && !is_told)
        cay_log(CAY_WARN, "base.make_failed", CAY_S("base", host_name), CAY_ERR(&job->err));
    if (!job->is_skipped) {
        base->err = job->err;
        /* Room may come by itself; all else is tried again when somebody asks. */
        bool is_tried = !job->is_good && job->err.reason != CAY_R_NO_SPACE;
        snprintf(base->failed, sizeof(base->failed), "%s", is_tried ? job->name : "");
    }
    if (job->cost.name[0])
        base->cost = job->cost;
}

static void look_done(struct cay_job *job)
{
    struct host_base_job *self = CAY_CONTAINER_OF(job, struct host_base_job, job);
    struct cay_host *host = self->host;
    struct cay_host_base *base = host->host_base;
    bool is_again = base->is_asked || self->is_dropped;
    bool is_early = self->is_early;
    cay_timer_close(&base->tick);
    base->job = NULL;
    base->is_asked = false;
    if (!self->is_dropped)
        settle(host, self);
    struct cay_error err = self->err;
    bool is_good = self->is_good;
    bool is_new = self->is_new && !self->is_dropped;
    free(self);
    cay_host_collect_soon(host);
    if (is_new)
        cay_bases_sweep(host);
    if (is_there(host))
        wake_all(host, NULL);
    else if (!is_again && !is_good)
        wake_all(host, &err);
    if (is_again)
        start_look(host, true);
    else if (is_early && base->look.handle)
        cay_timer_start(&base->look, SETTLE_MS, LOOK_MS);
}

static void start_look(struct cay_host *host, bool is_asked)
{
    struct cay_host_base *base = host->host_base;
    if (__atomic_load_n(&host->is_ending, __ATOMIC_RELAXED))
        return;
    if (base->job) {
        base->is_asked = base->is_asked || (is_asked && !is_there(host));
        return;
    }
    struct host_base_job *self = cay_new(struct host_base_job);
    self->host = host;
    self->store = host->store;
    self->pool = host->pool;
    self->cost = base->cost;
    self->is_asked = is_asked;
    self->started_ns = cay_clock_ns();
    memcpy(self->failed, base->failed, sizeof(self->failed));
    self->job.work = look_work;
    self->job.done = look_done;
    if (!cay_loop_try_submit(host->loop, &self->job)) {
        free(self);
        return;
    }
    base->job = self;
    base->is_soon = false;
    base->looked_ms = cay_loop_now_ms(host->loop);
    cay_timer_open(&base->tick, host->loop, on_tick);
    cay_timer_start(&base->tick, TICK_MS, TICK_MS);
}

static void on_look(struct cay_timer *timer)
{
    struct cay_host *host = CAY_CONTAINER_OF(timer, struct cay_host_base, look)->host;
    if (host->host_base->is_wanted || is_there(host))
        start_look(host, false);
}

/* At creates, but not at all of them. */
static void look_soon(struct cay_host *host)
{
    struct cay_host_base *base = host->host_base;
    uint64_t since_ms = cay_loop_now_ms(host->loop) - base->looked_ms;
    if (base->job || base->is_soon || !base->look.handle)
        return;
    base->is_soon = true;
    cay_timer_start(&base->look, since_ms < LOOK_AGAIN_MS ? LOOK_AGAIN_MS - since_ms : 0, LOOK_MS);
}

void cay_host_base_start(struct cay_host *host)
{
    struct cay_host_base *base = host->host_base;
    base->is_wanted = strcmp(host->settings->default_base, host_name) == 0;
    cay_timer_open(&base->look, host->loop, on_look);
    cay_timer_start(&base->look, FIRST_LOOK_MS, LOOK_MS);
}

void cay_host_base_moved(struct cay_host *host, const struct cay_host_base_cost *cost)
{
    struct cay_host_base *base = host->host_base;
    if (base->job)
        cay_stop_ask(&base->job->is_dropped);
    base->cost = *cost;
    base->err = cost->err;
    base->failed[0] = '\0';
    cay_timer_start(&base->look, FIRST_LOOK_MS, LOOK_MS);
}

void cay_host_base_stop(struct cay_host *host)
{
    struct cay_error err = {};
    cay_fail(&err, CAY_R_UNAVAILABLE, NULL);
    cay_timer_close(&host->host_base->look);
    wake_all(host, &err);
}

bool cay_host_base_need(struct cay_host *host, struct cay_call *call, cay_verb *verb)
{
    struct cay_host_base *base = host->host_base;
    base->is_wanted = true;
    bool is_ready = is_there(host);
    if (!is_ready)
        start_look(host, true);
    else
        look_soon(host);
    if (is_ready)
        return true;
    struct waiter *self = cay_new(struct waiter);
    *self = (struct waiter){.host = host, .call = call, .verb = verb};
    call->state = self;
    call->on_cancel = on_cancel;
    cay_list_push_back(&base->waiting, &self->in_list);
    cay_host_endless(host, call);
    if (!call->caller.is_host) { /* a build has limits of its own */
        cay_timer_open(&self->limit, host->loop, on_limit);
        cay_timer_start(&self->limit, WAIT_MS, 0);
    }
    return false;
}

void cay_host_base_problems(const struct cay_host *host, struct cay_problems *problems)
{
    const struct cay_host_base *base = host->host_base;
    char far[64];
    if (!base->is_wanted)
        return;
    if (base->err.reason) {
        cay_problem_add(problems, CAY_V1_HEALTH_STATUS_DEGRADED, "base_failed", "%s%s",
                        is_there(host) ? "the base 'host' is out of date: " : "", base->err.text);
    } else if (base->cost.stats.entries && !is_there(host)) {
        how_far(base, far);
        cay_problem_add(problems, CAY_V1_HEALTH_STATUS_DEGRADED, "base_not_ready",
                        "the base 'host' is being copied into the pool: %s; sessions of other "
                        "bases can be made meanwhile",
                        far);
    }
}

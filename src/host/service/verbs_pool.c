/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/quantity.h"
#include "base/stop.h"
#include "host/base/builds.h"
#include "host/base/host_base.h"
#include "host/owner/account.h"
#include "host/owner/space.h"
#include "host/service/service_internal.h"
#include "host/service/verbs.h"
#include "host/session/host.h"
#include "host/session/session.h"

/* The pool, for its administrators. */

static bool check_admin(const struct cay_call *call, struct cay_error *err)
{
    return call->caller.role == CAY_ROLE_ADMIN ||
           cay_fail(err, CAY_R_PERMISSION_DENIED, "only an admin key may make and enlarge pools");
}

/* Nothing is wrong with a sparse pool until its disk is full, and then everything is. */
static struct cay_str overcommitted(const struct cay_pool_space *space, struct cay_arena *arena)
{
    char wanted[CAY_SIZE_BYTES];
    char left[CAY_SIZE_BYTES];
    cay_size_format(space->unreserved_bytes, wanted);
    cay_size_format(space->behind_bytes, left);
    const char *text = cay_arena_printf(
        arena, "the pool's file may still grow by %s, but its disk has only %s left; keep it free",
        wanted, left);
    return text ? cay_str(text) : (struct cay_str){};
}

static struct cay_v1_pool *pool_message(const struct cay_host *host, struct cay_arena *arena)
{
    struct cay_v1_pool *message = cay_arena_new(arena, struct cay_v1_pool);
    if (!message)
        return NULL;
    const struct cay_pool *pool = &host->pool;
    const struct cay_pool_space *space = &host->space->seen.now;
    struct cay_problems problems = {.arena = arena};
    bool is_loop = pool->kind == CAY_POOL_LOOP;
    struct cay_str path = cay_arena_str(arena, cay_str(pool->path));
    *message = (struct cay_v1_pool){
        .kind = is_loop                                   ? CAY_V1_POOL_KIND_LOOP
                : strcmp(space->filesystem, "btrfs") == 0 ? CAY_V1_POOL_KIND_BTRFS
                : strcmp(space->filesystem, "zfs") == 0   ? CAY_V1_POOL_KIND_ZFS
                                                          : CAY_V1_POOL_KIND_DIRECTORY,
        .store = cay_str(cay_store_kind(host->store)),
        .filesystem = cay_arena_str(arena, cay_str(space->filesystem)),
        .path = is_loop ? CAY_STR("") : path,
        .backing_file = is_loop ? path : CAY_STR(""),
        .state = cay_space_state(&host->space->seen),
        .size_bytes = (int64_t)space->size_bytes,
        .used_bytes = (int64_t)space->used_bytes,
        .available_bytes = (int64_t)space->available_bytes,
        .warn_threshold = host->settings->pool_warn,
        .critical_threshold = host->settings->pool_critical,
        .quota_enforcement = cay_store_caps(host->store) & CAY_STORE_KERNEL_QUOTA
                                 ? CAY_V1_ENFORCEMENT_KERNEL
                                 : CAY_V1_ENFORCEMENT_ACCOUNTING,
        .growable = is_loop,
    };
    cay_space_problems(host, &problems);
    cay_host_base_problems(host, &problems);
    if (problems.count)
        message->message = problems.items[0].message;
    else if (space->unreserved_bytes > space->behind_bytes)
        message->message = overcommitted(space, arena);
    return message;
}

/* One job for all three verbs: look, after creating or growing. */
struct pool_job {
    struct cay_job job;
    struct cay_call *call;
    struct cay_host *host;
    struct cay_pool_plan plan;
    uint64_t grow_bytes;
    bool is_create;
    struct cay_pool pool;    /* a copy of the host's, or the new one, */
    struct cay_store *store; /* and what is in it: the host's own, or the new one */
    char *store_kind;
    struct cay_space space;
    bool measures;                  /* the base "host" is wanted: */
    struct cay_host_base_cost cost; /* what it takes in the new pool */
    bool is_done;
    struct cay_error err;
};

static bool is_any(void *context, const struct cay_store_item *)
{
    *(bool *)context = true;
    return false;
}

/* What is in there belongs to somebody, and the next start would remove what no record knows. */
static bool check_empty(const struct pool_job *self, struct cay_error *err)
{
    bool has_items = false;
    if (!cay_store_list(self->store, is_any, &has_items, err))
        return false;
    return !has_items || cay_fail(err, CAY_R_ALREADY_EXISTS,
                                  "'%.200s' holds the sessions or bases of another host; give the "
                                  "pool an empty directory",
                                  self->pool.path);
}

static bool create(struct pool_job *self, struct cay_error *err)
{
    if (!cay_pool_create(self->host->settings->data_dir, &self->plan, &self->pool, err))
        return false;
    const struct cay_store_config config = {.kind = self->store_kind,
                                            .directory = self->pool.store_dir,
                                            .needs_owner_map =
                                                cay_host_needs_owner_map(self->host)};
    self->store = NULL; /* it was the host's */
    if (cay_store_open(&config, &self->store, err) && check_empty(self, err) &&
        cay_pool_keep(&self->pool, err))
        return true;
    cay_store_close(cay_take_ptr(self->store));
    cay_pool_discard(&self->pool);
    return false;
}

/* The pool is good without it: what is in the way of the base "host" is told, not more. */
static void measure_host_base(struct pool_job *self)
{
    (void)cay_stop_watch(&self->call->is_cancelled);
    cay_stop_watch_also(&self->host->is_ending);
    cay_host_base_measure(self->host, &self->pool, self->store, &self->cost);
    (void)cay_stop_watch(NULL);
}

static void pool_work(struct cay_job *job)
{
    struct pool_job *self = CAY_CONTAINER_OF(job, struct pool_job, job);
    self->is_done = self->is_create    ? create(self, &self->err)
                    : self->grow_bytes ? cay_pool_grow(&self->pool, self->grow_bytes, &self->err)
                                       : true;
    if (self->is_done && self->measures)
        measure_host_base(self);
    if (self->is_done)
        cay_space_look(&self->pool, self->store, &self->space);
}

static void answer(struct pool_job *self)
{
    struct cay_call *call = self->call;
    struct cay_v1_pool *message = pool_message(self->host, &call->arena);
    if (self->is_create) {
        struct cay_v1_create_pool_response response = {.progress = 1, .pool = message};
        if (!call->is_cancelled)
            (void)cay_call_send(call, &response);
        cay_call_done(call, NULL);
    } else if (self->grow_bytes) {
        struct cay_v1_grow_pool_response response = {.pool = message};
        cay_call_done(call, &response);
    } else {
        struct cay_v1_get_pool_response response = {.pool = message};
        cay_call_done(call, &response);
    }
}

static void pool_done(struct cay_job *job)
{
    struct pool_job *self = CAY_CONTAINER_OF(job, struct pool_job, job);
    struct cay_host *host = self->host;
    if (self->is_done) {
        if (self->is_create)
            cay_host_move(host, &self->pool, self->store, &self->cost);
        cay_space_seen(host, &self->pool, &self->space);
        answer(self);
    } else {
        cay_call_fail(self->call, &self->err);
    }
    host->is_moving = host->is_moving && !self->is_create;
    free(self->store_kind);
    free(self);
}

static struct pool_job *start(struct cay_service *service, struct cay_call *call)
{
    struct pool_job *self = cay_new(struct pool_job);
    self->call = call;
    self->host = cay_host_of(service);
    self->pool = self->host->pool;
    self->store = self->host->store;
    self->job.work = pool_work;
    self->job.done = pool_done;
    self->job.lane = &cay_account_of(self->host, call->caller.owner)->lane;
    return self;
}

void cay_host_get_pool(struct cay_service *service, struct cay_call *call)
{
    struct cay_error err = {};
    if (!check_admin(call, &err)) {
        cay_call_fail(call, &err);
        return;
    }
    cay_loop_submit(cay_host_of(service)->loop, &start(service, call)->job);
}

void cay_host_grow_pool(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_grow_pool_request *request = call->request;
    struct cay_error err = {};
    if (!check_admin(call, &err) ||
        (request->size_bytes <= 0 &&
         !cay_fail(&err, CAY_R_INVALID_ARGUMENT,
                   "size_bytes: it must be more than the pool has now"))) {
        cay_call_fail(call, &err);
        return;
    }
    struct pool_job *self = start(service, call);
    self->grow_bytes = (uint64_t)request->size_bytes;
    cay_loop_submit(self->host->loop, &self->job);
}

static bool is_strange(void *context, const struct cay_store_item *item)
{
    bool is_own = strncmp(item->name, "host-", 5) == 0 || strcmp(item->name, "host") == 0;
    *(bool *)context = *(bool *)context || !is_own;
    return true;
}

static bool check_create(struct cay_host *host, const struct cay_v1_create_pool_request *request,
                         struct cay_error *err)
{
    bool has_bases = false;
    bool is_loop = !request->kind || request->kind == CAY_V1_POOL_KIND_LOOP;
    if (strcmp(host->pool.path, host->settings->data_dir) != 0)
        return cay_fail(err, CAY_R_ALREADY_EXISTS, "this host has a pool already: '%s'",
                        host->pool.path);
    if (!cay_store_list(host->store, is_strange, &has_bases, err))
        return false;
    if (!cay_host_is_still(host, err))
        return false;
    if (has_bases || cay_map_count(&host->sessions.by_id) || host->base_calls ||
        host->builds->running)
        return cay_fail(err, CAY_R_INVALID_STATE,
                        "a pool can be made only before there are sessions and bases; export those "
                        "to keep, and remove them");
    if (is_loop != (request->size_bytes > 0) || request->size_bytes < 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "only a pool that is a file has a size; leave it out for a directory");
    return true;
}

void cay_host_create_pool(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_create_pool_request *request = call->request;
    struct cay_host *host = cay_host_of(service);
    struct cay_error err = {};
    if (!check_admin(call, &err) || !check_create(host, request, &err)) {
        cay_call_fail(call, &err);
        return;
    }
    struct pool_job *self = start(service, call);
    bool is_loop = !request->kind || request->kind == CAY_V1_POOL_KIND_LOOP;
    self->is_create = true;
    self->measures = host->host_base->is_wanted;
    self->plan = (struct cay_pool_plan){
        .kind = is_loop ? CAY_POOL_LOOP : CAY_POOL_DIRECTORY,
        .path = request->path.len ? cay_arena_copy(&call->arena, request->path) : NULL,
        .filesystem =
            request->filesystem.len ? cay_arena_copy(&call->arena, request->filesystem) : NULL,
        .bytes = (uint64_t)request->size_bytes,
        .is_sparse = request->sparse,
    };
    self->store_kind = cay_strdup(host->settings->store);
    host->is_moving = true;
    struct cay_v1_create_pool_response step = {.step = CAY_STR("making the file system")};
    (void)cay_call_send(call, &step);
    cay_loop_submit(host->loop, &self->job);
}

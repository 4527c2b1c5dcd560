/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/birth.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/crash.h"
#include "base/log.h"
#include "base/stop.h"
#include "host/session/base_record.h"
#include "host/session/deadline.h"
#include "host/session/held.h"
#include "host/session/host.h"
#include "host/session/live.h"
#include "host/session/network.h"
#include "host/session/pause.h"
#include "host/session/quota.h"
#include "host/session/request.h"
#include "host/session/space.h"
#include "host/session/start.h"
#include "host/session/tell.h"
#include "host/session/tidy.h"
#include "host/session/tree.h"
#include "host/session/watching.h"
#include "sys/descriptors.h"
#include "sys/mount.h"
#include "sys/userns.h"

struct cay_cgroup_limits cay_session_cgroup_limits(const struct cay_v1_resource_limits *limits)
{
    return (struct cay_cgroup_limits){
        .cpu_millis = limits->has_cpus ? (uint32_t)(limits->cpus * 1000) : 0,
        .memory_bytes = limits->has_memory_bytes ? (uint64_t)limits->memory_bytes : 0,
        .pids = limits->has_pids ? (uint32_t)limits->pids : 0,
    };
}

void cay_waking_init(struct cay_waking *waking, const struct cay_session *session,
                     bool needs_sandbox)
{
    *waking = (struct cay_waking){
        .uid_base = cay_session_uid_base(session),
        .slot = session->uid_slot,
        .is_open = cay_network_is_open(session->spec),
        .needs_mount = session->root_fd < 0,
        .needs_sandbox = needs_sandbox && !session->live,
        .root_fd = session->root_fd,
        .limits = cay_session_cgroup_limits(session->spec->limits),
    };
    memcpy(waking->store_id, session->store_id, sizeof(waking->store_id));
    /* A label of a host name: the session's id, with what DNS does not know replaced. */
    size_t len = CAY_MIN(strlen(session->id), sizeof(waking->hostname) - 2);
    for (size_t i = 0; i < len; i++) {
        char c = session->id[i];
        waking->hostname[i] = c == '.' || c == '_' ? '-' : c;
    }
}

/* Tree and sandbox have the same map of ids: one namespace for both. -1 when it is not for us to
 * make it, or when it fails: who needs one then makes it and says what is wrong. */
static int shared_userns(const struct cay_waking *waking, struct cay_host *host)
{
    bool is_shared = waking->needs_mount && waking->needs_sandbox &&
                     cay_store_caps(host->store) & CAY_STORE_ID_MAPPED &&
                     cay_runtime_caps(host->runtime) & CAY_RUNTIME_ISOLATES;
    return is_shared ? cay_userns_open(waking->uid_base, CAY_SESSION_ID_COUNT) : -1;
}

bool cay_waking_work(struct cay_waking *waking, struct cay_host *host, struct cay_error *err)
{
    cay_autoclose int userns_fd = shared_userns(waking, host);
    const struct cay_store_owner owner = {
        .id_base = waking->uid_base, .id_count = CAY_SESSION_ID_COUNT, .userns_fd = userns_fd};
    int status = cay_descriptors_check(); /* what is opened here stays open */
    if (status < 0)
        return cay_fail_errno(err, CAY_R_INTERNAL, status, "open the session's files");
    if (waking->needs_mount &&
        !cay_store_mount(host->store, waking->store_id, &owner, &waking->root_fd, err))
        return false;
    if (!waking->needs_sandbox)
        return true;
    const struct cay_sandbox_spec spec = {
        .id = waking->store_id,
        .root_fd = waking->root_fd,
        .uid_base = waking->uid_base,
        .userns_fd = userns_fd,
        .limits = waking->limits,
        .hostname = waking->hostname,
    };
    if (cay_runtime_start(host->runtime, &spec, &waking->sandbox, err) &&
        (!waking->is_open || cay_network_attach(host, waking->sandbox, waking->slot, err)))
        return true;
    cay_waking_undo(waking, host);
    return false;
}

void cay_waking_undo(struct cay_waking *waking, struct cay_host *host)
{
    struct cay_error err = {};
    if (waking->sandbox && waking->is_open && !cay_network_detach(host, waking->slot, &err))
        cay_log(CAY_WARN, "network.undo_failed", CAY_S("sandbox", waking->store_id), CAY_ERR(&err));
    if (waking->sandbox && !cay_sandbox_destroy(cay_take_ptr(waking->sandbox), &err))
        cay_log(CAY_WARN, "sandbox.undo_failed", CAY_S("sandbox", waking->store_id), CAY_ERR(&err));
    if (waking->needs_mount && waking->root_fd >= 0)
        close(cay_take_fd(waking->root_fd));
}

void cay_waking_install(struct cay_waking *waking, struct cay_session *session)
{
    struct cay_error err = {};
    if (waking->needs_mount && waking->root_fd >= 0) {
        cay_fail(&err, CAY_R_UNAVAILABLE, "the session's tree was mounted anew; watch again");
        cay_watching_end(session, &err);
    }
    session->root_fd = waking->root_fd;
    if (waking->sandbox) {
        session->state_text[0] = session->state_reason[0] = '\0';
        session->sandbox = cay_take_ptr(waking->sandbox);
        cay_live_open(session, false);
    }
}

static struct cay_birth *birth_of(struct cay_op *op)
{
    return CAY_CONTAINER_OF(op, struct cay_birth, op);
}

static bool birth_begin(struct cay_op *op, struct cay_error *err)
{
    struct cay_birth *birth = birth_of(op);
    struct cay_session *session = op->session;
    if (!cay_session_take_slot(session, err))
        return false;
    cay_session_record_take(&birth->record, session);
    bool needs_sandbox = birth->waking.needs_sandbox;
    cay_waking_init(&birth->waking, session, needs_sandbox);
    birth->cwd = session->spec->default_cwd; /* stays where it is: nobody else is in the gate */
    const struct cay_v1_resource_limits *limits = session->spec->limits;
    birth->disk_bytes = limits->has_disk_bytes ? limits->disk_bytes : 0;
    birth->user = session->spec->default_user;
    return true;
}

static bool make_tree(struct cay_birth *birth, struct cay_host *host, struct cay_error *err)
{
    if (birth->is_existing_tree)
        return true;
    struct cay_store_source source = {};
    if (birth->snapshot_store_id[0]) {
        source.snapshot = birth->snapshot_store_id;
    } else {
        source.base = birth->base;
    }
    return cay_store_create(host->store, birth->record.store_id, &source, err);
}

static bool birth_work(struct cay_op *op, struct cay_error *err)
{
    struct cay_birth *birth = birth_of(op);
    struct cay_host *host = op->host;
    struct cay_session_record *record = &birth->record;
    if (!cay_space_check(host, err) || !cay_session_record_put(host->db, record, err))
        return false;
    CAY_CRASH_POINT("create.intended");
    cay_op_watch(op);
    cay_stop_watch_also(&host->is_ending);
    bool is_made = cay_op_unwatch(op, make_tree(birth, host, err), err);
    CAY_CRASH_POINT("create.tree_made");
    is_made = is_made && cay_quota_set(host, record->store_id, birth->disk_bytes, err) &&
              cay_waking_work(&birth->waking, host, err);
    CAY_CRASH_POINT("create.awake");
    if (is_made && birth->base[0])
        cay_session_make_cwd(birth->waking.root_fd, birth->waking.uid_base, birth->user,
                             birth->cwd);
    if (is_made && birth->waking.is_open)
        cay_network_make_resolver(birth->waking.root_fd, birth->waking.uid_base);
    if (is_made) {
        record->state = CAY_SESSION_ACTIVE;
        if (birth->waking.sandbox)
            cay_sandbox_describe(birth->waking.sandbox, &record->sandbox);
        is_made = birth->is_held || cay_session_record_put(host->db, record, err);
        CAY_CRASH_POINT("create.recorded");
    }
    if (is_made)
        return true;
    struct cay_error ignored = {};
    cay_waking_undo(&birth->waking, host);
    if (!cay_store_destroy(host->store, record->store_id, &ignored) ||
        !cay_session_record_delete(host->db, record->id, &ignored))
        cay_log(CAY_WARN, "session.undo_failed", CAY_S("session", record->id), CAY_ERR(&ignored));
    return cay_wrap(err, "create session '%s'", record->id);
}

static void come_to_be(struct cay_session *session, const struct cay_call *call)
{
    struct cay_error ignored = {};
    (void)cay_session_step(session, CAY_VERB_CREATED, &ignored);
    cay_log(CAY_INFO, "session.created", CAY_S("session", session->id),
            CAY_S("owner", session->owner), CAY_S("base", session->spec->base));
    cay_deadline_set(session);
    if (session->live)
        cay_start_soon(session);
    cay_tell(session->host, &(struct cay_happening){.type = session->spec->parent_session_id.len
                                                                ? "session.forked"
                                                                : "session.created",
                                                    .session = session,
                                                    .call = call,
                                                    .fact = "base",
                                                    .value = session->spec->base});
}

static void leave(struct cay_birth *birth)
{
    cay_session_record_finish(&birth->record);
    cay_op_leave(&birth->op);
    free(birth);
}

void cay_birth_release(struct cay_birth *birth)
{
    come_to_be(birth->session, birth->call);
    leave(birth);
}

static void birth_end(struct cay_op *op)
{
    struct cay_birth *birth = birth_of(op);
    struct cay_session *session = op->session;
    birth->err = op->err;
    birth->session = session;
    if (op->is_done) {
        cay_waking_install(&birth->waking, session);
        if (!birth->is_held)
            come_to_be(session, birth->call);
        cay_host_prepare_soon(op->host);
        cay_host_spares_soon(op->host);
    } else {
        cay_session_forget(session);
        birth->session = NULL;
        cay_host_collect_soon(op->host); /* what there was of its tree */
    }
    bool is_kept = op->is_done && birth->is_held;
    birth->born(birth);
    if (!is_kept)
        leave(birth);
}

static const struct cay_op_steps birth_steps = {
    .begin = birth_begin,
    .work = birth_work,
    .end = birth_end,
};

static void start_birth(struct cay_session *session, struct cay_call *call,
                        const struct cay_birth_source *source, bool is_lazy, bool is_held,
                        cay_birth_fn *born)
{
    struct cay_birth *birth = cay_new(struct cay_birth);
    birth->call = call;
    birth->is_held = is_held;
    birth->born = born;
    birth->waking.needs_sandbox = !is_lazy;
    birth->is_existing_tree = !source->base && !source->snapshot_store_id;
    if (source->base)
        snprintf(birth->base, sizeof(birth->base), "%s", source->base);
    if (source->snapshot_store_id)
        snprintf(birth->snapshot_store_id, sizeof(birth->snapshot_store_id), "%s",
                 source->snapshot_store_id);
    if (!session->store_id[0])
        cay_store_new_id(session->store_id);
    cay_op_start_on(&birth->op, session, call, CAY_VERB_CREATED, true, &birth_steps);
}

void cay_birth_start(struct cay_session *session, struct cay_call *call,
                     const struct cay_birth_source *source, bool is_lazy, cay_birth_fn *born)
{
    start_birth(session, call, source, is_lazy, false, born);
}

void cay_birth_start_held(struct cay_session *session, struct cay_call *call,
                          const struct cay_birth_source *source, bool is_lazy, cay_birth_fn *born)
{
    start_birth(session, call, source, is_lazy, true, born);
}

struct wake_op {
    struct cay_op op;
    struct cay_waking waking;
    struct cay_session_record record;
    bool needs_sandbox;
    void (*awake)(struct cay_call *call, struct cay_session *session, void *context,
                  const struct cay_error *err);
    void *context;
};

/* A root that was taken over with its sandbox is a mount of the sandbox's own: when that is lost,
 * no other can have it, and the tree is mounted anew. Nobody else uses it now. */
static void drop_foreign_root(struct cay_session *session)
{
    if (session->root_fd < 0 || session->live)
        return;
    int copy_fd = cay_mount_clone(session->root_fd, "", false);
    if (copy_fd == -EINVAL)
        cay_host_close_later(session->host, cay_take_fd(session->root_fd));
    cay_host_close_later(session->host, copy_fd);
}

static bool wake_begin(struct cay_op *op, struct cay_error *)
{
    struct wake_op *self = CAY_CONTAINER_OF(op, struct wake_op, op);
    drop_foreign_root(op->session);
    cay_waking_init(&self->waking, op->session, self->needs_sandbox);
    cay_session_record_take(&self->record, op->session);
    return true;
}

static bool wake_work(struct cay_op *op, struct cay_error *err)
{
    struct wake_op *self = CAY_CONTAINER_OF(op, struct wake_op, op);
    struct cay_host *host = op->host;
    /* What a dead sandbox left behind must not be in the way of the new one. */
    if (self->waking.needs_sandbox &&
        !cay_runtime_remove(host->runtime, self->waking.store_id, err))
        return false;
    if (!cay_waking_work(&self->waking, host, err))
        return cay_wrap(err, "wake session '%s'", self->record.id);
    if (!self->waking.sandbox)
        return true;
    CAY_CRASH_POINT("wake.started");
    cay_sandbox_describe(self->waking.sandbox, &self->record.sandbox);
    if (cay_session_record_put(host->db, &self->record, err)) {
        CAY_CRASH_POINT("wake.recorded");
        return true;
    }
    cay_waking_undo(&self->waking, host);
    return false;
}

/* A tree that the store or its disk does not have will not come back by itself. */
static bool is_tree_gone(const struct cay_error *err)
{
    return err->reason == CAY_R_SESSION_NOT_FOUND ||
           (err->reason == CAY_R_STORE_FAILED && err->sys_errno == ENOENT);
}

static void wake_end(struct cay_op *op)
{
    struct wake_op *self = CAY_CONTAINER_OF(op, struct wake_op, op);
    struct cay_session *session = op->session;
    if (op->is_done)
        cay_waking_install(&self->waking, session);
    if (op->is_done && self->waking.needs_sandbox && session->live)
        cay_start_soon(session);
    if (!op->is_done && !session->is_gone && is_tree_gone(&op->err)) {
        struct cay_error gone = {};
        cay_log(CAY_ERROR, "session.wake_failed", CAY_S("session", session->id), CAY_ERR(&op->err));
        cay_fail(&gone, CAY_R_DATA_LOSS, "its files are gone");
        cay_session_break(session, &gone);
        (void)cay_session_step(session, CAY_VERB_TOOL, &op->err); /* refused, in the words for it */
    }
    cay_session_record_finish(&self->record);
    /* Held until the caller has looked: leaving may free a session that is gone. */
    self->awake(op->call, session, self->context, op->is_done ? NULL : &op->err);
    cay_op_leave(op);
    free(self);
}

static const struct cay_op_steps wake_steps = {
    .begin = wake_begin,
    .work = wake_work,
    .end = wake_end,
};

/* A call found the session paused and may wake it; now it is active, or not to be woken. */
static void wake_resumed(struct cay_session *session, void *context, const struct cay_error *err)
{
    struct wake_op *self = context;
    if (err)
        self->awake(self->op.call, session, self->context, err);
    else
        cay_wake(session, self->op.call, self->needs_sandbox, self->awake, self->context);
    free(self);
}

void cay_wake(struct cay_session *session, struct cay_call *call, bool needs_sandbox,
              void (*awake)(struct cay_call *call, struct cay_session *session, void *context,
                            const struct cay_error *err),
              void *context)
{
    bool is_paused = session->state == CAY_SESSION_PAUSED;
    if (!is_paused && session->root_fd >= 0 && (session->live || !needs_sandbox)) {
        awake(call, session, context, NULL);
        return;
    }
    struct wake_op *self = cay_new(struct wake_op);
    self->needs_sandbox = needs_sandbox;
    self->awake = awake;
    self->context = context;
    self->op.call = call;
    if (is_paused)
        cay_resume_then(session, wake_resumed, self);
    else
        cay_op_start_on(&self->op, session, call, CAY_VERB_TOOL, true, &wake_steps);
}

struct death_op {
    struct cay_op op;
    struct cay_session_record record;
    struct cay_sandbox *sandbox;
    char (*snapshot_ids)[CAY_STORE_ID_SIZE];
    size_t snapshot_count;
    int root_fd;
    const char *why; /* it goes by itself; NULL: somebody asked for it */
    bool was_gone;
    bool is_unborn; /* reserved for a fork; there is no record of it */
    bool is_open;   /* its network */
};

static void list_snapshots(struct death_op *self, const struct cay_session *session)
{
    self->snapshot_ids =
        cay_realloc_array(NULL, cay_session_snapshot_count(session) + 1, CAY_STORE_ID_SIZE);
    cay_list_for_each (struct cay_snapshot, snapshot, &session->snapshots, in_session)
        memcpy(self->snapshot_ids[self->snapshot_count++], snapshot->store_id, CAY_STORE_ID_SIZE);
}

static bool death_begin(struct cay_op *op, struct cay_error *err)
{
    struct death_op *self = CAY_CONTAINER_OF(op, struct death_op, op);
    struct cay_session *session = op->session;
    bool was_active = session->state == CAY_SESSION_ACTIVE;
    bool was_creating = session->state == CAY_SESSION_CREATING;
    self->was_gone = session->is_gone;
    if (self->was_gone)
        return true;
    if (!cay_session_step(session, CAY_VERB_DESTROY, err))
        return false;
    session->processes.is_closing = true; /* their records go with the session's */
    self->is_unborn = was_creating && session->uid_slot == CAY_UID_SLOT_COUNT;
    /* Who waits for a command gets what it wrote. A frozen one ends when its sandbox does. */
    op->kills = was_active && session->live && cay_live_is_followed(session->live);
    return true;
}

static bool death_ready(struct cay_op *op, struct cay_error *)
{
    struct death_op *self = CAY_CONTAINER_OF(op, struct death_op, op);
    struct cay_session *session = op->session;
    if (self->was_gone)
        return true;
    self->sandbox = cay_live_close(session, CAY_R_SESSION_DESTROYING);
    self->is_open = cay_network_is_open(session->spec) && session->uid_slot < CAY_UID_SLOT_COUNT;
    cay_timer_close(&session->deadline);
    struct cay_error ending = {};
    cay_fail(&ending, CAY_R_SESSION_DESTROYING, NULL);
    cay_watching_end(session, &ending);
    cay_held_end_all(session);
    self->root_fd = cay_take_fd(session->root_fd);
    cay_session_record_take(&self->record, session);
    list_snapshots(self, session);
    return true;
}

/* Its past goes with it; what forks share of it, the store keeps for them. */
static bool delete_snapshots(const struct death_op *self, struct cay_error *err)
{
    for (size_t i = 0; i < self->snapshot_count; i++) {
        if (!cay_store_delete_snapshot(self->op.host->store, self->snapshot_ids[i], err))
            return false;
    }
    return true;
}

static bool death_work(struct cay_op *op, struct cay_error *err)
{
    struct death_op *self = CAY_CONTAINER_OF(op, struct death_op, op);
    struct cay_host *host = op->host;
    const char *store_id = self->record.store_id;
    if (self->was_gone)
        return true;
    if (self->is_unborn)
        return cay_store_destroy(host->store, store_id, err);
    if (!cay_session_record_put(host->db, &self->record, err))
        return false;
    CAY_CRASH_POINT("destroy.intended");
    struct cay_error ignored = {};
    if (self->root_fd >= 0)
        close(cay_take_fd(self->root_fd));
    if (self->sandbox)
        (void)cay_sandbox_destroy(cay_take_ptr(self->sandbox), &ignored);
    else if (!cay_runtime_remove(host->runtime, store_id, err))
        return false;
    CAY_CRASH_POINT("destroy.sandbox_gone");
    if (self->is_open && !cay_network_detach(host, self->record.uid_slot, err))
        return false;
    if (!cay_store_destroy(host->store, store_id, err) || !delete_snapshots(self, err))
        return false;
    CAY_CRASH_POINT("destroy.trees_gone");
    if (!cay_session_record_delete(host->db, self->record.id, err))
        return false;
    CAY_CRASH_POINT("destroy.recorded");
    return true;
}

/* One that is waited for, until its space is free. */
struct freed_wait {
    struct cay_freeing freeing;
    struct cay_call *call;
    bool existed;
};

static void on_freed(struct cay_freeing *freeing, const struct cay_error *err)
{
    struct freed_wait *self = CAY_CONTAINER_OF(freeing, struct freed_wait, freeing);
    struct cay_call *call = self->call;
    struct cay_v1_destroy_session_response response = {.existed = self->existed};
    free(self);
    if (err)
        cay_call_fail(call, err);
    else
        cay_call_done(call, &response);
}

static void answer_death(struct cay_host *host, struct cay_call *call, bool existed)
{
    const struct cay_v1_destroy_session_request *request = call->request;
    struct cay_v1_destroy_session_response response = {.existed = existed};
    if (!request->wait) {
        cay_call_done(call, &response);
        return;
    }
    struct freed_wait *self = cay_new(struct freed_wait);
    *self = (struct freed_wait){.freeing.freed = on_freed, .call = call, .existed = existed};
    cay_host_collect_then(host, &self->freeing);
}

static void death_end(struct cay_op *op)
{
    struct death_op *self = CAY_CONTAINER_OF(op, struct death_op, op);
    struct cay_session *session = op->session;
    struct cay_call *call = op->call;
    struct cay_host *host = op->host;
    struct cay_error err = op->err;
    bool is_done = op->is_done;
    if (session && is_done && !session->is_gone) {
        cay_session_forget(session);
        const struct cay_v1_network_policy *network = session->spec->network;
        cay_gone_add(&host->gone, session->id, session->owner,
                     network && (network->public_ports || network->private_ports),
                     self->why ? self->why : "requested");
        cay_log(CAY_INFO, "session.destroyed", CAY_S("session", session->id),
                CAY_S("why", self->why ? self->why : "requested"));
        cay_tell(host, &(struct cay_happening){.type = "session.destroyed",
                                               .session = session,
                                               .call = call,
                                               .reason = self->why ? self->why : "requested"});
        cay_host_collect_soon(host);
    } else if (session && !is_done) {
        cay_deadline_retry(session);
        cay_log(CAY_ERROR, "session.destroy_failed", CAY_S("session", session->id), CAY_ERR(&err));
    }
    cay_host_close_later(host, self->root_fd);
    if (self->sandbox) /* it got no further than the record: the next try ends it */
        session->sandbox = self->sandbox;
    cay_session_record_finish(&self->record);
    free(self->snapshot_ids);
    cay_op_leave(op);
    free(self);
    if (!call)
        return;
    const struct cay_v1_destroy_session_request *request = call->request;
    if (!is_done && !(err.reason == CAY_R_SESSION_NOT_FOUND && request->missing_ok))
        cay_call_fail(call, &err);
    else
        answer_death(host, call, is_done);
}

static const struct cay_op_steps death_steps = {
    .begin = death_begin,
    .ready = death_ready,
    .work = death_work,
    .end = death_end,
};

void cay_host_destroy_session(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_destroy_session_request *request = call->request;
    struct death_op *self = cay_new(struct death_op);
    struct cay_error err = {};
    self->root_fd = -1;
    self->op.drain.goes_on = true;
    if (!cay_check_drain(request->drain_timeout, &self->op.drain, &err)) {
        free(self);
        cay_call_fail(call, &err);
        return;
    }
    cay_op_start(&self->op, cay_host_of(service), call, request->session_id, CAY_VERB_DESTROY, true,
                 &death_steps);
}

void cay_death_start(struct cay_session *session, const char *why)
{
    struct death_op *self = cay_new(struct death_op);
    self->root_fd = -1;
    self->why = why;
    cay_op_start_on(&self->op, session, NULL, CAY_VERB_DESTROY, true, &death_steps);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/life/death.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/crash.h"
#include "base/log.h"
#include "host/life/deadline.h"
#include "host/life/verbs.h"
#include "host/live/filtered.h"
#include "host/live/live.h"
#include "host/live/network.h"
#include "host/live/watching.h"
#include "host/owner/held.h"
#include "host/session/gone.h"
#include "host/session/host.h"
#include "host/session/op.h"
#include "host/session/record.h"
#include "host/session/request.h"
#include "host/session/session.h"
#include "host/session/state.h"
#include "host/session/tell.h"
#include "host/session/tidy.h"

struct death_op {
    struct cay_op op;
    struct cay_session_record record;
    struct cay_runtime *runtime;
    struct cay_sandbox *sandbox;
    char (*snapshot_ids)[CAY_STORE_ID_SIZE];
    size_t snapshot_count;
    int root_fd;
    const char *why; /* it goes by itself; NULL: somebody asked for it */
    bool was_gone;
    bool is_unborn; /* reserved for a fork; there is no record of it */
    enum cay_v1_network_mode network;
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
    self->runtime = session->runtime;
    self->sandbox = cay_live_close(session, CAY_R_SESSION_DESTROYING);
    self->network = session->uid_slot < CAY_UID_SLOT_COUNT ? cay_network_mode(session->spec)
                                                           : CAY_V1_NETWORK_MODE_NONE;
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
    else if (!cay_runtime_remove(self->runtime, store_id, err))
        return false;
    CAY_CRASH_POINT("destroy.sandbox_gone");
    if (!cay_network_detach(host, NULL, self->record.uid_slot, self->network, err))
        return false;
    cay_filtering_remove_names(host, store_id);
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/past/verbs_turn.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/limits.h"
#include "api/noun.h"
#include "base/crash.h"
#include "base/log.h"
#include "base/stop.h"
#include "host/base/publish.h"
#include "host/live/live.h"
#include "host/owner/account_quota.h"
#include "host/owner/space.h"
#include "host/past/history.h"
#include "host/past/point.h"
#include "host/past/snapshot.h"
#include "host/past/snapshot_name.h"
#include "host/past/verbs.h"
#include "host/past/victims.h"
#include "host/session/host.h"
#include "host/session/quota.h"
#include "host/session/request.h"
#include "host/session/tell.h"
#include "host/session/tidy.h"

enum {
    TIDY_EVERY = 16, /* snapshots: the store makes deep histories flat, and blanks ahead */
};

/* One snapshot on its way: a turn, a named one, or one after a tool call. */
struct snapshot_op {
    struct cay_op op;
    struct cay_pointing pointing;
    struct cay_snapshot_record snapshot;
    struct cay_session_record session;
    struct cay_v1_snapshot *spec; /* in the call's arena */
    struct cay_victims victims;   /* older ones that it is one too many for */
    enum cay_v1_snapshot_kind kind;
    bool is_durable;
    bool is_parent_same; /* what was pruned between it and its parent had changed nothing */
    struct cay_point point;
    struct cay_point_size size;
    struct cay_publishing *publishing;   /* also a base; or NULL */
    const struct cay_snapshot *repeated; /* the one an earlier call made */
    bool is_switch_broken;
    struct cay_error switch_err;
    cay_tool_snapshot_fn *taken; /* after a tool call: who goes on with it */
    void *context;
};

static struct snapshot_op *snapshot_of(struct cay_op *op)
{
    return CAY_CONTAINER_OF(op, struct snapshot_op, op);
}

/* The turn that an earlier call of the same id made; NULL when this is the first. */
static const struct cay_snapshot *find_request(const struct snapshot_op *self)
{
    const char *id = self->snapshot.request_id;
    if (!id[0])
        return NULL;
    cay_list_for_each_back(struct cay_snapshot, snapshot, &self->op.session->snapshots, in_session)
    {
        if (strcmp(snapshot->request_id, id) == 0)
            return snapshot;
    }
    return NULL;
}

/* The new one counts, if it is of a kind that is pruned. */
static bool choose_victims(struct snapshot_op *self, struct cay_session *session,
                           struct cay_error *err)
{
    cay_victims_init(&self->victims);
    if (session->spec->max_snapshots > 0 && self->kind != CAY_V1_SNAPSHOT_KIND_NAMED)
        cay_victims_add_oldest(&self->victims, session, (size_t)session->spec->max_snapshots - 1,
                               false);
    const struct cay_call *call = self->op.call;
    if (!self->victims.count &&
        !cay_quotas_check_snapshot(session, call ? &call->caller : NULL, err))
        return false;
    cay_victims_settle(&self->victims, session);
    return cay_victims_find_heirs(&self->victims, session, err);
}

static bool snapshot_begin(struct cay_op *op, struct cay_error *err)
{
    struct snapshot_op *self = snapshot_of(op);
    struct cay_session *session = op->session;
    struct cay_v1_snapshot *spec = self->spec;
    struct cay_snapshot_record *record = &self->snapshot;
    self->repeated = find_request(self);
    if (self->repeated) {
        memcpy(record->session_id, session->id, sizeof(record->session_id));
        memcpy(record->name, self->repeated->name, sizeof(record->name));
        memcpy(record->store_id, self->repeated->store_id, sizeof(record->store_id));
        cay_point_set(&self->point, self->repeated);
        cay_point_set_parent(&self->point, self->repeated->parent);
        return true;
    }
    if (!cay_quota_check(session, err))
        return false;
    if (self->kind == CAY_V1_SNAPSHOT_KIND_TURN)
        spec->turn_number = cay_snapshot_name_next(session, op->host->settings->snapshot_prefix,
                                                   session->turn_count, record->name);
    else if (self->taken)
        cay_snapshot_name_after_tool(spec->tool_call_id, cay_clock_wall_ns(), record->name);
    else
        cay_snapshot_name_choose(spec->name, record->name);
    spec->name = cay_str(record->name);
    if (cay_session_snapshot(session, spec->name))
        return cay_fail(err, CAY_R_SNAPSHOT_EXISTS,
                        "session '%s' has a snapshot '%s' already; choose another name",
                        session->id, record->name);
    memcpy(record->session_id, session->id, sizeof(record->session_id));
    cay_store_new_id(record->store_id);
    record->is_pending = true;
    record->created_ns = cay_clock_wall_ns();
    if (!choose_victims(self, session, err))
        return false;
    struct cay_snapshot *head = cay_session_snapshot(session, cay_str(session->head));
    const struct cay_snapshot *parent = cay_victims_survivor(&self->victims, head);
    self->is_parent_same = cay_victims_are_same(&self->victims, head);
    memcpy(self->point.store_id, record->store_id, sizeof(record->store_id));
    cay_point_set_parent(&self->point, parent);
    spec->kind = self->kind;
    spec->turn_number = spec->turn_number ? spec->turn_number : session->turn_count;
    spec->parent = parent ? cay_arena_str(&op->call->arena, cay_str(parent->name)) : CAY_STR("");
    spec->created_at = cay_noun_time(&op->call->arena, record->created_ns);
    spec->actor =
        cay_str(op->call->caller.key_id[0] ? op->call->caller.key_id : op->call->caller.owner);
    /* The session as it will be: a turn's number is used up by success only. */
    cay_session_record_take(&self->session, session);
    memcpy(self->session.head, record->name, sizeof(record->name));
    self->session.turn_count = CAY_MAX(session->turn_count, spec->turn_number);
    cay_pointing_init(&self->pointing, session);
    return (!self->publishing ||
            cay_publishing_begin(self->publishing, op->call, session, record->name, err)) &&
           cay_snapshot_record_set_spec(record, spec, err);
}

/* As if it had never been asked for. What cannot be removed now, the next start removes. */
static bool take_back(const struct snapshot_op *self, struct cay_host *host, struct cay_error *err)
{
    struct cay_error left = {};
    if (self->publishing)
        cay_base_keeping_take_back(&self->publishing->keeping);
    if (!cay_store_delete_snapshot(host->store, self->snapshot.store_id, &left) ||
        !cay_snapshot_record_delete(host->db, self->snapshot.session_id, self->snapshot.name,
                                    &left))
        cay_log(CAY_WARN, "snapshot.undo_failed", CAY_S("session", self->snapshot.session_id),
                CAY_ERR(&left));
    return cay_wrap(err, "snapshot '%s' of session '%s'", self->snapshot.name,
                    self->snapshot.session_id);
}

static bool publish(struct snapshot_op *self, struct cay_error *err)
{
    cay_op_watch(&self->op);
    cay_stop_watch_also(&self->op.host->is_ending);
    bool is_good = cay_publishing_work(self->publishing, self->snapshot.store_id, err);
    return cay_op_unwatch(&self->op, is_good, err);
}

static bool take_snapshot(struct cay_op *op, struct cay_error *err)
{
    struct snapshot_op *self = snapshot_of(op);
    struct cay_host *host = op->host;
    struct cay_pointing *pointing = &self->pointing;
    if (!cay_space_check(host, err) || !cay_snapshot_record_put(host->db, &self->snapshot, err))
        return false;
    CAY_CRASH_POINT("turn.intended");
    bool is_taken = cay_pointing_freeze(pointing, err);
    if (is_taken) {
        CAY_CRASH_POINT("turn.frozen");
        const struct cay_store_snapshot_request request = {
            .session_id = pointing->store_id,
            .snapshot_id = self->snapshot.store_id,
            .activity = pointing->activity,
            .owner = pointing->is_mounted ? &pointing->owner : NULL,
            .previous_id = pointing->head_store_id,
        };
        if (!self->taken) /* one after a tool is taken also when its caller has gone */
            cay_op_watch(op);
        is_taken = cay_op_unwatch(
            op, cay_store_snapshot(host->store, &request, &pointing->point, err), err);
        CAY_CRASH_POINT("turn.taken");
        cay_pointing_thaw(pointing);
    }
    if (!is_taken)
        return take_back(self, host, err);
    self->is_switch_broken = !cay_pointing_switch(pointing, &self->switch_err);
    CAY_CRASH_POINT("turn.switched");
    /* Now that nobody stands still for it, and the old root is left: it may fail. */
    if (self->is_durable && !cay_store_sync(host->store, err))
        return take_back(self, host, err);
    if (self->publishing && !publish(self, err))
        return take_back(self, host, err);
    self->spec->unchanged = !pointing->point.changed && self->is_parent_same;
    self->spec->durable = self->is_durable;
    self->snapshot.is_pending = false;
    self->session.generation = pointing->point.generation;
    if (!cay_snapshot_record_set_spec(&self->snapshot, self->spec, err) ||
        !(self->is_durable ? cay_db_transaction_begin_durable(host->db, err)
                           : cay_db_transaction_begin(host->db, err)) ||
        !cay_db_transaction_end(
            host->db,
            cay_snapshot_record_put(host->db, &self->snapshot, err) &&
                cay_session_record_put(host->db, &self->session, err) &&
                (!self->publishing || cay_base_keeping_confirm(&self->publishing->keeping, err)) &&
                cay_victims_unrecord(&self->victims, host->db, self->session.id, err),
            err))
        return take_back(self, host, err);
    CAY_CRASH_POINT("turn.recorded");
    cay_victims_delete(&self->victims, host->store);
    return true;
}

/* What was said the first time, in the place of what is said now. */
static bool read_repeated(struct snapshot_op *self, struct cay_error *err)
{
    return cay_snapshot_read_words(self->op.host->db, cay_str(self->snapshot.session_id),
                                   cay_str(self->snapshot.name), &self->op.call->arena, self->spec,
                                   NULL, err);
}

static bool snapshot_work(struct cay_op *op, struct cay_error *err)
{
    struct snapshot_op *self = snapshot_of(op);
    if (self->repeated ? !read_repeated(self, err) : !take_snapshot(op, err))
        return false;
    if (self->taken)
        return true; /* nobody sees the size of one after a tool */
    /* A turn costs the same however much changed; to count that does not. What is more is counted
     * in the background. One that shares its parent's data is as large as it, known or not. */
    if (self->spec->unchanged && !self->point.total_bytes) {
        self->size = (struct cay_point_size){.total_bytes = self->point.parent_total_bytes};
    } else {
        cay_stop_after(CAY_POINT_LOOKS_MAX);
        self->size = cay_history_measure(op->host->store, &self->point);
        cay_stop_after(0);
    }
    self->spec->total_bytes = self->size.total_bytes;
    return true;
}

static void answer_snapshot(struct cay_op *op, const struct cay_snapshot *snapshot)
{
    struct snapshot_op *self = snapshot_of(op);
    struct cay_v1_snapshot *message = self->spec;
    const struct cay_v1_snapshot said = *self->spec;
    /* The place of the head is known; a long history is walked through for others only. */
    if (strcmp(op->session->head, snapshot->name) != 0)
        cay_history_mark(op->session);
    cay_history_message(op->session, snapshot, message);
    message->message = said.message;
    message->metadata = said.metadata;
    message->size_bytes = message->unchanged ? 0 : self->size.own_bytes;
    message->total_bytes = self->size.total_bytes;
    if (self->taken) {
        self->taken(self->context, snapshot->name, NULL);
    } else if (self->kind == CAY_V1_SNAPSHOT_KIND_TURN) {
        struct cay_v1_turn_complete_response response = {
            .snapshot = message, .pruned = cay_victims_names(&self->victims, &op->call->arena)};
        cay_call_done(op->call, &response);
    } else {
        struct cay_v1_create_snapshot_response response = {.snapshot = message};
        cay_call_done(op->call, &response);
    }
}

static void tell_victims(const struct snapshot_op *self, const struct cay_session *session)
{
    for (size_t i = 0; i < self->victims.count; i++)
        cay_tell(self->op.host, &(struct cay_happening){.type = "snapshot.pruned",
                                                        .session = session,
                                                        .call = self->op.call,
                                                        .snapshot = self->victims.items[i].name});
}

static void snapshot_end(struct cay_op *op)
{
    struct snapshot_op *self = snapshot_of(op);
    struct cay_session *session = op->session;
    if (!op->is_done) {
        cay_pointing_settle(&self->pointing, session);
        if (self->is_switch_broken)
            cay_live_lost(session, &self->switch_err);
        cay_host_collect_soon(op->host);
        if (self->taken)
            self->taken(self->context, NULL, &op->err);
        else
            cay_call_fail(op->call, &op->err);
    } else if (self->repeated) {
        answer_snapshot(op, self->repeated);
    } else {
        struct cay_snapshot *snapshot =
            cay_snapshot_new(session, self->snapshot.name, self->snapshot.store_id, self->spec);
        snapshot->created_ns = self->snapshot.created_ns;
        memcpy(snapshot->request_id, self->snapshot.request_id, sizeof(snapshot->request_id));
        cay_history_set_head(session, self->snapshot.name);
        session->turn_count = self->session.turn_count;
        cay_victims_forget(&self->victims, session);
        cay_pointing_install(&self->pointing, session);
        if (session->live && self->pointing.frozen_ns)
            cay_live_skip_clock(session->live, self->pointing.frozen_ns);
        if (self->is_switch_broken)
            cay_live_lost(session, &self->switch_err);
        if (self->publishing)
            cay_publishing_done(self->publishing);
        cay_tell(op->host, &(struct cay_happening){.type = "snapshot.created",
                                                   .session = session,
                                                   .call = op->call,
                                                   .snapshot = snapshot->name,
                                                   .tool_call_id = self->spec->tool_call_id});
        tell_victims(self, session);
        answer_snapshot(op, snapshot);
        if (self->victims.count || cay_session_snapshot_count(session) % TIDY_EVERY == 0)
            cay_host_collect_soon(op->host);
        if (self->pointing.point.changed)
            cay_host_spares_soon(op->host);
    }
    cay_publishing_free(self->publishing);
    cay_victims_finish(&self->victims);
    cay_snapshot_record_finish(&self->snapshot);
    cay_session_record_finish(&self->session);
    cay_op_leave(op);
    free(self);
}

static const struct cay_op_steps snapshot_steps = {
    .begin = snapshot_begin,
    .work = snapshot_work,
    .end = snapshot_end,
};

static bool check_metadata(const struct google_protobuf_struct *metadata, struct cay_error *err)
{
    if (metadata &&
        cay_pb_encoded_size(&google_protobuf_struct_desc, metadata) > CAY_LIMIT_METADATA_BYTES)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "metadata: %d bytes at most",
                        CAY_LIMIT_METADATA_BYTES);
    return true;
}

static void start_snapshot(struct cay_service *service, struct cay_call *call,
                           struct cay_str session_id, enum cay_v1_snapshot_kind kind,
                           bool is_durable, struct cay_str request_id,
                           const struct google_protobuf_duration *drain_timeout,
                           const struct cay_v1_snapshot *spec, struct cay_publishing *publishing)
{
    struct cay_error err = {};
    struct snapshot_op *self = cay_new(struct snapshot_op);
    self->spec = cay_arena_new(&call->arena, struct cay_v1_snapshot);
    if (!self->spec || !cay_check_message(spec->message, &err) ||
        !check_metadata(spec->metadata, &err) ||
        !cay_check_drain(drain_timeout, &self->op.drain, &err)) {
        if (!err.reason)
            cay_fail(&err, CAY_R_MESSAGE_TOO_LARGE, NULL);
        cay_publishing_free(publishing);
        free(self);
        cay_call_fail(call, &err);
        return;
    }
    *self->spec = *spec;
    self->publishing = publishing;
    self->kind = kind;
    self->is_durable = is_durable || cay_host_of(service)->settings->has_durable_turns;
    snprintf(self->snapshot.request_id, sizeof(self->snapshot.request_id), "%.*s",
             (int)request_id.len, request_id.len ? request_id.ptr : "");
    cay_op_start(&self->op, cay_host_of(service), call, session_id, CAY_VERB_SNAPSHOT, true,
                 &snapshot_steps);
}

void cay_snapshot_after_tool(struct cay_host *host, struct cay_call *call,
                             struct cay_str session_id, struct cay_str tool_call_id,
                             cay_tool_snapshot_fn *taken, void *context)
{
    struct cay_error err = {};
    struct snapshot_op *self = cay_new(struct snapshot_op);
    self->spec = cay_arena_new(&call->arena, struct cay_v1_snapshot);
    if (!self->spec) {
        free(self);
        cay_fail(&err, CAY_R_MESSAGE_TOO_LARGE, NULL);
        taken(context, NULL, &err);
        return;
    }
    self->spec->tool_call_id = tool_call_id;
    self->kind = CAY_V1_SNAPSHOT_KIND_TOOL;
    self->is_durable = host->settings->has_durable_turns;
    self->taken = taken;
    self->context = context;
    cay_op_start(&self->op, host, call, session_id, CAY_VERB_SNAPSHOT, true, &snapshot_steps);
}

void cay_host_turn_complete(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_turn_complete_request *request = call->request;
    struct cay_error err = {};
    if (request->request_id.len > CAY_LIMIT_ID_BYTES) {
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "request_id: %d bytes at most", CAY_LIMIT_ID_BYTES);
        cay_call_fail(call, &err);
        return;
    }
    const struct cay_v1_snapshot spec = {
        .message = request->message,
        .metadata = request->metadata,
    };
    start_snapshot(service, call, request->session_id, CAY_V1_SNAPSHOT_KIND_TURN, request->durable,
                   request->request_id, request->drain_timeout, &spec, NULL);
}

void cay_host_create_snapshot(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_create_snapshot_request *request = call->request;
    struct cay_error err = {};
    struct cay_publishing *publishing = NULL;
    const struct cay_v1_snapshot spec = {
        .name = request->name,
        .message = request->message,
        .metadata = request->metadata,
        .held = request->hold,
    };
    if ((request->name.len && !cay_snapshot_name_check(request->name, &err)) ||
        (request->publish_base.len &&
         !(publishing =
               cay_publishing_new(cay_host_of(service), call, request->publish_base, &err)))) {
        cay_call_fail(call, &err);
        return;
    }
    start_snapshot(service, call, request->session_id, CAY_V1_SNAPSHOT_KIND_NAMED, request->durable,
                   CAY_STR(""), request->drain_timeout, &spec, publishing);
}

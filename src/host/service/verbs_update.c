/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "base/crash.h"
#include "host/exec/tool_call.h"
#include "host/life/deadline.h"
#include "host/life/waking.h"
#include "host/live/asking.h"
#include "host/live/bindings.h"
#include "host/live/filtered.h"
#include "host/live/live.h"
#include "host/live/network.h"
#include "host/live/ports.h"
#include "host/live/trust.h"
#include "host/owner/account_quota.h"
#include "host/past/victims.h"
#include "host/service/verbs.h"
#include "host/session/host.h"
#include "host/session/op.h"
#include "host/session/quota.h"
#include "host/session/request.h"
#include "host/session/tell.h"
#include "host/session/tidy.h"

/* Changing a session: everything is checked first, then limits, then the record, all or nothing. */

struct update_op {
    struct cay_op op;
    const struct cay_v1_update_session_request *request;
    struct answering *answering; /* NULL: it is a call of UpdateSession */
    struct cay_v1_session spec;  /* as it will be; in the call's arena */
    struct cay_session_record record;
    struct cay_victims victims;
    struct cay_sandbox *sandbox; /* whose limits change; NULL: none runs, or they stay */
    struct cay_cgroup_limits limits;
    struct cay_cgroup_limits old_limits;
    int64_t disk_bytes; /* 0: no limit */
    int64_t old_disk_bytes;
    const struct cay_sandbox *wired;   /* whose network changes; NULL: none runs, or it stays */
    enum cay_v1_network_mode mode;     /* as it will be, */
    enum cay_v1_network_mode old_mode; /* and was */
    const struct cay_runtime *runtime;
    const struct cay_sandbox
        *living; /* that is to trust this host; NULL: none runs, or it need not */
    int root_fd; /* its tree; -1: not mounted */
    uint32_t uid_base;
    struct cay_settle applied; /* waits until the helper has the new rules */
};

/* A rule that is the answer to a question. */
struct answering {
    struct cay_v1_update_session_request request;
    const char *how;
    bool is_allowed;
    uint32_t question;
    struct cay_str rule;
};

static struct update_op *update_of(struct cay_op *op)
{
    return CAY_CONTAINER_OF(op, struct update_op, op);
}

static bool is_removed(struct cay_pb_strs names, struct cay_str key)
{
    for (size_t i = 0; i < names.count; i++) {
        if (cay_str_equal(names.items[i], key))
            return true;
    }
    return false;
}

static bool change_pairs(struct cay_arena *arena, struct cay_pb_pairs *pairs,
                         struct cay_pb_pairs set, struct cay_pb_strs remove)
{
    struct cay_pb_pairs kept = {.items = cay_arena_array(arena, pairs->count, sizeof(*kept.items))};
    if (!kept.items)
        return false;
    for (size_t i = 0; i < pairs->count; i++) {
        if (!is_removed(remove, pairs->items[i].key))
            kept.items[kept.count++] = pairs->items[i];
    }
    return cay_noun_merge(arena, kept, set, pairs);
}

static bool change_end(struct update_op *self, const struct cay_v1_update_session_request *request,
                       struct cay_error *err)
{
    struct cay_arena *arena = &self->op.call->arena;
    struct cay_v1_session *spec = &self->spec;
    const struct google_protobuf_timestamp *old = spec->deadline;
    if (request->lifecycle) {
        if (!cay_check_lifecycle(request->lifecycle, err))
            return false;
        spec->lifecycle = request->lifecycle;
        spec->deadline = cay_deadline_of(request->lifecycle, arena);
    }
    if (request->expire_in) {
        int64_t delay_ms = cay_noun_duration_ms(request->expire_in);
        if (!cay_check_expire_in(request->expire_in, err))
            return false;
        spec->deadline = cay_noun_time(arena, cay_clock_wall_ns() + delay_ms * CAY_NS_PER_MS);
        if (!spec->lifecycle)
            spec->lifecycle = cay_arena_new(arena, struct cay_v1_lifecycle);
    }
    bool is_nearer =
        spec->deadline && old && cay_noun_time_ns(spec->deadline) < cay_noun_time_ns(old);
    if (request->extend_only && (is_nearer || (spec->deadline && !old)))
        spec->deadline = self->op.session->spec->deadline;
    return true;
}

static bool change_limits(struct update_op *self, const struct cay_session *session,
                          const struct cay_v1_update_session_request *request,
                          struct cay_error *err)
{
    struct cay_v1_resource_limits *limits =
        cay_arena_new(&self->op.call->arena, struct cay_v1_resource_limits);
    if (!request->limits)
        return true;
    if (!limits)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    if (!cay_check_limits(request->limits, session->spec->limits, limits, err) ||
        !cay_quotas_check_sessions(self->op.host, &self->op.call->caller, session->owner, limits, 1,
                                   session, err))
        return false;
    const struct cay_v1_resource_limits *old = session->spec->limits;
    self->old_disk_bytes = old->has_disk_bytes ? old->disk_bytes : 0;
    self->disk_bytes = limits->has_disk_bytes ? limits->disk_bytes : 0;
    self->old_limits = cay_session_cgroup_limits(session->spec->limits);
    self->limits = cay_session_cgroup_limits(limits);
    self->spec.limits = limits;
    self->sandbox = session->sandbox;
    return true;
}

static bool change_network(struct update_op *self, const struct cay_session *session,
                           const struct cay_v1_update_session_request *request,
                           struct cay_error *err)
{
    if (request->network &&
        !cay_network_choose(self->op.host, session->runtime, request->network, NULL,
                            &self->op.call->arena, &self->spec.network, err))
        return false;
    if (!cay_bindings_choose(&session->spec->secrets, &request->set_secrets,
                             request->remove_secrets, self->spec.network, &self->op.call->arena,
                             &self->spec.secrets, err))
        return false;
    self->runtime = session->runtime;
    self->living = cay_trust_is_needed(self->op.host, &self->spec) ? session->sandbox : NULL;
    self->mode = cay_network_mode(&self->spec);
    self->old_mode = cay_network_mode(session->spec);
    if (self->mode != self->old_mode)
        self->wired = session->sandbox;
    self->root_fd = session->root_fd;
    self->uid_base = cay_session_uid_base(session);
    return true;
}

/* In the gate: another may have been added since. */
static bool add_rule(struct update_op *self, const struct cay_session *session,
                     struct cay_error *err)
{
    struct answering *answering = self->answering;
    struct cay_arena *arena = &self->op.call->arena;
    struct cay_v1_network_policy *policy = cay_arena_new(arena, struct cay_v1_network_policy);
    if (!policy)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    if (session->spec->network)
        *policy = *session->spec->network;
    struct cay_pb_strs *list = answering->is_allowed ? &policy->allow : &policy->deny;
    struct cay_str *items = cay_arena_array(arena, list->count + 1, sizeof(*items));
    if (!items)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    for (size_t i = 0; i < list->count; i++)
        items[i] = list->items[i];
    items[list->count] = answering->rule;
    *list = (struct cay_pb_strs){items, list->count + 1};
    answering->request.network = policy;
    return true;
}

static bool update_begin(struct cay_op *op, struct cay_error *err)
{
    struct update_op *self = update_of(op);
    struct cay_session *session = op->session;
    const struct cay_v1_update_session_request *request = self->request;
    struct cay_arena *arena = &op->call->arena;
    self->spec = *session->spec;
    if (self->answering && !add_rule(self, session, err))
        return false;
    if (!change_pairs(arena, &self->spec.labels, request->set_labels, request->remove_labels) ||
        !change_pairs(arena, &self->spec.env, request->set_env, request->remove_env))
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    if (!cay_check_labels(self->spec.labels, err) || !cay_check_env(self->spec.env, err) ||
        !change_network(self, session, request, err) || !change_end(self, request, err) ||
        !change_limits(self, session, request, err))
        return false;
    if (request->has_tool_snapshots)
        self->spec.tool_snapshots = request->tool_snapshots;
    if (request->has_max_concurrent_tools) {
        if (request->max_concurrent_tools < 0)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "max_concurrent_tools: 0 or more");
        self->spec.max_concurrent_tools = request->max_concurrent_tools;
    }
    if (request->has_max_snapshots) {
        if (request->max_snapshots < 0)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "max_snapshots: 0 or more");
        self->spec.max_snapshots = request->max_snapshots;
        if (request->max_snapshots)
            cay_victims_add_oldest(&self->victims, session, (size_t)request->max_snapshots, true);
    }
    cay_session_record_take(&self->record, session);
    cay_victims_settle(&self->victims, session);
    return cay_victims_find_heirs(&self->victims, session, err) &&
           cay_session_record_set_spec(&self->record, &self->spec, err);
}

static bool set_network(const struct update_op *self, enum cay_v1_network_mode from,
                        enum cay_v1_network_mode to, struct cay_error *err)
{
    uint32_t slot = self->record.uid_slot;
    return !self->wired || (cay_network_detach(self->op.host, self->wired, slot, from, err) &&
                            cay_network_attach(self->op.host, self->wired, slot, to, err));
}

/* Limits and network as they were, after a failure of something later. */
static void undo(struct update_op *self)
{
    struct cay_error ignored = {};
    (void)set_network(self, self->mode, self->old_mode, &ignored);
    if (self->sandbox)
        (void)cay_sandbox_set_limits(self->sandbox, &self->old_limits, &ignored);
    if (self->disk_bytes != self->old_disk_bytes)
        (void)cay_quota_set(self->op.host, self->record.store_id, self->old_disk_bytes, &ignored);
}

static bool set_limits(struct update_op *self, struct cay_error *err)
{
    if (self->sandbox && !cay_sandbox_set_limits(self->sandbox, &self->limits, err))
        return false;
    return self->disk_bytes == self->old_disk_bytes ||
           cay_quota_set(self->op.host, self->record.store_id, self->disk_bytes, err);
}

static bool update_work(struct cay_op *op, struct cay_error *err)
{
    struct update_op *self = update_of(op);
    struct cay_host *host = op->host;
    if (!set_limits(self, err)) {
        undo(self);
        return cay_wrap(err, "change limits of session '%s'", self->record.id);
    }
    CAY_CRASH_POINT("update.limited");
    if (!set_network(self, self->old_mode, self->mode, err)) {
        undo(self);
        return cay_wrap(err, "change the network of session '%s'", self->record.id);
    }
    if (self->wired && cay_network_has_names(self->mode) && self->root_fd >= 0)
        cay_network_make_resolver(self->root_fd, self->uid_base);
    if (self->living && self->root_fd >= 0)
        cay_trust_write(host, self->runtime, self->living, self->root_fd, self->uid_base);
    CAY_CRASH_POINT("update.wired");
    if (cay_db_transaction_begin(host->db, err) &&
        cay_db_transaction_end(
            host->db,
            cay_session_record_put(host->db, &self->record, err) &&
                cay_victims_unrecord(&self->victims, host->db, self->record.id, err),
            err)) {
        cay_victims_delete(&self->victims, host->store);
        return true;
    }
    undo(self);
    return false;
}

static void respond(struct update_op *self)
{
    struct cay_session *session = self->op.session;
    struct cay_call *call = self->op.call;
    const struct answering *answering = self->answering;
    if (!answering) {
        struct cay_v1_update_session_response response = {
            .session = cay_session_message(session, &call->arena)};
        cay_call_done(call, &response);
        return;
    }
    const struct cay_v1_answer_network_question_response response = {.rule = answering->rule};
    cay_call_done(call, &response);
}

/* Before the helper hears the rule, by which it ends the question itself. */
static void end_question(const struct update_op *self)
{
    const struct cay_session *session = self->op.session;
    struct cay_asking *asking = cay_filtered_asking(session->filtered);
    if (asking && self->answering)
        cay_asking_end(asking, session, self->answering->question, self->answering->how,
                       self->op.call);
}

static void leave(struct update_op *self)
{
    cay_victims_finish(&self->victims);
    cay_session_record_finish(&self->record);
    cay_op_leave(&self->op);
    free(self);
}

static void answer(struct update_op *self)
{
    respond(self);
    leave(self);
}

static void on_applied(struct cay_settle *settle)
{
    answer(CAY_CONTAINER_OF(settle, struct update_op, applied));
}

static void update_end(struct cay_op *op)
{
    struct update_op *self = update_of(op);
    if (op->is_done) {
        cay_session_set_spec(op->session, &self->spec);
        end_question(self);
        cay_victims_forget(&self->victims, op->session);
        cay_deadline_set(op->session);
        cay_network_serve(op->session, op->session->live ? op->session->sandbox : NULL);
        cay_ports_hold_to_policy(op->session);
        cay_tool_turns_call(op->session);
        cay_tell(op->host, &(struct cay_happening){.type = "session.updated",
                                                   .session = op->session,
                                                   .call = op->call});
        if (self->victims.count)
            cay_host_collect_soon(op->host);
        /* Whoever is answered may rely on the new rules. */
        if (cay_network_is_applied(op->session, &self->applied, on_applied))
            answer(self);
    } else {
        /* What was put back is new. */
        if (self->wired)
            cay_network_serve(op->session, op->session->live ? op->session->sandbox : NULL);
        cay_call_fail(op->call, &op->err);
        leave(self);
    }
}

static const struct cay_op_steps update_steps = {
    .begin = update_begin,
    .work = update_work,
    .end = update_end,
};

void cay_host_update_session(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_update_session_request *request = call->request;
    struct update_op *self = cay_new(struct update_op);
    self->request = request;
    cay_victims_init(&self->victims);
    cay_op_start(&self->op, cay_host_of(service), call, request->session_id, CAY_VERB_UPDATE, true,
                 &update_steps);
}

/* --- AnswerNetworkQuestion --- */

static const struct {
    const char *how; /* the reason of the event */
    bool is_allowed;
    bool is_rule;
} decisions[] = {
    [CAY_V1_NETWORK_DECISION_ALLOW_ONCE] = {"allow_once", true, false},
    [CAY_V1_NETWORK_DECISION_ALLOW_ALWAYS] = {"allow_always", true, true},
    [CAY_V1_NETWORK_DECISION_REJECT_ONCE] = {"reject_once", false, false},
    [CAY_V1_NETWORK_DECISION_REJECT_ALWAYS] = {"reject_always", false, true},
};

/* NULL when there is none, or nothing to do with it. */
static const struct cay_question *find_question(struct cay_host *host, struct cay_call *call,
                                                struct cay_session **out_session,
                                                struct cay_error *err)
{
    const struct cay_v1_answer_network_question_request *request = call->request;
    size_t decision = (size_t)request->decision;
    if (!cay_session_check(host, call, request->session_id, CAY_VERB_UPDATE, out_session, err))
        return NULL;
    if (decision >= CAY_COUNT(decisions) || !decisions[decision].how) {
        cay_fail(err, CAY_R_INVALID_ARGUMENT, "decision: allow or reject, once or always");
        return NULL;
    }
    const struct cay_question *question =
        cay_asking_find(cay_filtered_asking((*out_session)->filtered), request->question_id);
    if (!question)
        cay_fail(err, CAY_R_FAILED_PRECONDITION,
                 "there is no such question any more; 'cay net ask %s' shows those that wait",
                 (*out_session)->id);
    return question;
}

/* For ever: as an update that adds the rule, which the helper obeys. */
static void answer_by_rule(struct cay_session *session, struct cay_call *call,
                           const struct cay_question *question, size_t decision)
{
    struct update_op *self = cay_new(struct update_op);
    struct answering *answering = cay_arena_new(&call->arena, struct answering);
    char rule[CAY_EGRESS_NAME_BYTES_MAX + sizeof(":65535")];
    snprintf(rule, sizeof(rule), "%s:%u", question->name, question->port);
    if (answering)
        *answering = (struct answering){.how = decisions[decision].how,
                                        .is_allowed = decisions[decision].is_allowed,
                                        .question = question->id,
                                        .rule = cay_arena_str(&call->arena, cay_str(rule))};
    if (!answering || !answering->rule.len) {
        struct cay_error err = {};
        cay_fail(&err, CAY_R_MESSAGE_TOO_LARGE, NULL);
        free(self);
        cay_call_fail(call, &err);
        return;
    }
    self->answering = answering;
    self->request = &answering->request;
    cay_victims_init(&self->victims);
    cay_op_start_on(&self->op, session, call, CAY_VERB_UPDATE, true, &update_steps);
}

void cay_host_answer_network_question(struct cay_service *service, struct cay_call *call)
{
    static const struct cay_v1_answer_network_question_response response;
    const struct cay_v1_answer_network_question_request *request = call->request;
    struct cay_session *session = NULL;
    struct cay_error err = {};
    size_t decision = (size_t)request->decision;
    const struct cay_question *question = find_question(cay_host_of(service), call, &session, &err);
    if (!question) {
        cay_call_fail(call, &err);
    } else if (decisions[decision].is_rule) {
        answer_by_rule(session, call, question, decision);
    } else if (!cay_filtered_answer(session->filtered, question->id, decisions[decision].is_allowed,
                                    &err)) {
        cay_call_fail(call, &err);
    } else {
        cay_asking_end(cay_filtered_asking(session->filtered), session, question->id,
                       decisions[decision].how, call);
        cay_call_done(call, &response);
    }
}

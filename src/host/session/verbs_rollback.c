/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "host/session/host.h"
#include "host/session/live.h"
#include "host/session/noun.h"
#include "host/session/point.h"
#include "host/session/request.h"

/*
 * Going back. What is abandoned is kept: unsaved changes become a snapshot of kind branch, whose
 * parents are the snapshots that came after the target; or, with discard, all of that is deleted.
 * The intent stands in the session's record (`pending`) before the store is touched: a daemon
 * killed in the middle finishes it.
 */

struct rollback_op {
    struct cay_op op;
    struct cay_pointing pointing;
    char target[129];
    char target_store_id[CAY_STORE_ID_SIZE];
    struct cay_snapshot_record branch; /* what is kept of the unsaved changes */
    struct cay_v1_snapshot *branch_spec;
    bool wants_branch;
    bool has_branch; /* there was something to keep */
    struct cay_session_record session;
    struct cay_sandbox *killed_sandbox;
    struct cay_v1_leftover_process_array killed;
    char (*discarded)[129]; /* in the call's arena, with their ids in the store */
    char (*discarded_ids)[CAY_STORE_ID_SIZE];
    size_t discarded_count;
    bool is_switch_broken;
    struct cay_error switch_err;
};

static struct rollback_op *rollback_of(struct cay_op *op)
{
    return CAY_CONTAINER_OF(op, struct rollback_op, op);
}

/* True when the way from `snapshot` to the base leads over `ancestor`. */
static bool descends(const struct cay_session *session, const struct cay_snapshot *snapshot,
                     const char *ancestor)
{
    for (size_t steps = 0; snapshot && steps <= session->snapshot_count; steps++) {
        struct cay_str parent = snapshot->spec->parent;
        if (cay_str_is(parent, ancestor))
            return true;
        snapshot = cay_session_snapshot(session, parent);
    }
    return false;
}

/* A session that was forked from it and still exists. */
static const struct cay_session *fork_of(const struct cay_session *session,
                                         const struct cay_snapshot *snapshot)
{
    cay_list_for_each (struct cay_session, other, &session->host->sessions.list, in_table) {
        if (!other->is_gone && cay_str_is(other->spec->parent_session_id, session->id) &&
            cay_str_is(other->spec->parent_snapshot, snapshot->name))
            return other;
    }
    return NULL;
}

static bool list_discarded(struct rollback_op *self, const struct cay_session *session,
                           struct cay_error *err)
{
    struct cay_arena *arena = &self->op.call->arena;
    size_t count = session->snapshot_count;
    self->discarded = cay_arena_array(arena, count, sizeof(*self->discarded));
    self->discarded_ids = cay_arena_array(arena, count, sizeof(*self->discarded_ids));
    if (!self->discarded || !self->discarded_ids)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "too many snapshots to discard at once");
    cay_list_for_each (struct cay_snapshot, snapshot, &session->snapshots, in_session) {
        if (!descends(session, snapshot, self->target))
            continue;
        const struct cay_session *fork = fork_of(session, snapshot);
        if (fork)
            return cay_fail(err, CAY_R_SNAPSHOT_IN_USE,
                            "session '%s' was forked from snapshot '%s'; remove it first, or keep "
                            "what is abandoned",
                            fork->id, snapshot->name);
        size_t at = self->discarded_count++;
        memcpy(self->discarded[at], snapshot->name, sizeof(snapshot->name));
        memcpy(self->discarded_ids[at], snapshot->store_id, sizeof(snapshot->store_id));
    }
    return true;
}

static bool plan_branch(struct rollback_op *self, struct cay_session *session,
                        struct cay_error *err)
{
    const struct cay_v1_rollback_session_request *request = self->op.call->request;
    struct cay_snapshot_record *record = &self->branch;
    self->branch_spec = cay_arena_new(&self->op.call->arena, struct cay_v1_snapshot);
    if (!self->branch_spec)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    if (request->branch.len) {
        if (!cay_check_snapshot_name(request->branch, err))
            return false;
        snprintf(record->name, sizeof(record->name), "%.*s", (int)request->branch.len,
                 request->branch.ptr);
        if (cay_session_snapshot(session, request->branch))
            return cay_fail(err, CAY_R_SNAPSHOT_EXISTS, "session '%s' has a snapshot '%s'",
                            session->id, record->name);
    } else {
        snprintf(record->name, sizeof(record->name), "branch-%04lld",
                 (long long)session->branch_count + 1);
    }
    memcpy(record->session_id, session->id, sizeof(record->session_id));
    cay_store_new_id(record->store_id);
    record->is_pending = true;
    record->created_ns = cay_clock_wall_ns();
    cay_buf_init(&record->spec, CAY_LIMIT_MESSAGE_BYTES);
    *self->branch_spec = (struct cay_v1_snapshot){
        .name = cay_str(record->name),
        .kind = CAY_V1_SNAPSHOT_KIND_BRANCH,
        .parent = cay_arena_str(&self->op.call->arena, cay_str(session->head)),
        .message = CAY_STR("unsaved changes before a rollback"),
        .created_at = cay_noun_time(&self->op.call->arena, record->created_ns),
    };
    self->wants_branch = true;
    return cay_pb_encode(&cay_v1_snapshot_desc, self->branch_spec, &record->spec) == 0 ||
           cay_fail(err, CAY_R_INTERNAL, "encode the branch");
}

static bool rollback_begin(struct cay_op *op, struct cay_error *err)
{
    struct rollback_op *self = rollback_of(op);
    const struct cay_v1_rollback_session_request *request = op->call->request;
    struct cay_session *session = op->session;
    const struct cay_snapshot *target = cay_session_snapshot(session, request->snapshot);
    if (!target)
        return cay_fail(err, CAY_R_SNAPSHOT_NOT_FOUND,
                        "session '%s' has no snapshot '%.*s'; 'cay log %s' lists them", session->id,
                        (int)CAY_MIN(request->snapshot.len, (size_t)128),
                        request->snapshot.len ? request->snapshot.ptr : "", session->id);
    memcpy(self->target, target->name, sizeof(self->target));
    memcpy(self->target_store_id, target->store_id, sizeof(self->target_store_id));
    bool is_busy = session->live && !cay_live_is_quiet(session->live);
    if (is_busy && request->processes == CAY_V1_PROCESS_POLICY_REFUSE)
        return cay_fail(err, CAY_R_TOOLS_IN_FLIGHT,
                        "commands run in session '%s'; end them, or let the rollback kill them",
                        session->id);
    if (request->discard ? !list_discarded(self, session, err) : !plan_branch(self, session, err))
        return false;
    if (is_busy) {
        cay_live_list(session->live, &op->call->arena, &self->killed);
        self->killed_sandbox =
            cay_live_close(cay_take_ptr(session->live), CAY_R_ROLLBACK_IN_PROGRESS);
    }
    cay_pointing_init(&self->pointing, session);
    cay_session_record_take(&self->session, session);
    if (session->live)
        cay_sandbox_describe(cay_live_sandbox(session->live), &self->session.sandbox);
    memcpy(self->session.pending, self->target, sizeof(self->session.pending));
    return true;
}

/* Saves what is not saved. An unchanged tree needs no branch: the snapshots that stay are enough.
 */
static bool keep_branch(struct rollback_op *self, struct cay_host *host, struct cay_error *err)
{
    struct cay_pointing *pointing = &self->pointing;
    struct cay_error ignored = {};
    const struct cay_store_snapshot_request request = {
        .session_id = pointing->store_id,
        .snapshot_id = self->branch.store_id,
        .activity = CAY_STORE_QUIET,
        .previous_id = pointing->head_store_id,
    };
    struct cay_store_point point = {.root_fd = -1};
    if (!cay_snapshot_record_put(host->db, &self->branch, err) ||
        !cay_store_snapshot(host->store, &request, &point, err))
        return false;
    self->has_branch = point.changed;
    if (point.changed) {
        self->branch.is_pending = false;
        self->session.branch_count++;
        return cay_snapshot_record_put(host->db, &self->branch, err);
    }
    (void)cay_store_delete_snapshot(host->store, self->branch.store_id, &ignored);
    return cay_snapshot_record_delete(host->db, self->branch.session_id, self->branch.name, err);
}

static bool discard(struct rollback_op *self, struct cay_host *host, struct cay_error *err)
{
    for (size_t i = 0; i < self->discarded_count; i++) {
        if (!cay_store_delete_snapshot(host->store, self->discarded_ids[i], err) ||
            !cay_snapshot_record_delete(host->db, self->session.id, self->discarded[i], err))
            return false;
    }
    return true;
}

static bool rollback_work(struct cay_op *op, struct cay_error *err)
{
    struct rollback_op *self = rollback_of(op);
    struct cay_host *host = op->host;
    struct cay_pointing *pointing = &self->pointing;
    struct cay_error ignored = {};
    if (self->killed_sandbox)
        (void)cay_sandbox_destroy(cay_take_ptr(self->killed_sandbox), &ignored);
    pointing->activity = CAY_STORE_QUIET;
    if (self->wants_branch && !keep_branch(self, host, err))
        return cay_wrap(err, "keep the changes of session '%s'", self->session.id);
    if (!cay_session_record_put(host->db, &self->session, err) ||
        !cay_store_rollback(host->store, pointing->store_id, self->target_store_id,
                            &pointing->owner, &pointing->point, err))
        return cay_wrap(err, "roll back session '%s'", self->session.id);
    self->is_switch_broken = !cay_pointing_switch(pointing, &self->switch_err);
    self->session.generation = pointing->point.generation;
    memcpy(self->session.head, self->target, sizeof(self->session.head));
    self->session.pending[0] = '\0';
    return cay_session_record_put(host->db, &self->session, err) && discard(self, host, err);
}

static void forget_discarded(struct rollback_op *self, struct cay_session *session)
{
    for (size_t i = 0; i < self->discarded_count; i++) {
        struct cay_snapshot *snapshot = cay_session_snapshot(session, cay_str(self->discarded[i]));
        if (snapshot) {
            cay_snapshot_free(snapshot);
            session->snapshot_count--;
        }
    }
}

static void answer(struct rollback_op *self, const struct cay_session *session)
{
    struct cay_call *call = self->op.call;
    struct cay_v1_rollback_session_response response = {
        .session = cay_session_message(session, &call->arena),
        .killed = self->killed,
        .branch = self->has_branch ? cay_str(self->branch.name) : CAY_STR(""),
        .discarded.items =
            cay_arena_array(&call->arena, self->discarded_count, sizeof(struct cay_str)),
    };
    for (size_t i = 0; response.discarded.items && i < self->discarded_count; i++)
        response.discarded.items[response.discarded.count++] = cay_str(self->discarded[i]);
    cay_call_done(call, &response);
}

static void rollback_end(struct cay_op *op)
{
    struct rollback_op *self = rollback_of(op);
    struct cay_session *session = op->session;
    if (op->is_done) {
        if (self->has_branch) {
            struct cay_snapshot *kept = cay_snapshot_new(session, self->branch.name,
                                                         self->branch.store_id, self->branch_spec);
            kept->created_ns = self->branch.created_ns;
            session->branch_count = self->session.branch_count;
        }
        forget_discarded(self, session);
        memcpy(session->head, self->target, sizeof(session->head));
        cay_pointing_install(&self->pointing, session);
        if (self->is_switch_broken)
            cay_live_lost(session, &self->switch_err);
        cay_host_collect_soon(op->host);
        answer(self, session);
    } else {
        cay_pointing_settle(&self->pointing, session);
        cay_call_fail(op->call, &op->err);
    }
    cay_snapshot_record_finish(&self->branch);
    cay_session_record_finish(&self->session);
    cay_op_leave(op);
    free(self);
}

static const struct cay_op_steps rollback_steps = {
    .begin = rollback_begin,
    .work = rollback_work,
    .end = rollback_end,
};

void cay_host_rollback_session(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_rollback_session_request *request = call->request;
    struct rollback_op *self = cay_new(struct rollback_op);
    cay_op_start(&self->op, cay_host_of(service), call, request->session_id, CAY_VERB_ROLLBACK,
                 true, &rollback_steps);
}

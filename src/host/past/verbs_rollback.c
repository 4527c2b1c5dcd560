/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/noun.h"
#include "base/crash.h"
#include "base/log.h"
#include "host/live/live.h"
#include "host/live/watching.h"
#include "host/past/history.h"
#include "host/past/point.h"
#include "host/past/snapshot.h"
#include "host/past/snapshot_name.h"
#include "host/past/verbs.h"
#include "host/past/victims.h"
#include "host/session/host.h"
#include "host/session/request.h"
#include "host/session/tell.h"
#include "host/session/tidy.h"

/*
 * Going back. What is abandoned is kept: unsaved changes become a snapshot of kind branch, whose
 * parents are the snapshots that came after the target; or, with discard, all of that is deleted.
 * The intent stands in the session's record (`pending`) before the store is touched: a daemon
 * killed in the middle finishes it.
 */

struct rollback_op {
    struct cay_op op;
    struct cay_pointing pointing;
    char target[CAY_ID_SIZE];
    char target_store_id[CAY_STORE_ID_SIZE];
    struct cay_snapshot_record branch; /* what is kept of the unsaved changes */
    struct cay_v1_snapshot *branch_spec;
    bool wants_branch;
    bool has_branch; /* there was something to keep */
    struct cay_session_record session;
    struct cay_sandbox *killed_sandbox;
    struct cay_v1_leftover_process_array killed;
    struct cay_victims victims; /* of discard */
    bool is_left;               /* the mounted root is not the session's any more */
    bool is_switch_broken;
    struct cay_error switch_err;
};

static struct rollback_op *rollback_of(struct cay_op *op)
{
    return CAY_CONTAINER_OF(op, struct rollback_op, op);
}

static bool choose_victims(struct rollback_op *self, struct cay_session *session,
                           struct cay_snapshot *target, struct cay_error *err)
{
    return cay_victims_add_after(&self->victims, session, target, err) ||
           cay_wrap(err, "discard what came after '%s'", target->name);
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
        if (!cay_snapshot_name_check(request->branch, err))
            return false;
        cay_snapshot_name_choose(request->branch, record->name);
        if (cay_session_snapshot(session, request->branch))
            return cay_fail(err, CAY_R_SNAPSHOT_EXISTS,
                            "session '%s' has a snapshot '%s' already; choose another name",
                            session->id, record->name);
    } else {
        (void)cay_snapshot_name_next(session, CAY_SNAPSHOT_BRANCH, session->branch_count,
                                     record->name);
    }
    memcpy(record->session_id, session->id, sizeof(record->session_id));
    cay_store_new_id(record->store_id);
    record->is_pending = true;
    record->created_ns = cay_clock_wall_ns();
    *self->branch_spec = (struct cay_v1_snapshot){
        .name = cay_str(record->name),
        .kind = CAY_V1_SNAPSHOT_KIND_BRANCH,
        .parent = cay_arena_str(&self->op.call->arena, cay_str(session->head)),
        .message = CAY_STR("unsaved changes before a rollback"),
        .created_at = cay_noun_time(&self->op.call->arena, record->created_ns),
    };
    self->wants_branch = true;
    return cay_snapshot_record_set_spec(record, self->branch_spec, err);
}

static bool rollback_begin(struct cay_op *op, struct cay_error *err)
{
    struct rollback_op *self = rollback_of(op);
    const struct cay_v1_rollback_session_request *request = op->call->request;
    struct cay_session *session = op->session;
    struct cay_snapshot *target = cay_find_snapshot(session, request->snapshot, err);
    if (!target)
        return false;
    memcpy(self->target, target->name, sizeof(self->target));
    memcpy(self->target_store_id, target->store_id, sizeof(self->target_store_id));
    cay_victims_init(&self->victims);
    bool is_busy = session->live && !cay_live_is_quiet(session->live);
    if (is_busy && request->processes == CAY_V1_PROCESS_POLICY_REFUSE)
        return cay_fail(err, CAY_R_PROCESSES_RUNNING,
                        "commands run in session '%s'; end them, or let the rollback kill them",
                        session->id);
    if (request->discard ? !choose_victims(self, session, target, err)
                         : !plan_branch(self, session, err))
        return false;
    if (is_busy)
        cay_live_list(session->live, &op->call->arena, &self->killed);
    op->kills = is_busy;
    return true;
}

/* Nothing runs any more. A sandbox in which something does not end, or whose root cannot be
 * changed, ends itself; the next call starts another. */
static bool rollback_ready(struct cay_op *op, struct cay_error *err)
{
    struct rollback_op *self = rollback_of(op);
    struct cay_session *session = op->session;
    if (session->live && (!cay_live_is_quiet(session->live) ||
                          !cay_runtime_can(session->runtime, CAY_RUNTIME_SWITCHES)))
        self->killed_sandbox = cay_live_close(session, CAY_R_ROLLBACK_IN_PROGRESS);
    cay_pointing_init(&self->pointing, session);
    self->pointing.is_other_tree = true;
    cay_session_record_take(&self->session, session);
    cay_victims_settle(&self->victims, session);
    return cay_victims_find_heirs(&self->victims, session, err);
}

/* Takes what is not saved. An unchanged tree needs no branch: the snapshots that stay are enough.
 * From here on until the end the mounted root is out of date. */
static bool take_branch(struct rollback_op *self, struct cay_host *host, struct cay_error *err)
{
    struct cay_pointing *pointing = &self->pointing;
    const struct cay_store_snapshot_request request = {
        .session_id = pointing->store_id,
        .snapshot_id = self->branch.store_id,
        .activity = CAY_STORE_QUIET,
        .previous_id = pointing->head_store_id,
        /* The live files go: what is kept of them must not be lost on its way to the disk. */
        .durable = cay_pool_may_lose(&host->pool),
    };
    struct cay_store_point point = {.root_fd = -1};
    if (!cay_snapshot_record_put(host->db, &self->branch, err))
        return false;
    CAY_CRASH_POINT("rollback.branch_intended");
    cay_op_watch(&self->op);
    bool is_kept =
        cay_op_unwatch(&self->op, cay_store_snapshot(host->store, &request, &point, err), err);
    CAY_CRASH_POINT("rollback.branch_taken");
    if (is_kept || point.generation) { /* the store has gone on, also when it could not sync */
        self->is_left = point.generation != self->session.generation;
        self->session.generation = point.generation;
    }
    self->has_branch = is_kept && point.changed;
    return is_kept;
}

/* One transaction: from now on it will happen, also after a crash, and the branch is there. */
static bool write_intent(struct rollback_op *self, struct cay_host *host, struct cay_error *err)
{
    snprintf(self->session.pending, sizeof(self->session.pending), "%s%s",
             self->victims.count ? CAY_PENDING_DISCARD : "", self->target);
    if (self->has_branch)
        self->session.branch_count++;
    self->branch.is_pending = !self->has_branch;
    return cay_db_transaction_begin(host->db, err) &&
           cay_db_transaction_end(
               host->db,
               (!self->has_branch || cay_snapshot_record_put(host->db, &self->branch, err)) &&
                   cay_session_record_put(host->db, &self->session, err),
               err);
}

static bool write_outcome(struct rollback_op *self, struct cay_host *host, struct cay_error *err)
{
    memcpy(self->session.head, self->target, sizeof(self->session.head));
    self->session.pending[0] = '\0';
    return cay_db_transaction_begin(host->db, err) &&
           cay_db_transaction_end(
               host->db,
               cay_session_record_put(host->db, &self->session, err) &&
                   cay_victims_unrecord(&self->victims, host->db, self->session.id, err),
               err);
}

/* Nothing has happened; the branch, if one was taken, is dropped. */
static void take_back(struct rollback_op *self, struct cay_host *host)
{
    struct cay_error err = {};
    if (self->has_branch && self->session.pending[0])
        self->session.branch_count--;
    self->session.pending[0] = '\0';
    self->has_branch = false;
    if (self->is_left)
        cay_pointing_abandon(&self->pointing);
    if (!cay_session_record_put(host->db, &self->session, &err))
        cay_log(CAY_ERROR, "rollback.take_back_failed", CAY_S("session", self->session.id),
                CAY_ERR(&err));
}

static void drop_branch(struct rollback_op *self, struct cay_host *host)
{
    struct cay_error ignored = {};
    (void)cay_store_delete_snapshot(host->store, self->branch.store_id, &ignored);
    (void)cay_snapshot_record_delete(host->db, self->branch.session_id, self->branch.name,
                                     &ignored);
}

static bool roll_back(struct rollback_op *self, struct cay_host *host, struct cay_error *err)
{
    struct cay_pointing *pointing = &self->pointing;
    if (self->wants_branch && !take_branch(self, host, err)) {
        if (self->is_left)
            take_back(self, host);
        return cay_wrap(err, "keep the changes of session '%s'", self->session.id);
    }
    bool is_taken = write_intent(self, host, err);
    CAY_CRASH_POINT("rollback.intended");
    is_taken =
        is_taken && cay_store_rollback(host->store, pointing->store_id, self->target_store_id,
                                       &pointing->owner, &pointing->point, err);
    if (!is_taken) {
        take_back(self, host);
        return cay_wrap(err, "roll back session '%s'", self->session.id);
    }
    CAY_CRASH_POINT("rollback.taken");
    self->is_left = true;
    self->session.generation = pointing->point.generation;
    self->is_switch_broken = !cay_pointing_switch(pointing, &self->switch_err);
    CAY_CRASH_POINT("rollback.switched");
    if (!write_outcome(self, host, err))
        return false;
    CAY_CRASH_POINT("rollback.recorded");
    cay_victims_delete(&self->victims, host->store);
    return true;
}

static bool rollback_work(struct cay_op *op, struct cay_error *err)
{
    struct rollback_op *self = rollback_of(op);
    struct cay_error ignored = {};
    if (self->killed_sandbox)
        (void)cay_sandbox_destroy(cay_take_ptr(self->killed_sandbox), &ignored);
    CAY_CRASH_POINT("rollback.killed");
    self->pointing.activity = CAY_STORE_QUIET;
    cay_pointing_wait_idle(&self->pointing);
    bool is_done = roll_back(self, op->host, err);
    if (self->wants_branch && !self->has_branch)
        drop_branch(self, op->host);
    return is_done;
}

static void answer(struct rollback_op *self, const struct cay_session *session)
{
    struct cay_call *call = self->op.call;
    struct cay_v1_rollback_session_response response = {
        .session = cay_session_message(session, &call->arena),
        .killed = self->killed,
        .branch = self->has_branch ? cay_str(self->branch.name) : CAY_STR(""),
        .discarded = cay_victims_names(&self->victims, &call->arena),
    };
    cay_call_done(call, &response);
}

/* A rollback that failed half way: the next call mounts what the store has now. */
static void leave_root(struct rollback_op *self, struct cay_session *session)
{
    session->generation = self->session.generation;
    cay_host_close_later(session->host, cay_take_fd(self->pointing.point.root_fd));
    cay_host_close_later(session->host, cay_take_fd(self->pointing.old_fd));
    cay_host_close_later(session->host, cay_take_fd(session->root_fd));
    if (session->live)
        cay_live_lost(session, &self->op.err);
    cay_watching_end(session, &self->op.err);
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
        cay_victims_forget(&self->victims, session);
        cay_session_undone(session);
        cay_history_set_head(session, self->target);
        cay_pointing_install(&self->pointing, session);
        if (self->is_switch_broken)
            cay_live_lost(session, &self->switch_err);
        cay_host_collect_soon(op->host);
        cay_tell(op->host, &(struct cay_happening){.type = "session.rolled_back",
                                                   .session = session,
                                                   .call = op->call,
                                                   .snapshot = self->target,
                                                   .fact = self->has_branch ? "branch" : NULL,
                                                   .value = cay_str(self->branch.name)});
        answer(self, session);
    } else {
        if (self->is_left)
            leave_root(self, session);
        cay_call_fail(op->call, &op->err);
    }
    cay_victims_finish(&self->victims);
    cay_snapshot_record_finish(&self->branch);
    cay_session_record_finish(&self->session);
    cay_op_leave(op);
    free(self);
}

static const struct cay_op_steps rollback_steps = {
    .begin = rollback_begin,
    .ready = rollback_ready,
    .work = rollback_work,
    .end = rollback_end,
};

void cay_host_rollback_session(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_rollback_session_request *request = call->request;
    struct rollback_op *self = cay_new(struct rollback_op);
    struct cay_error err = {};
    self->op.drain = (struct cay_drain){.is_wanted = true, .goes_on = request->kill_tools};
    if (!cay_check_drain(request->drain_timeout, &self->op.drain, &err)) {
        free(self);
        cay_call_fail(call, &err);
        return;
    }
    cay_op_start(&self->op, cay_host_of(service), call, request->session_id, CAY_VERB_ROLLBACK,
                 true, &rollback_steps);
}

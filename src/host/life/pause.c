/* SPDX-License-Identifier: Apache-2.0 */
#include "host/life/pause.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/noun.h"
#include "base/crash.h"
#include "base/log.h"
#include "host/life/deadline.h"
#include "host/life/verbs.h"
#include "host/live/live.h"
#include "host/process/events.h"
#include "host/session/host.h"
#include "host/session/record.h"
#include "host/session/request.h"
#include "host/session/tell.h"

enum {
    FREEZE_TIMEOUT_MS = 5000,
    SETTLE_MS = 500, /* for an init that was just thawed to say what runs */
};

/* --- pausing --- */

struct cay_pausing {
    struct cay_op op;
    struct cay_session *session;
    struct cay_call *call; /* NULL: a deadline's */
    enum cay_v1_pause_mode mode;
    struct cay_timer drain;
    bool is_waiting; /* for tools to end */
    bool is_drained; /* they have */
    bool suspends_deadline;
    struct cay_session_record record;
    struct cay_sandbox *sandbox; /* to freeze, or (ours) to end */
    struct cay_v1_leftover_process_array stopped;
    char why[16];
};

static void finish_pausing(struct cay_pausing *self, const struct cay_error *err)
{
    struct cay_session *session = self->session;
    struct cay_call *call = self->call;
    session->pausing = NULL;
    cay_timer_close(&self->drain);
    cay_session_record_finish(&self->record);
    if (call && err) {
        cay_call_fail(call, err);
    } else if (call) {
        struct cay_v1_pause_session_response response = {
            .session = cay_session_message(session, &call->arena), .stopped = self->stopped};
        cay_call_done(call, &response);
    } else if (err) {
        cay_log(CAY_WARN, "session.pause_failed", CAY_S("session", session->id), CAY_ERR(err));
        cay_deadline_retry(session);
    }
    free(self);
    cay_session_unref(session);
}

static struct cay_pausing *pausing_of(struct cay_op *op)
{
    return CAY_CONTAINER_OF(op, struct cay_pausing, op);
}

static struct cay_v1_session paused_spec(const struct cay_pausing *self)
{
    struct cay_v1_session spec = *self->session->spec;
    spec.pause_mode = self->mode;
    if (self->suspends_deadline)
        spec.deadline = NULL;
    return spec;
}

static bool pause_begin(struct cay_op *op, struct cay_error *)
{
    struct cay_pausing *self = pausing_of(op);
    struct cay_session *session = op->session;
    if (self->mode == CAY_V1_PAUSE_MODE_STOP && session->live) {
        if (self->call)
            cay_live_list(session->live, &self->call->arena, &self->stopped);
        /* Who waits for a command gets what it wrote. */
        op->kills = cay_live_is_followed(session->live);
    }
    return true;
}

static bool pause_ready(struct cay_op *op, struct cay_error *err)
{
    struct cay_pausing *self = pausing_of(op);
    struct cay_session *session = op->session;
    if (self->mode == CAY_V1_PAUSE_MODE_STOP && session->live)
        self->sandbox = cay_live_close(session, CAY_R_SESSION_PAUSED);
    else if (session->live)
        self->sandbox = session->sandbox;
    cay_session_record_take(&self->record, session);
    struct cay_v1_session spec = paused_spec(self);
    self->record.state = CAY_SESSION_PAUSED;
    return cay_session_record_set_spec(&self->record, &spec, err);
}

static bool pause_work(struct cay_op *op, struct cay_error *err)
{
    struct cay_pausing *self = pausing_of(op);
    struct cay_error ignored = {};
    if (self->mode == CAY_V1_PAUSE_MODE_STOP) {
        if (self->sandbox)
            (void)cay_sandbox_destroy(cay_take_ptr(self->sandbox), &ignored);
        return cay_session_record_put(op->host->db, &self->record, err);
    }
    /* Written down first: a daemon that dies in between finds a paused session that runs on, and
     * freezes it. */
    if (!cay_session_record_put(op->host->db, &self->record, err))
        return false;
    CAY_CRASH_POINT("pause.recorded");
    if (!self->sandbox || cay_sandbox_freeze(self->sandbox, FREEZE_TIMEOUT_MS, err))
        return true;
    (void)cay_sandbox_thaw(self->sandbox, &ignored);
    self->record.state = CAY_SESSION_ACTIVE;
    (void)cay_session_record_put(op->host->db, &self->record, &ignored);
    return cay_wrap(err, "freeze the processes");
}

static void pause_end(struct cay_op *op)
{
    struct cay_pausing *self = pausing_of(op);
    struct cay_session *session = op->session;
    struct cay_error err = op->err;
    if (op->is_done)
        op->is_done = cay_session_step(session, CAY_VERB_PAUSE, &err);
    if (op->is_done) {
        struct cay_v1_session spec = paused_spec(self);
        cay_session_set_spec(session, &spec);
        session->paused_ns = cay_clock_ns();
        snprintf(session->state_reason, sizeof(session->state_reason), "%s", self->why);
        cay_deadline_set(session);
        cay_tell(op->host, &(struct cay_happening){.type = "session.paused",
                                                   .session = session,
                                                   .call = self->call,
                                                   .reason = self->why});
        cay_log(CAY_INFO, "session.paused", CAY_S("session", session->id), CAY_S("why", self->why));
    }
    bool is_done = op->is_done;
    cay_op_leave(op);
    finish_pausing(self, is_done ? NULL : &err);
}

static const struct cay_op_steps pause_steps = {
    .begin = pause_begin,
    .ready = pause_ready,
    .work = pause_work,
    .end = pause_end,
};

static void pause_drained(struct cay_pausing *self)
{
    self->is_waiting = false;
    cay_timer_stop(&self->drain);
    cay_op_start_on(&self->op, self->session, self->call, CAY_VERB_PAUSE, true, &pause_steps);
}

static void pause_late(struct cay_pausing *self)
{
    struct cay_error err = {};
    cay_fail(&err, CAY_R_TOOLS_IN_FLIGHT,
             "session '%s' still has %u tools running and stays active; wait longer "
             "(drain_timeout) or freeze them (freeze_tools)",
             self->session->id, self->session->tools_in_flight);
    finish_pausing(self, &err);
}

static void on_drain(struct cay_timer *timer)
{
    struct cay_pausing *self = CAY_CONTAINER_OF(timer, struct cay_pausing, drain);
    if (self->is_drained)
        pause_drained(self);
    else
        pause_late(self);
}

void cay_pause_tool_ended(struct cay_session *session)
{
    struct cay_pausing *pausing = session->pausing;
    session->tools_in_flight--;
    session->tool_calls++;
    cay_op_poke(session);
    if (session->tools_in_flight || !pausing || !pausing->is_waiting)
        return;
    /* Not here: it may be init who said so, and its link cannot be closed while it is read. */
    pausing->is_drained = true;
    cay_timer_start(&pausing->drain, 0, 0);
}

void cay_pause_leave(struct cay_session *session)
{
    struct cay_error err = {};
    if (!session->pausing || !session->pausing->is_waiting)
        return;
    cay_fail(&err, CAY_R_UNAVAILABLE, NULL);
    finish_pausing(session->pausing, &err);
}

static struct cay_pausing *pausing_new(struct cay_session *session, struct cay_call *call,
                                       enum cay_v1_pause_mode mode, const char *why)
{
    struct cay_pausing *self = cay_new(struct cay_pausing);
    self->session = session;
    self->call = call;
    self->mode = mode;
    snprintf(self->why, sizeof(self->why), "%s", why);
    cay_timer_open(&self->drain, session->host->loop, on_drain);
    session->pausing = self;
    cay_session_ref(session); /* it is not freed meanwhile */
    return self;
}

void cay_pause_now(struct cay_session *session, enum cay_v1_pause_mode mode, const char *why)
{
    if (!session->pausing)
        pause_drained(pausing_new(session, NULL, mode, why));
}

static bool check_pause(const struct cay_v1_pause_session_request *request,
                        const struct cay_session *session, struct cay_error *err)
{
    if (request->freeze_tools && request->mode == CAY_V1_PAUSE_MODE_STOP)
        return cay_fail(
            err, CAY_R_INVALID_ARGUMENT,
            "freeze_tools: it does not go with mode stop, since stopped tools do not come back");
    if (session->pausing)
        return cay_fail(err, CAY_R_SESSION_PAUSED, "session '%s' is being paused already",
                        session->id);
    if (request->mode != CAY_V1_PAUSE_MODE_STOP &&
        !cay_runtime_can(session->runtime, CAY_RUNTIME_FREEZES))
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "this host cannot freeze processes; pause with mode stop");
    return true;
}

void cay_host_pause_session(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_pause_session_request *request = call->request;
    struct cay_session *session = NULL;
    struct cay_error err = {};
    if (!cay_session_check(cay_host_of(service), call, request->session_id, CAY_VERB_PAUSE,
                           &session, &err) ||
        !check_pause(request, session, &err)) {
        cay_call_fail(call, &err);
        return;
    }
    struct cay_pausing *self = pausing_new(
        session, call, request->mode ? request->mode : CAY_V1_PAUSE_MODE_FREEZE, "requested");
    self->suspends_deadline = request->suspend_deadline;
    int64_t drain_ms = request->drain_timeout ? cay_noun_duration_ms(request->drain_timeout)
                                              : session->host->settings->pause_drain_ms;
    if (!session->tools_in_flight || request->freeze_tools)
        pause_drained(self);
    else if (drain_ms <= 0)
        pause_late(self);
    else {
        self->is_waiting = true;
        cay_timer_start(&self->drain, (uint64_t)drain_ms, 0);
    }
}

/* --- resuming --- */

struct resume_op {
    struct cay_op op;
    struct cay_session_record record;
    struct cay_sandbox *sandbox;  /* frozen: to thaw, */
    struct cay_sandbox *unwanted; /* or to end */
    cay_resumed_fn *resumed;
    void *context;
    bool is_cold;
    bool was_active;  /* somebody else was first */
    bool is_stranger; /* its init has not been talked to since the daemon started */
    struct cay_error thaw_err;
};

static struct resume_op *resume_of(struct cay_op *op)
{
    return CAY_CONTAINER_OF(op, struct resume_op, op);
}

static bool resume_begin(struct cay_op *op, struct cay_error *err)
{
    struct resume_op *self = resume_of(op);
    struct cay_session *session = op->session;
    self->was_active = session->state == CAY_SESSION_ACTIVE;
    if (self->was_active)
        return true;
    const struct cay_session_cell *cell = cay_session_cell(session->state, CAY_VERB_RESUME);
    if (cell->refusal)
        return cay_fail(err, cell->refusal, "session '%s' is %s now", session->id,
                        cay_session_state_name(session->state));
    self->is_stranger = cay_session_is_resting(session) && !self->is_cold;
    if (self->is_cold) {
        struct cay_error cold = {};
        cay_fail(&cold, CAY_R_UNAVAILABLE, "the session was resumed without its processes");
        if (cay_session_is_resting(session))
            cay_processes_detach(&session->processes, CAY_V1_END_CAUSE_KILLED, &cold);
        self->unwanted = cay_live_close(session, CAY_R_SESSION_PAUSED);
    } else {
        self->sandbox = session->sandbox;
        if (session->live)
            cay_live_skip_clock(session->live, cay_clock_ns() - session->paused_ns);
    }
    cay_session_record_take(&self->record, session);
    struct cay_v1_session spec = *session->spec;
    spec.pause_mode = CAY_V1_PAUSE_MODE_UNSPECIFIED;
    self->record.state = CAY_SESSION_ACTIVE;
    return cay_session_record_set_spec(&self->record, &spec, err);
}

static bool resume_work(struct cay_op *op, struct cay_error *err)
{
    struct resume_op *self = resume_of(op);
    struct cay_error ignored = {};
    if (self->was_active)
        return true;
    if (self->unwanted)
        (void)cay_sandbox_destroy(cay_take_ptr(self->unwanted), &ignored);
    /* A sandbox that cannot be thawed is of no use; the files are. */
    if (self->sandbox)
        (void)cay_sandbox_thaw(self->sandbox, &self->thaw_err);
    CAY_CRASH_POINT("resume.thawed");
    return cay_session_record_put(op->host->db, &self->record, err);
}

static void install_resumed(struct resume_op *self, struct cay_session *session)
{
    struct cay_v1_session spec = *session->spec;
    spec.pause_mode = CAY_V1_PAUSE_MODE_UNSPECIFIED;
    cay_session_set_spec(session, &spec);
    session->state_reason[0] = '\0';
    if (cay_session_is_resting(session))
        cay_live_open(session, true);
    if (session->live && self->is_stranger)
        cay_live_settle(session->live, SETTLE_MS);
    if (self->thaw_err.reason)
        cay_live_lost(session, &self->thaw_err);
    session->last_active_ns = cay_clock_wall_ns();
    cay_deadline_renew(session);
    cay_tell(session->host, &(struct cay_happening){.type = "session.resumed",
                                                    .session = session,
                                                    .call = self->op.call});
    cay_log(CAY_INFO, "session.resumed", CAY_S("session", session->id));
}

static void resume_end(struct cay_op *op)
{
    struct resume_op *self = resume_of(op);
    struct cay_session *session = op->session;
    struct cay_error err = op->err;
    bool is_done = op->is_done;
    if (is_done && !self->was_active) {
        is_done = cay_session_step(session, CAY_VERB_RESUME, &err);
        if (is_done)
            install_resumed(self, session);
    }
    cay_session_ref(session); /* it answers after it has left */
    cay_session_record_finish(&self->record);
    cay_op_leave(op);
    self->resumed(session, self->context, is_done ? NULL : &err);
    cay_session_unref(session);
    free(self);
}

static const struct cay_op_steps resume_steps = {
    .begin = resume_begin,
    .work = resume_work,
    .end = resume_end,
};

void cay_resume_for(struct cay_session *session, struct cay_call *call, bool is_cold,
                    cay_resumed_fn *resumed, void *context)
{
    struct resume_op *self = cay_new(struct resume_op);
    self->resumed = resumed;
    self->context = context;
    self->is_cold = is_cold;
    cay_op_start_on(&self->op, session, call, CAY_VERB_LOOK, true, &resume_steps);
}

void cay_resume_then(struct cay_session *session, cay_resumed_fn *resumed, void *context)
{
    cay_resume_for(session, NULL, false, resumed, context);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/op.h"

#include "base/clock.h"
#include "base/stop.h"
#include "host/session/host.h"
#include "host/session/quota.h"

/* For what was killed to be gone and its output to be passed on. */
enum { KILL_MS = 2000 };

static void work(struct cay_job *job)
{
    struct cay_op *op = CAY_CONTAINER_OF(job, struct cay_op, job);
    if (!op->steps->ends_with_call) {
        op->is_done = op->steps->work(op, &op->err);
        return;
    }
    (void)cay_stop_watch(op->call ? &op->call->is_cancelled : &op->host->is_ending);
    /* What was ended early is not to be taken for the whole. */
    op->is_done = !cay_stop_asked() && op->steps->work(op, &op->err) && !cay_stop_asked();
    if (!op->is_done && cay_stop_asked())
        cay_fail(&op->err, CAY_R_CANCELED, NULL);
    (void)cay_stop_watch(NULL);
}

void cay_op_watch(const struct cay_op *op)
{
    (void)cay_stop_watch(op->call ? &op->call->is_cancelled : NULL);
    cay_stop_watch_also(&op->session->is_end_wanted);
}

bool cay_op_unwatch(const struct cay_op *op, bool is_good, struct cay_error *err)
{
    bool is_end = __atomic_load_n(&op->session->is_end_wanted, __ATOMIC_RELAXED);
    bool is_gone = op->call && __atomic_load_n(&op->call->is_cancelled, __ATOMIC_RELAXED);
    (void)cay_stop_watch(NULL);
    if (is_good || err->reason != CAY_R_CANCELED)
        return is_good;
    return cay_fail(err,
                    is_gone  ? CAY_R_CANCELED
                    : is_end ? CAY_R_SESSION_DESTROYING
                             : CAY_R_UNAVAILABLE,
                    NULL);
}

/* The last step. */
static void end(struct cay_op *op)
{
    cay_timer_close(&op->waiting);
    op->steps->end(op);
}

static void done(struct cay_job *job)
{
    end(CAY_CONTAINER_OF(job, struct cay_op, job));
}

static void go_on(struct cay_op *op, bool is_allowed)
{
    if (is_allowed && op->steps->ready)
        is_allowed = op->steps->ready(op, &op->err);
    if (!is_allowed || !op->steps->work) {
        op->is_done = is_allowed;
        end(op);
        return;
    }
    op->job.work = work;
    op->job.done = done;
    op->job.lane = op->steps->is_search ? &op->session->search_lane : &op->session->lane;
    cay_loop_submit(op->host->loop, &op->job);
}

static void on_waited(struct cay_timer *timer);

static void wait_until(struct cay_op *op, enum cay_op_wait wait, uint64_t until_ms)
{
    uint64_t now_ms = cay_loop_now_ms(op->host->loop);
    if (!op->waiting.handle)
        cay_timer_open(&op->waiting, op->host->loop, on_waited);
    op->wait = wait;
    op->wait_until_ms = until_ms;
    cay_timer_start(&op->waiting, until_ms > now_ms ? until_ms - now_ms : 0, 0);
    if (wait == CAY_OP_WAITS_FOR_GATE)
        return;
    op->waited_on = op->session->live;
    op->session->waiting_op = op;
}

static void begin(struct cay_op *op)
{
    const struct cay_session *session = op->session;
    bool is_allowed = !op->steps->begin || op->steps->begin(op, &op->err);
    if (is_allowed && op->kills && !cay_session_is_quiet(session)) {
        wait_until(op, CAY_OP_WAITS_FOR_ENDS, cay_loop_now_ms(op->host->loop) + KILL_MS);
        cay_session_kill(op->session, CAY_V1_END_CAUSE_KILLED);
        return;
    }
    go_on(op, is_allowed);
}

static bool is_over(const struct cay_op *op)
{
    const struct cay_session *session = op->session;
    if (session->live != op->waited_on)
        return true;
    if (op->wait == CAY_OP_WAITS_FOR_TOOLS)
        return session->tools_in_flight == 0 || session->is_end_wanted;
    return cay_session_is_quiet(session);
}

static bool fail_in_flight(struct cay_op *op)
{
    const struct cay_session *session = op->session;
    if (atomic_load(&op->host->is_stopping))
        return cay_fail(&op->err, CAY_R_UNAVAILABLE, NULL);
    if (session->is_end_wanted)
        return cay_fail(&op->err, CAY_R_SESSION_DESTROYING, NULL);
    return cay_fail(&op->err, CAY_R_TOOLS_IN_FLIGHT,
                    "%u tool calls still run in session '%s', and nothing was done; wait for them "
                    "(drain_timeout)%s",
                    session->tools_in_flight, session->id,
                    op->verb == CAY_VERB_ROLLBACK ? " or have them killed (kill_tools)" : "");
}

/* A sandbox that was lost meanwhile is removed by who waits behind us, and its processes may still
 * write: only the end of the session does not mind. */
static bool check_lost(struct cay_op *op)
{
    return op->session->live == op->waited_on || op->verb == CAY_VERB_DESTROY ||
           cay_fail(&op->err, CAY_R_UNAVAILABLE,
                    "the sandbox of session '%s' was lost meanwhile; try again", op->session->id);
}

static void on_waited(struct cay_timer *timer)
{
    struct cay_op *op = CAY_CONTAINER_OF(timer, struct cay_op, waiting);
    struct cay_session *session = op->session;
    enum cay_op_wait wait = op->wait;
    bool is_in_time = session->tools_in_flight == 0 || op->drain.goes_on;
    op->wait = CAY_OP_WAITS_NOT;
    if (wait == CAY_OP_WAITS_FOR_GATE) {
        if (is_in_time)
            return; /* it is somebody else it waits for */
        cay_gate_quit(&session->gate, &op->ticket);
        (void)fail_in_flight(op);
        end(op);
        return;
    }
    session->waiting_op = NULL;
    if (wait == CAY_OP_WAITS_FOR_ENDS)
        go_on(op, check_lost(op));
    else if (!check_lost(op) || (!is_in_time && !fail_in_flight(op)))
        end(op);
    else
        begin(op);
}

void cay_op_poke(struct cay_session *session)
{
    struct cay_op *op = session->waiting_op;
    /* Not here: it may be init who said so, and its link cannot be closed while it is read. */
    if (op && is_over(op))
        cay_timer_start(&op->waiting, 0, 0);
}

void cay_op_wait_no_longer(struct cay_session *session)
{
    struct cay_op *op = cay_take_ptr(session->waiting_op);
    if (!op)
        return;
    cay_fail(&op->err, CAY_R_UNAVAILABLE, NULL);
    end(op);
}

static void passed(struct cay_gate_ticket *ticket)
{
    struct cay_op *op = CAY_CONTAINER_OF(ticket, struct cay_op, ticket);
    struct cay_session *session = op->session;
    op->is_inside = true;
    if (op->wait)
        cay_timer_stop(&op->waiting);
    op->wait = CAY_OP_WAITS_NOT;
    if (op->call)
        session->last_active_ns = cay_clock_wall_ns();
    const struct cay_session_cell *cell = cay_session_cell(session->state, op->verb);
    if (cell->refusal) {
        const char *state = cay_session_state_name(session->state);
        cay_fail(&op->err, cell->refusal, "session '%s' is %s now", session->id, state);
        cay_error_fact(&op->err, "session_id", "%s", session->id);
        cay_error_fact(&op->err, "state", "%s", state);
        end(op);
        return;
    }
    if (!op->drain.is_wanted || !session->tools_in_flight) {
        begin(op);
        return;
    }
    if (atomic_load(&op->host->is_stopping)) {
        (void)fail_in_flight(op);
        end(op);
        return;
    }
    wait_until(op, CAY_OP_WAITS_FOR_TOOLS, session->is_end_wanted ? 0 : op->wait_until_ms);
}

void cay_op_start_on(struct cay_op *op, struct cay_session *session, struct cay_call *call,
                     enum cay_session_verb verb, bool is_alone, const struct cay_op_steps *steps)
{
    op->steps = steps;
    op->host = session->host;
    op->call = call;
    op->session = session;
    op->verb = verb;
    cay_session_ref(session);
    if (verb == CAY_VERB_DESTROY && !op->drain.is_wanted) {
        cay_stop_ask(&session->is_end_wanted);
        cay_op_poke(session);
    }
    if (op->drain.is_wanted && !op->drain.limit_ms && !op->drain.goes_on &&
        session->tools_in_flight) {
        (void)fail_in_flight(op);
        end(op);
        return;
    }
    if (op->drain.is_wanted)
        wait_until(op, CAY_OP_WAITS_FOR_GATE,
                   cay_loop_now_ms(op->host->loop) + (uint64_t)op->drain.limit_ms);
    cay_gate_enter(&session->gate, &op->ticket, is_alone, passed);
}

void cay_op_start(struct cay_op *op, struct cay_host *host, struct cay_call *call,
                  struct cay_str session_id, enum cay_session_verb verb, bool is_alone,
                  const struct cay_op_steps *steps)
{
    struct cay_session *session = NULL;
    if (cay_session_check(host, call, session_id, verb, &session, &op->err)) {
        cay_op_start_on(op, session, call, verb, is_alone, steps);
        return;
    }
    op->steps = steps;
    op->host = host;
    op->call = call;
    op->verb = verb;
    steps->end(op);
}

void cay_op_leave(struct cay_op *op)
{
    struct cay_session *session = cay_take_ptr(op->session);
    if (!session)
        return;
    enum cay_session_verb verb = op->verb;
    /* Still held: whoever passes now may end at once, and it must not be the last one. It may also
     * end whatever this operation has started, and free that with the operation in it. */
    if (op->is_inside)
        cay_gate_leave(&session->gate, &op->ticket);
    if (verb != CAY_VERB_LOOK)
        cay_quota_touch(session);
    cay_session_unref(session);
}

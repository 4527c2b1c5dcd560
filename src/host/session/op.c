/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/op.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/stop.h"
#include "host/session/host.h"

static void work(struct cay_job *job)
{
    struct cay_op *op = CAY_CONTAINER_OF(job, struct cay_op, job);
    if (!op->call || !op->steps->ends_with_call) {
        op->is_done = op->steps->work(op, &op->err);
        return;
    }
    (void)cay_stop_watch(&op->call->is_cancelled);
    /* What was ended early is not to be taken for the whole. */
    op->is_done = !cay_stop_asked() && op->steps->work(op, &op->err) && !cay_stop_asked();
    if (!op->is_done && cay_stop_asked())
        cay_fail(&op->err, CAY_R_CANCELED, NULL);
    (void)cay_stop_watch(NULL);
}

static void done(struct cay_job *job)
{
    struct cay_op *op = CAY_CONTAINER_OF(job, struct cay_op, job);
    op->steps->end(op);
}

static void passed(struct cay_gate_ticket *ticket)
{
    struct cay_op *op = CAY_CONTAINER_OF(ticket, struct cay_op, ticket);
    op->is_inside = true;
    if (op->call)
        op->session->last_active_ns = cay_clock_wall_ns();
    const struct cay_session_cell *cell = cay_session_cell(op->session->state, op->verb);
    bool is_allowed = !cell->refusal;
    if (!is_allowed) {
        const char *state = cay_session_state_name(op->session->state);
        cay_fail(&op->err, cell->refusal, "session '%s' is %s now", op->session->id, state);
        cay_error_fact(&op->err, "session_id", "%s", op->session->id);
        cay_error_fact(&op->err, "state", "%s", state);
    }
    if (is_allowed && op->steps->begin)
        is_allowed = op->steps->begin(op, &op->err);
    if (!is_allowed || !op->steps->work) {
        op->is_done = is_allowed;
        op->steps->end(op);
        return;
    }
    op->job.work = work;
    op->job.done = done;
    op->job.lane = op->steps->is_search ? &op->session->search_lane : &op->session->lane;
    cay_loop_submit(op->host->loop, &op->job);
}

void cay_op_start_on(struct cay_op *op, struct cay_session *session, struct cay_call *call,
                     enum cay_session_verb verb, bool is_alone, const struct cay_op_steps *steps)
{
    op->steps = steps;
    op->host = session->host;
    op->call = call;
    op->session = session;
    op->verb = verb;
    session->op_count++;
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
    assert(session->op_count > 0);
    /* Still held: whoever passes now may end at once, and it must not be the last one. */
    if (op->is_inside)
        cay_gate_leave(&session->gate, &op->ticket);
    session->op_count--;
    cay_session_release(session);
}

void cay_op_fail(struct cay_op *op)
{
    struct cay_call *call = op->call;
    cay_op_leave(op);
    if (call)
        cay_call_fail(call, &op->err);
    free(op);
}

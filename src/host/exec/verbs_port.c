/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/noun.h"
#include "host/exec/verbs.h"
#include "host/exec/verbs_process.h"
#include "host/life/wake.h"
#include "host/live/ports.h"
#include "host/session/host.h"

/* Exposing ports, and closing them. */

/* A call that waits for the first look, or until somebody listens. */
struct exposing {
    struct cay_port_waiter waiter;
    struct cay_timer limit;
    struct cay_call *call;
    bool waits; /* until somebody listens */
};

static void finish(struct exposing *self, const struct cay_error *err)
{
    struct cay_call *call = self->call;
    struct cay_v1_exposed_port port;
    if (!err)
        cay_exposed_message(self->waiter.exposed, &call->arena, &port);
    cay_port_waiter_remove(&self->waiter);
    cay_timer_close(&self->limit);
    free(self);
    if (err) {
        cay_call_fail(call, err);
        return;
    }
    struct cay_v1_expose_port_response response = {.port = &port};
    cay_call_done(call, &response);
}

static void looked(struct cay_port_waiter *waiter, bool is_open)
{
    struct exposing *self = CAY_CONTAINER_OF(waiter, struct exposing, waiter);
    struct cay_error err = {};
    if (!is_open) {
        cay_fail(&err, CAY_R_UNAVAILABLE, "the port was closed while it was waited for");
        finish(self, &err);
    } else if (!self->waits || waiter->exposed->is_listening) {
        finish(self, NULL);
    }
}

static void too_late(struct cay_timer *timer)
{
    struct exposing *self = CAY_CONTAINER_OF(timer, struct exposing, limit);
    struct cay_error err = {};
    cay_fail(&err, CAY_R_DEADLINE_EXCEEDED,
             "nothing listens on port %u of the sandbox yet; it stays exposed",
             self->waiter.exposed->number);
    finish(self, &err);
}

static void cancelled(struct cay_call *call)
{
    struct cay_error err = {};
    cay_fail(&err, CAY_R_CANCELED, NULL);
    finish(call->state, &err);
}

static void wait_for(struct cay_call *call, struct cay_exposed *exposed,
                     const struct google_protobuf_duration *wait)
{
    struct exposing *self = cay_new(struct exposing);
    self->call = call;
    self->waits = wait != NULL;
    call->state = self;
    call->on_cancel = cancelled;
    cay_timer_open(&self->limit, exposed->session->host->loop, too_late);
    if (wait)
        cay_timer_start(&self->limit, (uint64_t)cay_noun_duration_ms(wait), 0);
    cay_exposed_wait(exposed, &self->waiter, looked);
}

/* The process may have ended while the session was woken. */
static bool find_process(struct cay_session *session, const struct cay_call *call,
                         struct cay_process **out_process, struct cay_error *err)
{
    const struct cay_v1_expose_port_request *request = call->request;
    struct cay_session *found = NULL;
    *out_process = NULL;
    if (!request->process_id.len)
        return true;
    if (!cay_process_lookup(session->host, call, request->session_id, request->process_id, &found,
                            out_process, err))
        return false;
    return !cay_process_is_over(*out_process) ||
           cay_fail(err, CAY_R_FAILED_PRECONDITION, "process '%s' has ended", (*out_process)->id);
}

static void awake(struct cay_call *call, struct cay_session *session, void *,
                  const struct cay_error *failure)
{
    const struct cay_v1_expose_port_request *request = call->request;
    struct cay_process *process = NULL;
    struct cay_exposed *exposed = NULL;
    struct cay_error err = {};
    if (failure)
        err = *failure;
    else if (call->is_cancelled)
        cay_fail(&err, CAY_R_CANCELED, NULL);
    else if (find_process(session, call, &process, &err))
        (void)cay_expose(session, call, request->port, process, &exposed, &err);
    if (exposed)
        wait_for(call, exposed, request->port->wait_listening);
    else
        cay_call_fail(call, &err);
}

void cay_host_expose_port(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_expose_port_request *request = call->request;
    struct cay_session *session = NULL;
    struct cay_process *process = NULL;
    struct cay_error err = {};
    if (cay_port_request_check(request->port, &err) &&
        cay_session_check(cay_host_of(service), call, request->session_id, CAY_VERB_EXEC, &session,
                          &err) &&
        find_process(session, call, &process, &err))
        cay_wake(session, call, true, awake, NULL);
    else
        cay_call_fail(call, &err);
}

static void closed(void *owner, const struct cay_error *err)
{
    struct cay_call *call = owner;
    struct cay_v1_unexpose_port_response response = {};
    if (err)
        cay_call_fail(call, err);
    else
        cay_call_done(call, &response);
}

void cay_host_unexpose_port(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_unexpose_port_request *request = call->request;
    struct cay_session *session = NULL;
    struct cay_exposed *exposed = NULL;
    struct cay_error err = {};
    if (cay_session_check(cay_host_of(service), call, request->session_id, CAY_VERB_LOOK, &session,
                          &err)) {
        exposed = cay_exposed_find(session, request->port);
        if (exposed)
            cay_unexpose(exposed, call, "requested", closed, call);
        else
            cay_fail(&err, CAY_R_NOT_FOUND, "port %u of session '%s' is not exposed", request->port,
                     session->id);
    }
    if (err.reason)
        cay_call_fail(call, &err);
}

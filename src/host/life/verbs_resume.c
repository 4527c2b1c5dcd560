/* SPDX-License-Identifier: Apache-2.0 */
#include "api/noun.h"
#include "host/life/deadline.h"
#include "host/life/pause.h"
#include "host/life/start.h"
#include "host/life/verbs.h"
#include "host/life/wake.h"
#include "host/session/host.h"
#include "host/session/request.h"
#include "host/session/session.h"
#include "host/session/state.h"

/* Ready or not, it is resumed: whoever wants to know why it is not must get in. */
static void answer_ready(struct cay_call *call, struct cay_session *session,
                         const struct cay_error *)
{
    struct cay_v1_resume_session_response response = {
        .session = cay_session_message(session, &call->arena), .resumed = true};
    cay_call_done(call, &response);
}

static void answer_awake(struct cay_call *call, struct cay_session *session, void *,
                         const struct cay_error *err)
{
    if (err)
        cay_call_fail(call, err);
    else
        cay_start_wait(session, call, answer_ready);
}

/* What the base starts is there again when the caller is told; without it, a sandbox that was
 * stopped can wait until it is needed. */
static void answer_resumed(struct cay_session *session, void *context, const struct cay_error *err)
{
    struct cay_call *call = context;
    const struct cay_v1_resume_session_request *request = call->request;
    if (err) {
        cay_call_fail(call, err);
        return;
    }
    if (request->expire_in)
        cay_deadline_expire_in(session, cay_noun_duration_ms(request->expire_in), false);
    if (session->live || !session->spec->start_command.count)
        answer_ready(call, session, NULL);
    else
        cay_wake(session, call, true, answer_awake, NULL);
}

void cay_host_resume_session(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_resume_session_request *request = call->request;
    struct cay_host *host = cay_host_of(service);
    struct cay_session *session = NULL;
    struct cay_error err = {};
    if (!cay_check_expire_in(request->expire_in, &err) ||
        !cay_session_check(host, call, request->session_id, CAY_VERB_LOOK, &session, &err)) {
        cay_call_fail(call, &err);
        return;
    }
    if (session->state == CAY_SESSION_ACTIVE && request->allow_active) {
        if (request->expire_in)
            cay_deadline_expire_in(session, cay_noun_duration_ms(request->expire_in), true);
        struct cay_v1_resume_session_response response = {
            .session = cay_session_message(session, &call->arena)};
        cay_call_done(call, &response);
        return;
    }
    if (!cay_session_check(host, call, request->session_id, CAY_VERB_RESUME, &session, &err)) {
        cay_call_fail(call, &err);
        return;
    }
    cay_resume_for(session, call, request->cold, answer_resumed, call);
}

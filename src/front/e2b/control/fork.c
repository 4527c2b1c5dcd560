/* SPDX-License-Identifier: Apache-2.0 */
#include "api/limits.h"
#include "api/noun.h"
#include "base/clock.h"
#include "front/e2b/control/handlers.h"
#include "front/e2b/control/shape.h"
#include "wire/e2b/e2b.h"

/* Forks of a running sandbox: its files at this instant, as often as wanted. */

enum { TIMEOUT_DEFAULT_S = 15 };

static void forked(struct cay_rest_request *request, struct cay_rest_call *, const void *response,
                   const struct cay_error *err)
{
    const struct cay_v1_fork_session_response *made = response;
    if (err) {
        cay_rest_reply_error(request, err);
        return;
    }
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, CAY_LIMIT_MESSAGE_BYTES);
    struct cay_json_writer json = {.buf = &body};
    cay_json_array_begin(&json);
    for (size_t i = 0; i < made->forks.count; i++) {
        cay_json_object_begin(&json);
        cay_json_key(&json, "sandbox");
        cay_e2b_write_sandbox(&json, cay_e2b_visit(request)->e2b, made->forks.items[i].session,
                              made->forks.items[i].tokens);
        cay_json_object_end(&json);
    }
    cay_json_array_end(&json);
    cay_rest_reply_json(request, 201, cay_buf_str(&body));
}

/* The rules of the source, with a deadline of their own. */
static struct cay_v1_lifecycle *lifecycle_of(const struct cay_v1_session *source, int64_t timeout_s,
                                             struct cay_arena *arena)
{
    struct cay_v1_lifecycle *lifecycle = cay_arena_new(arena, struct cay_v1_lifecycle);
    if (!lifecycle)
        return NULL;
    if (source->lifecycle) {
        lifecycle->on_expiry = source->lifecycle->on_expiry;
        lifecycle->auto_resume = source->lifecycle->auto_resume;
    }
    lifecycle->timeout = cay_noun_duration(arena, timeout_s * CAY_NS_PER_SEC);
    return lifecycle;
}

static void got_source(struct cay_rest_request *request,
                       const struct cay_v1_get_session_response *got, void *state)
{
    const struct e2b_fork_sandbox *wanted = state;
    if (got->session->state != CAY_V1_SESSION_STATE_ACTIVE) {
        cay_rest_reply_fault(request, 409, "the sandbox does not run; connect to it first");
        return;
    }
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_FORK_SESSION);
    struct cay_v1_fork_session_request *ask = cay_rest_call_message(call);
    ask->session_id = cay_e2b_id_cut(request->params[0]);
    ask->count = wanted->has_count ? (int32_t)wanted->count : 1;
    ask->lifecycle =
        lifecycle_of(got->session, wanted->has_timeout ? wanted->timeout : TIMEOUT_DEFAULT_S,
                     &call->errand.call.arena);
    cay_rest_call_start(call, forked);
}

void cay_e2b_fork(struct cay_rest_request *request)
{
    struct e2b_fork_sandbox *wanted = cay_rest_read(request, &e2b_fork_sandbox_desc);
    if (!wanted)
        return;
    if (wanted->has_count && (wanted->count < 1 || wanted->count > CAY_LIMIT_FORKS)) {
        cay_rest_reply_fault(request, 400, "count must be 1 to 100");
        return;
    }
    if (wanted->has_timeout && (wanted->timeout <= 0 || wanted->timeout > CAY_LIMIT_SPAN_S)) {
        cay_rest_reply_fault(request, 400, "Timeout must be greater than 0");
        return;
    }
    cay_e2b_get_sandbox(request, got_source, wanted);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "api/limits.h"
#include "api/noun.h"
#include "base/clock.h"
#include "front/e2b/control/handlers.h"
#include "front/e2b/control/shape.h"
#include "front/rest/call.h"
#include "wire/e2b/e2b.h"

/* One sandbox, named in the path. */

enum {
    CONNECT_DEFAULT_S = 300,
    REFRESH_MIN_S = 15,
    STOP_DRAIN_MS = 5000, /* for transfers under way, before a pause that ends processes */
};

struct look {
    cay_e2b_sandbox_fn *found;
    void *state;
};

static void reply_missing(struct cay_rest_request *request)
{
    cay_rest_reply_fault(request, 404, "there is no such sandbox");
}

static void looked(struct cay_rest_request *request, struct cay_rest_call *call,
                   const void *response, const struct cay_error *err)
{
    const struct cay_v1_get_session_response *got = response;
    const struct look *look = call->state;
    if (err)
        cay_rest_reply_error(request, err);
    else if (!cay_e2b_is_sandbox(got->session))
        reply_missing(request);
    else
        look->found(request, got, look->state);
}

void cay_e2b_get_sandbox(struct cay_rest_request *request, cay_e2b_sandbox_fn *found, void *state)
{
    struct cay_str id = cay_e2b_id_cut(request->params[0]);
    struct look *look = cay_arena_new(&request->arena, struct look);
    if (!look || !cay_e2b_id_valid(id)) {
        reply_missing(request);
        return;
    }
    *look = (struct look){.found = found, .state = state};
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_GET_SESSION);
    struct cay_v1_get_session_request *ask = cay_rest_call_message(call);
    ask->session_id = id;
    ask->include_tokens = true;
    call->state = look;
    cay_rest_call_start(call, looked);
}

static struct google_protobuf_duration *seconds(struct cay_rest_call *call, int64_t count)
{
    return cay_noun_duration(&call->errand.call.arena,
                             CAY_MIN(count, (int64_t)CAY_LIMIT_SPAN_S) * CAY_NS_PER_SEC);
}

void cay_e2b_done_empty(struct cay_rest_request *request, struct cay_rest_call *, const void *,
                        const struct cay_error *err)
{
    if (err)
        cay_rest_reply_error(request, err);
    else
        cay_rest_reply_empty(request, 204);
}

static void got_info(struct cay_rest_request *request,
                     const struct cay_v1_get_session_response *got, void *)
{
    bool is_there = got->session->state == CAY_V1_SESSION_STATE_ACTIVE ||
                    got->session->state == CAY_V1_SESSION_STATE_PAUSED;
    if (!is_there) {
        reply_missing(request);
        return;
    }
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, CAY_LIMIT_MESSAGE_BYTES);
    struct cay_json_writer json = {.buf = &body};
    cay_e2b_write_detail(&json, cay_e2b_visit(request)->e2b, got->session, got->tokens);
    cay_rest_reply_json(request, 200, cay_buf_str(&body));
}

void cay_e2b_info(struct cay_rest_request *request)
{
    cay_e2b_get_sandbox(request, got_info, NULL);
}

static void kill_it(struct cay_rest_request *request, const struct cay_v1_get_session_response *,
                    void *)
{
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_DESTROY_SESSION);
    struct cay_v1_destroy_session_request *ask = cay_rest_call_message(call);
    ask->session_id = cay_e2b_id_cut(request->params[0]);
    cay_rest_call_start(call, cay_e2b_done_empty);
}

void cay_e2b_kill(struct cay_rest_request *request)
{
    cay_e2b_get_sandbox(request, kill_it, NULL);
}

struct deadline {
    int64_t timeout_s;
    bool is_extension;
};

/* One that is paused has no deadline, so that it stays: one that ran meanwhile would be its end. */
static void move_deadline(struct cay_rest_request *request,
                          const struct cay_v1_get_session_response *got, void *state)
{
    const struct deadline *wanted = state;
    if (got->session->state == CAY_V1_SESSION_STATE_PAUSED) {
        cay_rest_reply_fault(request, 409,
                             "the sandbox is paused; connect to it with the timeout it is to have");
        return;
    }
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_UPDATE_SESSION);
    struct cay_v1_update_session_request *ask = cay_rest_call_message(call);
    ask->session_id = cay_e2b_id_cut(request->params[0]);
    ask->expire_in = seconds(call, wanted->timeout_s);
    ask->extend_only = wanted->is_extension;
    cay_rest_call_start(call, cay_e2b_done_empty);
}

static void set_deadline(struct cay_rest_request *request, int64_t timeout_s, bool is_extension)
{
    struct deadline *wanted = cay_arena_new(&request->arena, struct deadline);
    if (!wanted) {
        cay_rest_reply_fault(request, 413, "the request is too large");
        return;
    }
    *wanted = (struct deadline){.timeout_s = timeout_s, .is_extension = is_extension};
    cay_e2b_get_sandbox(request, move_deadline, wanted);
}

void cay_e2b_set_timeout(struct cay_rest_request *request)
{
    const struct e2b_set_timeout *wanted = cay_rest_read(request, &e2b_set_timeout_desc);
    if (!wanted)
        return;
    if (!wanted->has_timeout)
        cay_rest_reply_fault(request, 400, "timeout: seconds from now");
    else
        set_deadline(request, CAY_MAX(wanted->timeout, 0), false);
}

void cay_e2b_refresh(struct cay_rest_request *request)
{
    const struct e2b_refresh *wanted = cay_rest_read(request, &e2b_refresh_desc);
    if (wanted)
        set_deadline(request, CAY_MAX(wanted->duration, REFRESH_MIN_S), true);
}

static void pause_it(struct cay_rest_request *request, const struct cay_v1_get_session_response *,
                     void *state)
{
    const struct e2b_pause_sandbox *wanted = state;
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_PAUSE_SESSION);
    struct cay_v1_pause_session_request *ask = cay_rest_call_message(call);
    bool keeps_memory = !wanted->has_memory || wanted->memory;
    ask->session_id = cay_e2b_id_cut(request->params[0]);
    ask->mode = keeps_memory ? CAY_V1_PAUSE_MODE_FREEZE : CAY_V1_PAUSE_MODE_STOP;
    ask->freeze_tools = keeps_memory;
    if (!keeps_memory)
        ask->drain_timeout =
            cay_noun_duration(&call->errand.call.arena, STOP_DRAIN_MS * CAY_NS_PER_MS);
    /* What somebody put to sleep is there until somebody wakes or kills it. */
    ask->suspend_deadline = true;
    cay_rest_call_start(call, cay_e2b_done_empty);
}

void cay_e2b_pause(struct cay_rest_request *request)
{
    struct e2b_pause_sandbox *wanted = cay_rest_read(request, &e2b_pause_sandbox_desc);
    if (wanted)
        cay_e2b_get_sandbox(request, pause_it, wanted);
}

static void got_connected(struct cay_rest_request *request,
                          const struct cay_v1_get_session_response *got, void *was_resumed)
{
    cay_e2b_reply_sandbox_made(request, was_resumed ? 201 : 200, got->session, got->tokens);
}

static void connected(struct cay_rest_request *request, struct cay_rest_call *,
                      const void *response, const struct cay_error *err)
{
    static char was_resumed;
    const struct cay_v1_resume_session_response *resumed = response;
    if (err) {
        cay_rest_reply_error(request, err);
        return;
    }
    cay_e2b_get_sandbox(request, got_connected, resumed->resumed ? &was_resumed : NULL);
}

static void resume_it(struct cay_rest_request *request, const struct cay_v1_get_session_response *,
                      void *state)
{
    const struct e2b_connect_sandbox *wanted = state;
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_RESUME_SESSION);
    struct cay_v1_resume_session_request *ask = cay_rest_call_message(call);
    ask->session_id = cay_e2b_id_cut(request->params[0]);
    ask->allow_active = true;
    ask->expire_in = seconds(call, wanted->has_timeout ? wanted->timeout : CONNECT_DEFAULT_S);
    ask->cold = wanted->has_memory && !wanted->memory;
    cay_rest_call_start(call, connected);
}

void cay_e2b_connect(struct cay_rest_request *request)
{
    struct e2b_connect_sandbox *wanted = cay_rest_read(request, &e2b_connect_sandbox_desc);
    if (!wanted)
        return;
    if (wanted->has_timeout && wanted->timeout <= 0)
        cay_rest_reply_fault(request, 400, "Timeout must be greater than 0");
    else
        cay_e2b_get_sandbox(request, resume_it, wanted);
}

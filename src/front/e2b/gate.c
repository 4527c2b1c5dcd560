/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/gate.h"

#include <stdio.h>

#include "api/limits.h"
#include "api/noun.h"
#include "base/clock.h"
#include "front/e2b/cutter.h"
#include "front/e2b/sandbox.h"
#include "front/e2b/token.h"
#include "front/rest/call.h"

enum { RESUMED_MIN_S = 300 }; /* what a sandbox woken by traffic gets at least */

/* People follow links to ports; they get something to read. */
static bool is_browser(const struct cay_rest_request *request)
{
    return cay_e2b_visit(request)->port != CAY_E2B_ENVD_PORT &&
           cay_http_list_has(cay_http_header(&request->exchange->headers, "accept"), "text/html");
}

/* Nothing here needs escaping but the reason, whose quotes and brackets are left out. */
static void reply_page(struct cay_rest_request *request, int status, const char *message,
                       uint16_t port, const char *why)
{
    cay_auto(cay_buf_finish) struct cay_buf page;
    cay_buf_init(&page, 8192);
    cay_buf_printf(&page,
                   "<!doctype html><meta charset=utf-8><title>%d</title><h1>%s</h1><p>Sandbox %.*s",
                   status, message, (int)cay_e2b_visit(request)->sandbox_id.len,
                   cay_e2b_visit(request)->sandbox_id.ptr);
    if (port)
        cay_buf_printf(&page, ", port %u", port);
    cay_buf_append_text(&page, "</p><p>");
    for (const char *at = why ? why : ""; *at; at++) {
        if (!strchr("<>&\"'", *at))
            cay_buf_append_byte(&page, (unsigned char)*at);
    }
    cay_buf_append_text(&page, "</p>\n");
    request->is_answered = true;
    cay_exchange_reply(request->exchange, status, "text/html; charset=utf-8", cay_buf_str(&page));
}

void cay_e2b_reply_sandbox(struct cay_rest_request *request, int status, const char *message,
                           uint16_t port, const char *why)
{
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, 8192);
    struct cay_json_writer json = {.buf = &body};
    cay_json_object_begin(&json);
    cay_json_key(&json, "sandboxId");
    cay_json_string(&json, cay_e2b_visit(request)->sandbox_id);
    cay_json_key(&json, "message");
    cay_json_text(&json, message);
    if (port) {
        cay_json_key(&json, "port");
        cay_json_i64(&json, port);
    }
    if (why) {
        cay_json_key(&json, "why");
        cay_json_text(&json, why);
    }
    cay_json_key(&json, "code");
    cay_json_i64(&json, status);
    cay_json_object_end(&json);
    if (is_browser(request))
        reply_page(request, status, message, port, why);
    else
        cay_rest_reply_json(request, status, cay_buf_str(&body));
}

void cay_e2b_reply_port_closed(struct cay_rest_request *request)
{
    /* Whoever listened may have gone with a sandbox that was lost. */
    const char *why =
        cay_e2b_may_know(request)
            ? cay_arena_copy(&request->arena, cay_e2b_visit(request)->session->state_message)
            : NULL;
    cay_e2b_reply_sandbox(request, 502, "The sandbox is running but port is not open",
                          cay_e2b_visit(request)->port, why && *why ? why : NULL);
}

static void reply_gone(struct cay_rest_request *request, const char *why)
{
    cay_e2b_reply_sandbox(request, 502, "The sandbox was not found", 0, why);
}

void cay_e2b_reply_unknown(struct cay_rest_request *request)
{
    reply_gone(request, cay_reason_info(CAY_R_SESSION_NOT_FOUND)->text);
}

bool cay_e2b_has_public_ports(const struct cay_rest_request *request)
{
    const struct cay_v1_network_policy *network = cay_e2b_visit(request)->session->network;
    return network && network->public_ports;
}

/* Of a sandbox with public ports, or with ports that ask for their token, the world knows. */
bool cay_e2b_may_know(const struct cay_rest_request *request)
{
    const struct cay_v1_network_policy *network = cay_e2b_visit(request)->session->network;
    return cay_e2b_visit(request)->is_trusted ||
           (network && (network->public_ports || network->private_ports));
}

/* Whoever passed the gate is nobody but a user of this one session. By which key is still told:
 * what is open by it ends with it. */
static void become_user(struct cay_rest_request *request)
{
    const struct cay_v1_session *session = cay_e2b_visit(request)->session;
    const struct cay_caller *by = &request->auth.caller;
    request->caller = (struct cay_caller){.role = CAY_ROLE_USER};
    if (cay_e2b_visit(request)->is_trusted) {
        memcpy(request->caller.key_id, by->key_id, sizeof(by->key_id));
        memcpy(request->caller.voucher, by->voucher, sizeof(by->voucher));
    }
    snprintf(request->caller.owner, sizeof(request->caller.owner), "%.*s", (int)session->owner.len,
             session->owner.ptr);
    snprintf(request->caller.session_id, sizeof(request->caller.session_id), "%.*s",
             (int)cay_e2b_visit(request)->sandbox_id.len, cay_e2b_visit(request)->sandbox_id.ptr);
}

static void pass(struct cay_rest_request *request)
{
    become_user(request);
    cay_e2b_cutter_add(request);
    cay_e2b_visit(request)->inside->pass(request);
}

static void resumed(struct cay_rest_request *request, struct cay_rest_call *, const void *,
                    const struct cay_error *err)
{
    if (err)
        reply_gone(request, err->text);
    else
        pass(request);
}

/* Strangers wake what is public, by its ports; whoever has shown nothing else does not. */
static bool may_wake(const struct cay_rest_request *request)
{
    const struct cay_v1_session *session = cay_e2b_visit(request)->session;
    bool is_traffic =
        cay_e2b_visit(request)->port != CAY_E2B_ENVD_PORT && cay_e2b_has_public_ports(request);
    return session->lifecycle && session->lifecycle->auto_resume &&
           session->pause_mode != CAY_V1_PAUSE_MODE_STOP &&
           (cay_e2b_visit(request)->is_trusted || is_traffic);
}

static void wake(struct cay_rest_request *request)
{
    const struct cay_v1_lifecycle *lifecycle = cay_e2b_visit(request)->session->lifecycle;
    become_user(request);
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_RESUME_SESSION);
    struct cay_v1_resume_session_request *ask = cay_rest_call_message(call);
    ask->session_id = cay_e2b_visit(request)->sandbox_id;
    ask->allow_active = true;
    if (lifecycle->timeout) {
        int64_t ms = CAY_MAX(cay_noun_duration_ms(lifecycle->timeout), RESUMED_MIN_S * 1000);
        ask->expire_in = cay_noun_duration(&call->errand.call.arena, ms * CAY_NS_PER_MS);
    }
    cay_rest_call_start(call, resumed);
}

/* Who may not pass learns nothing of its state, and wakes nobody. */
static void admit(struct cay_rest_request *request)
{
    if (!cay_e2b_visit(request)->inside->admit(request))
        return;
    if (cay_e2b_visit(request)->session->state == CAY_V1_SESSION_STATE_ACTIVE)
        pass(request);
    else if (cay_e2b_visit(request)->session->state == CAY_V1_SESSION_STATE_PAUSED &&
             may_wake(request))
        wake(request);
    else if (!cay_e2b_may_know(request))
        cay_e2b_reply_unknown(request);
    else if (cay_e2b_visit(request)->session->state == CAY_V1_SESSION_STATE_PAUSED)
        reply_gone(request, "the sandbox is paused; connect to it to resume it");
    else if (cay_e2b_visit(request)->session->state == CAY_V1_SESSION_STATE_DESTROYING)
        reply_gone(request, "the sandbox is being destroyed");
    else
        reply_gone(request, "the sandbox does not run");
}

static void vouched(struct cay_rest_request *request, struct cay_rest_call *, const void *,
                    const struct cay_error *err)
{
    cay_e2b_visit(request)->is_trusted = !err;
    admit(request);
}

static void recognised(struct cay_auth *auth, const struct cay_error *err)
{
    struct cay_rest_request *request = CAY_CONTAINER_OF(auth, struct cay_rest_request, auth);
    cay_rest_enter(request);
    if (err) {
        admit(request);
    } else {
        request->caller = auth->caller;
        struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_GET_SESSION);
        struct cay_v1_get_session_request *ask = cay_rest_call_message(call);
        ask->session_id = cay_e2b_visit(request)->sandbox_id;
        cay_rest_call_start(call, vouched);
    }
    cay_rest_leave(request);
}

/* What whoever asks has to show: a token of the session, or a key whose owner may know of it, which
 * is for the hallway to say. */
static void find_out(struct cay_rest_request *request)
{
    static const struct cay_auth_asker asker = {.done = recognised, .lapsed = cay_rest_lapsed};
    const struct cay_http_headers *headers = &request->exchange->headers;
    const struct cay_porch *porch = request->porch;
    cay_e2b_visit(request)->is_trusted =
        cay_e2b_token_is(cay_http_header(headers, "x-access-token"),
                         cay_e2b_visit(request)->tokens->access_token) ||
        cay_e2b_token_is(cay_http_header(headers, "e2b-traffic-access-token"),
                         cay_e2b_visit(request)->tokens->traffic_token);
    cay_e2b_visit(request)->is_by_token = cay_e2b_visit(request)->is_trusted;
    if (cay_e2b_visit(request)->is_trusted)
        admit(request);
    else
        cay_auth_recognise(&request->auth, request->exchange, porch->service,
                           porch->allow_anonymous, &asker);
}

static void got_session(struct cay_rest_request *request, struct cay_rest_call *,
                        const void *response, const struct cay_error *err)
{
    const struct cay_v1_get_session_response *got = response;
    if (err) {
        reply_gone(request, err->text);
        return;
    }
    cay_e2b_visit(request)->session =
        cay_noun_copy(&cay_v1_session_desc, got->session, &request->arena);
    if (got->tokens)
        cay_e2b_visit(request)->tokens =
            cay_noun_copy(&cay_v1_session_tokens_desc, got->tokens, &request->arena);
    if (!cay_e2b_visit(request)->session || !cay_e2b_visit(request)->tokens) {
        cay_rest_reply_fault(request, 500, "the sandbox cannot be looked at");
        return;
    }
    if (cay_e2b_is_sandbox(cay_e2b_visit(request)->session)) /* a snapshot never runs */
        find_out(request);
    else
        cay_e2b_reply_unknown(request);
}

void cay_e2b_gate(struct cay_rest_request *request, const struct cay_e2b_inside *inside)
{
    cay_e2b_visit(request)->inside = inside;
    /* The door itself looks: a request to a public port has no caller to speak of. */
    request->caller = cay_e2b_door_caller();
    snprintf(request->caller.session_id, sizeof(request->caller.session_id), "%.*s",
             (int)cay_e2b_visit(request)->sandbox_id.len, cay_e2b_visit(request)->sandbox_id.ptr);
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_GET_SESSION);
    struct cay_v1_get_session_request *ask = cay_rest_call_message(call);
    ask->session_id = cay_e2b_visit(request)->sandbox_id;
    ask->include_tokens = true;
    cay_rest_call_start(call, got_session);
}

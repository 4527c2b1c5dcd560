/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/envd/rpc.h"

#include <errno.h>
#include <stdio.h>

#include "api/limits.h"
#include "base/base64.h"
#include "base/utf8.h"
#include "wire/rpc.h"

enum { USER_BYTES_MAX = 256 };

static bool is_stream(const struct cay_rest_request *request)
{
    struct cay_rpc_kind kind;
    struct cay_str type = cay_http_header(&request->exchange->headers, "content-type");
    return cay_rpc_kind_parse(type, &kind) && kind.protocol == CAY_RPC_CONNECT_STREAM;
}

static int status_of(enum cay_connect_code code)
{
    static const int statuses[] = {
        [CAY_CODE_CANCELED] = 499,
        [CAY_CODE_UNKNOWN] = 500,
        [CAY_CODE_INVALID_ARGUMENT] = 400,
        [CAY_CODE_DEADLINE_EXCEEDED] = 504,
        [CAY_CODE_NOT_FOUND] = 404,
        [CAY_CODE_ALREADY_EXISTS] = 409,
        [CAY_CODE_PERMISSION_DENIED] = 403,
        [CAY_CODE_RESOURCE_EXHAUSTED] = 429,
        [CAY_CODE_FAILED_PRECONDITION] = 400,
        [CAY_CODE_ABORTED] = 409,
        [CAY_CODE_OUT_OF_RANGE] = 400,
        [CAY_CODE_UNIMPLEMENTED] = 501,
        [CAY_CODE_INTERNAL] = 500,
        [CAY_CODE_UNAVAILABLE] = 503,
        [CAY_CODE_DATA_LOSS] = 500,
        [CAY_CODE_UNAUTHENTICATED] = 401,
    };
    return (size_t)code < CAY_COUNT(statuses) && statuses[code] ? statuses[code] : 500;
}

static void write_error(struct cay_json_writer *json, enum cay_connect_code code,
                        const char *message)
{
    cay_json_object_begin(json);
    cay_json_key(json, "code");
    cay_json_text(json, cay_code_name(code));
    cay_json_key(json, "message");
    cay_json_text(json, message);
    cay_json_object_end(json);
}

static void open_stream(struct cay_rest_request *request)
{
    static const struct cay_http_header type = {CAY_STR("content-type"),
                                                CAY_STR("application/connect+json")};
    if (request->is_answered)
        return;
    request->exchange->is_long_lived = true;
    cay_rest_respond(request, 200, &type, 1, -1);
}

void cay_e2b_envelope_begin(struct cay_e2b_envelope *envelope)
{
    cay_buf_init(&envelope->buf, CAY_LIMIT_MESSAGE_BYTES);
    envelope->at = cay_envelope_begin(&envelope->buf);
    envelope->json = (struct cay_json_writer){.buf = &envelope->buf};
}

static void write_envelope(struct cay_rest_request *request, struct cay_e2b_envelope *envelope,
                           unsigned char flags)
{
    open_stream(request);
    cay_envelope_end(&envelope->buf, envelope->at, flags);
    if (!envelope->buf.failed)
        cay_exchange_write(request->exchange, envelope->buf.data, envelope->buf.len);
    cay_buf_finish(&envelope->buf);
}

bool cay_e2b_envelope_send(struct cay_rest_request *request, struct cay_e2b_envelope *envelope)
{
    write_envelope(request, envelope, 0);
    return cay_exchange_has_room(request->exchange);
}

bool cay_e2b_rpc_send_empty(struct cay_rest_request *request, const char *outer, const char *inner)
{
    struct cay_e2b_envelope envelope;
    cay_e2b_envelope_begin(&envelope);
    cay_json_object_begin(&envelope.json);
    cay_json_key(&envelope.json, outer);
    cay_json_object_begin(&envelope.json);
    if (inner) {
        cay_json_key(&envelope.json, inner);
        cay_json_object_begin(&envelope.json);
        cay_json_object_end(&envelope.json);
    }
    cay_json_object_end(&envelope.json);
    cay_json_object_end(&envelope.json);
    return cay_e2b_envelope_send(request, &envelope);
}

static void finish_stream(struct cay_rest_request *request, enum cay_connect_code code,
                          const char *message)
{
    struct cay_e2b_envelope envelope;
    cay_e2b_envelope_begin(&envelope);
    cay_json_object_begin(&envelope.json);
    if (code != CAY_CODE_OK) {
        cay_json_key(&envelope.json, "error");
        write_error(&envelope.json, code, message);
    }
    cay_json_object_end(&envelope.json);
    write_envelope(request, &envelope, CAY_ENVELOPE_CONNECT_END);
    cay_exchange_finish(request->exchange, NULL, 0);
}

void cay_e2b_rpc_end(struct cay_rest_request *request)
{
    finish_stream(request, CAY_CODE_OK, NULL);
}

void cay_e2b_rpc_cut(struct cay_rest_request *request)
{
    request->is_answered = true;
    cay_exchange_reset(request->exchange);
}

void cay_e2b_rpc_reply(struct cay_rest_request *request, struct cay_str json)
{
    cay_rest_reply_json(request, 200, json);
}

void cay_e2b_rpc_fail(struct cay_rest_request *request, enum cay_connect_code code,
                      const char *message)
{
    request->exchange->log_code = cay_code_name(code);
    if (is_stream(request)) {
        finish_stream(request, code, message);
        return;
    }
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, 8192);
    struct cay_json_writer json = {.buf = &body};
    write_error(&json, code, message);
    cay_rest_reply_json(request, status_of(code), cay_buf_str(&body));
}

/* Codes by which clients of this wire know what went wrong, where ours differ. */
static enum cay_connect_code code_of(enum cay_reason reason)
{
    static const struct {
        enum cay_reason reason;
        enum cay_connect_code code;
    } others[] = {
        {CAY_R_NOT_A_DIRECTORY, CAY_CODE_INVALID_ARGUMENT},
        {CAY_R_IS_A_DIRECTORY, CAY_CODE_INVALID_ARGUMENT},
        {CAY_R_NOT_A_REGULAR_FILE, CAY_CODE_INVALID_ARGUMENT},
        {CAY_R_SESSION_PAUSED, CAY_CODE_UNAVAILABLE},
        {CAY_R_SESSION_DESTROYING, CAY_CODE_UNAVAILABLE},
        {CAY_R_SESSION_NOT_FOUND, CAY_CODE_UNAVAILABLE},
    };
    for (size_t i = 0; i < CAY_COUNT(others); i++) {
        if (others[i].reason == reason)
            return others[i].code;
    }
    return cay_reason_info(reason)->code;
}

void cay_e2b_rpc_error(struct cay_rest_request *request, const struct cay_error *err)
{
    struct cay_str user = {};
    bool is_stranger =
        err->reason == CAY_R_USER_NOT_FOUND || cay_rest_error_is_of(err, "user"); /* no name */
    if (is_stranger && cay_e2b_rpc_user(request, &user)) {
        char text[USER_BYTES_MAX + 64];
        snprintf(text, sizeof(text), "invalid username: '%.*s'", (int)user.len,
                 user.len ? user.ptr : "");
        cay_e2b_rpc_fail(request, CAY_CODE_UNAUTHENTICATED, text);
        return;
    }
    cay_e2b_rpc_fail(request, code_of(err->reason), err->text);
}

static bool open_envelope(struct cay_str body, struct cay_str *out_payload)
{
    const unsigned char *head = (const unsigned char *)body.ptr;
    if (body.len < CAY_ENVELOPE_HEAD_BYTES || head[0] != 0)
        return false;
    uint32_t len =
        (uint32_t)head[1] << 24 | (uint32_t)head[2] << 16 | (uint32_t)head[3] << 8 | head[4];
    *out_payload =
        (struct cay_str){body.ptr + CAY_ENVELOPE_HEAD_BYTES, body.len - CAY_ENVELOPE_HEAD_BYTES};
    return out_payload->len == len;
}

bool cay_e2b_rpc_payload(const struct cay_rest_request *request, struct cay_str *out_payload)
{
    *out_payload = cay_buf_str(&request->body);
    return !is_stream(request) || open_envelope(*out_payload, out_payload);
}

void *cay_e2b_rpc_read(struct cay_rest_request *request, const struct cay_pb_message *desc)
{
    static const char fault[] = "the request is not the JSON this call takes";
    struct cay_str payload;
    bool is_whole = cay_e2b_rpc_payload(request, &payload);
    if (is_whole)
        cay_rest_decode(request, payload, desc);
    void *message = request->message; /* the request may be gone once it is answered */
    if (!message)
        cay_e2b_rpc_fail(request, CAY_CODE_INVALID_ARGUMENT,
                         *request->read_fault ? request->read_fault : fault);
    return message;
}

static bool decode_user(struct cay_rest_request *request, struct cay_str encoded,
                        struct cay_str *out_user)
{
    char *text = cay_arena_alloc(&request->arena, cay_base64_decoded_len_max(encoded.len) + 1);
    size_t len = 0;
    if (!text || cay_base64_decode(encoded, text, &len) < 0)
        return false;
    const char *colon = memchr(text, ':', len);
    *out_user = (struct cay_str){text, colon ? (size_t)(colon - text) : len};
    return out_user->len < USER_BYTES_MAX && cay_utf8_valid(*out_user);
}

bool cay_e2b_rpc_user(struct cay_rest_request *request, struct cay_str *out_user)
{
    static const char scheme[] = "Basic ";
    struct cay_str value = cay_http_header(&request->exchange->headers, "authorization");
    *out_user = (struct cay_str){};
    if (!value.len)
        return true;
    struct cay_str encoded = {};
    if (cay_str_starts(value, scheme))
        encoded =
            (struct cay_str){value.ptr + sizeof(scheme) - 1, value.len - (sizeof(scheme) - 1)};
    if (encoded.len && decode_user(request, encoded, out_user))
        return true;
    cay_e2b_rpc_fail(request, CAY_CODE_UNAUTHENTICATED, "the authorization header names no user");
    return false;
}

uint64_t cay_e2b_rpc_timeout_ms(const struct cay_rest_request *request)
{
    struct cay_str value = cay_http_header(&request->exchange->headers, "connect-timeout-ms");
    uint64_t ms = 0;
    if (!value.len || cay_rpc_timeout_parse(CAY_RPC_CONNECT_UNARY, value, &ms) < 0)
        return 0;
    return ms;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/request.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "api/limits.h"
#include "front/e2b/cors.h"
#include "front/e2b/envd_rpc.h"
#include "front/e2b/hall.h"
#include "front/http/server.h"

enum { HEADERS_MAX = 8 }; /* of an answer */

struct cay_caller cay_e2b_door_caller(void)
{
    return (struct cay_caller){.role = CAY_ROLE_ADMIN, .owner = "local", .is_door = true};
}

void cay_e2b_enter(struct cay_e2b_request *request)
{
    request->depth++;
}

void cay_e2b_leave(struct cay_e2b_request *request)
{
    if (--request->depth || request->exchange || request->away.is_away ||
        !cay_list_empty(&request->calls))
        return;
    cay_body_release(&request->charge);
    cay_buf_finish(&request->body);
    cay_arena_finish(&request->arena);
    free(request);
}

/* On the loop thread, or on a worker while the request is away. */
static void decode(struct cay_e2b_request *request, const struct cay_pb_message *desc)
{
    void *message = cay_arena_alloc(&request->arena, desc->size_bytes);
    request->read_status = message ? 0 : -ENOMEM;
    if (message && cay_str_trim(request->payload).len)
        request->read_status =
            cay_pb_json_read(desc, request->payload, NULL, &request->arena, message,
                             request->read_fault, sizeof(request->read_fault));
    request->message = request->read_status == 0 ? message : NULL;
    request->is_read = true;
}

void cay_e2b_decode(struct cay_e2b_request *request, struct cay_str payload,
                    const struct cay_pb_message *desc)
{
    assert(request->route->input == desc);
    if (request->is_read)
        return;
    request->payload = payload;
    decode(request, desc);
}

static void decode_away(struct cay_away *away)
{
    struct cay_e2b_request *request = CAY_CONTAINER_OF(away, struct cay_e2b_request, away);
    decode(request, request->route->input);
}

/* What a message was decoded to is chosen by the peer, too. */
static bool charge(struct cay_e2b_request *request)
{
    struct cay_error err = {};
    if (cay_body_charge_to(&request->charge, &request->door->porch->bodies, request->caller.owner,
                           request->body.len + (request->is_read ? request->arena.used_bytes : 0),
                           &err))
        return true;
    cay_e2b_reply_fault(request, 429, err.text);
    return false;
}

static void decoded(struct cay_away *away)
{
    struct cay_e2b_request *request = CAY_CONTAINER_OF(away, struct cay_e2b_request, away);
    cay_e2b_enter(request);
    if (!request->is_answered && charge(request))
        request->route->handle(request);
    cay_e2b_leave(request);
}

static void run(struct cay_e2b_request *request)
{
    request->is_routed = false;
    request->payload = cay_buf_str(&request->body);
    bool is_whole = !request->sandbox_id.len || cay_e2b_rpc_payload(request, &request->payload);
    if (!request->route->input || !is_whole || !cay_is_dear(request->payload.len, false)) {
        request->route->handle(request);
        return;
    }
    request->away.work = decode_away;
    request->away.done = decoded;
    cay_away_send(&request->away, request->loop, request->caller.owner);
}

static void on_body(struct cay_exchange *exchange, const char *data, size_t len)
{
    struct cay_e2b_request *request = exchange->state;
    cay_e2b_enter(request);
    if (request->on_body && !request->is_answered) {
        request->on_body(request, data, len);
        cay_e2b_leave(request);
        return;
    }
    /* Of what may be a stream, no more is read than HTTP reads ahead, before its handler runs. */
    bool is_kept = !request->route || request->route->body == CAY_E2B_BODY_STREAM;
    if (!request->is_answered)
        cay_buf_append(&request->body, data, len);
    if (is_kept && !request->is_answered)
        request->untaken_bytes += len;
    else
        cay_exchange_taken(exchange, len);
    if (request->body.failed && !request->is_answered)
        cay_e2b_reply_fault(request, 413, "the body of this request is too large");
    else if (!request->is_answered)
        (void)charge(request);
    cay_e2b_leave(request);
}

static void on_body_end(struct cay_exchange *exchange)
{
    struct cay_e2b_request *request = exchange->state;
    cay_e2b_enter(request);
    request->is_body_over = true;
    if (request->is_answered)
        ;
    else if (request->on_body_end)
        request->on_body_end(request);
    else if (request->is_routed)
        run(request);
    cay_e2b_leave(request);
}

static void on_room(struct cay_exchange *exchange)
{
    struct cay_e2b_request *request = exchange->state;
    cay_e2b_enter(request);
    if (request->on_room && cay_exchange_has_room(exchange))
        request->on_room(request);
    cay_e2b_leave(request);
}

static void on_closed(struct cay_exchange *exchange)
{
    struct cay_e2b_request *request = exchange->state;
    cay_e2b_enter(request);
    request->exchange = NULL;
    request->is_answered = true;
    cay_list_remove(&request->in_door);
    cay_away_leave(&request->away);
    if (request->on_closed)
        request->on_closed(request);
    cay_e2b_calls_cancel(request);
    cay_e2b_leave(request);
}

static const struct cay_handler handler = {
    .body = on_body,
    .body_end = on_body_end,
    .room = on_room,
    .closed = on_closed,
};

struct cay_e2b_request *cay_e2b_request_new(struct cay_e2b *door, struct cay_exchange *exchange)
{
    struct cay_e2b_request *request = cay_new(struct cay_e2b_request);
    request->door = door;
    request->exchange = exchange;
    request->loop = exchange->loop;
    request->has_body = !exchange->is_body_over;
    cay_arena_init(&request->arena, CAY_LIMIT_CALL_ARENA_BYTES);
    cay_buf_init(&request->body, CAY_LIMIT_MESSAGE_BYTES);
    cay_list_init(&request->calls);
    exchange->state = request;
    exchange->handler = &handler;
    return request;
}

/* What came before the handler of a stream could run. */
static void give_early_body(struct cay_e2b_request *request)
{
    if (request->body.len && request->on_body && !request->is_answered) {
        struct cay_buf early = request->body;
        cay_buf_init(&request->body, CAY_LIMIT_MESSAGE_BYTES);
        request->on_body(request, early.data, early.len);
        cay_buf_finish(&early);
    }
    if (request->is_body_over && request->on_body_end && !request->is_answered)
        request->on_body_end(request);
}

void cay_e2b_request_go(struct cay_e2b_request *request, const struct cay_e2b_route *route)
{
    request->route = route;
    cay_e2b_enter(request);
    if (request->is_answered) {
        cay_e2b_leave(request);
        return;
    }
    size_t early_bytes = request->untaken_bytes;
    request->untaken_bytes = 0;
    if (early_bytes && route->body == CAY_E2B_BODY_WHOLE)
        cay_exchange_taken(request->exchange, early_bytes);
    if (route->body == CAY_E2B_BODY_STREAM) {
        run(request);
        give_early_body(request);
    } else if (request->is_body_over) {
        run(request);
    } else {
        request->is_routed = true;
    }
    cay_e2b_leave(request);
}

const struct cay_e2b_route *cay_e2b_route_find(struct cay_e2b_request *request,
                                               const struct cay_e2b_route *routes, size_t count,
                                               int *out_status)
{
    *out_status = 404;
    for (size_t i = 0; i < count; i++) {
        if (!cay_path_match(request->exchange->path, routes[i].pattern, &request->arena,
                            request->params))
            continue;
        if (cay_str_is(request->exchange->method, routes[i].method))
            return &routes[i];
        *out_status = 405;
    }
    return NULL;
}

void cay_e2b_respond(struct cay_e2b_request *request, int status,
                     const struct cay_http_header *headers, size_t count, int64_t content_length)
{
    struct cay_http_header all[HEADERS_MAX + CAY_E2B_CORS_HEADERS];
    assert(!request->is_answered && count <= HEADERS_MAX);
    if (count)
        memcpy(all, headers, count * sizeof(*headers));
    if (request->port == CAY_E2B_ENVD_PORT) {
        memcpy(all + count, cay_e2b_cors_headers, sizeof(cay_e2b_cors_headers));
        count += CAY_E2B_CORS_HEADERS;
    }
    request->is_answered = true;
    cay_exchange_respond(request->exchange, status, all, count, content_length);
}

void cay_e2b_reply_json_with(struct cay_e2b_request *request, int status, struct cay_str json,
                             const struct cay_http_header *headers, size_t count)
{
    struct cay_http_header all[HEADERS_MAX] = {
        {CAY_STR("content-type"), CAY_STR("application/json")}};
    struct cay_exchange *exchange = request->exchange;
    assert(count < HEADERS_MAX);
    for (size_t i = 0; i < count; i++)
        all[i + 1] = headers[i];
    cay_e2b_respond(request, status, all, count + 1, (int64_t)json.len);
    cay_exchange_write(exchange, json.ptr, json.len);
    cay_exchange_finish(exchange, NULL, 0);
}

void cay_e2b_reply_json(struct cay_e2b_request *request, int status, struct cay_str json)
{
    cay_e2b_reply_json_with(request, status, json, NULL, 0);
}

void cay_e2b_reply_empty(struct cay_e2b_request *request, int status)
{
    struct cay_exchange *exchange = request->exchange;
    cay_e2b_respond(request, status, NULL, 0, 0);
    cay_exchange_finish(exchange, NULL, 0);
}

void cay_e2b_reply_fault(struct cay_e2b_request *request, int status, const char *message)
{
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, 8192);
    struct cay_json_writer json = {.buf = &body};
    cay_json_object_begin(&json);
    cay_json_key(&json, "code");
    cay_json_i64(&json, status);
    cay_json_key(&json, "message");
    cay_json_text(&json, message);
    cay_json_object_end(&json);
    cay_e2b_reply_json(request, status, cay_buf_str(&body));
}

int cay_e2b_status(const struct cay_error *err)
{
    static const struct {
        enum cay_reason reason;
        int status;
    } others[] = {
        {CAY_R_SESSION_PAUSED, 409},    {CAY_R_INVALID_STATE, 409},
        {CAY_R_TOOLS_IN_FLIGHT, 409},   {CAY_R_SESSION_DESTROYING, 404},
        {CAY_R_MESSAGE_TOO_LARGE, 413}, /* a 429 would be tried again */
    };
    for (size_t i = 0; i < CAY_COUNT(others); i++) {
        if (others[i].reason == err->reason)
            return others[i].status;
    }
    return cay_reason_info(err->reason)->http_status;
}

void cay_e2b_reply_error(struct cay_e2b_request *request, const struct cay_error *err)
{
    request->exchange->log_code = cay_reason_info(err->reason)->name;
    cay_e2b_reply_fault(request, cay_e2b_status(err), err->text);
}

void *cay_e2b_read(struct cay_e2b_request *request, const struct cay_pb_message *desc)
{
    cay_e2b_decode(request, cay_buf_str(&request->body), desc);
    void *message = request->message; /* the request may be gone once it is answered */
    if (!message)
        cay_e2b_reply_fault(request, request->read_status == -ENOMEM ? 413 : 400,
                            *request->read_fault ? request->read_fault
                                                 : "the body is not the JSON this call takes");
    return message;
}

struct cay_str cay_e2b_query(struct cay_e2b_request *request, const char *name)
{
    struct cay_str value = {};
    if (!cay_http_query(request->exchange->query, name, &request->arena, &value))
        return (struct cay_str){};
    return value;
}

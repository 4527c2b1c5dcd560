/* SPDX-License-Identifier: Apache-2.0 */
#include "front/rest/request.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "api/limits.h"
#include "front/rest/call.h"

void cay_rest_enter(struct cay_rest_request *request)
{
    request->depth++;
}

void cay_rest_leave(struct cay_rest_request *request)
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
static void decode(struct cay_rest_request *request, const struct cay_pb_message *desc)
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

void cay_rest_decode(struct cay_rest_request *request, struct cay_str payload,
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
    struct cay_rest_request *request = CAY_CONTAINER_OF(away, struct cay_rest_request, away);
    decode(request, request->route->input);
}

/* What a message was decoded to is chosen by the peer, too. */
static bool charge(struct cay_rest_request *request)
{
    struct cay_error err = {};
    if (cay_body_charge_to(&request->charge, &request->porch->bodies, request->caller.owner,
                           request->body.len + (request->is_read ? request->arena.used_bytes : 0),
                           &err))
        return true;
    cay_rest_reply_fault(request, 429, err.text);
    return false;
}

static void decoded(struct cay_away *away)
{
    struct cay_rest_request *request = CAY_CONTAINER_OF(away, struct cay_rest_request, away);
    cay_rest_enter(request);
    if (!request->is_answered && charge(request))
        request->route->handle(request);
    cay_rest_leave(request);
}

static void run(struct cay_rest_request *request)
{
    request->is_routed = false;
    request->payload = cay_buf_str(&request->body);
    bool is_whole =
        !request->dialect->payload || request->dialect->payload(request, &request->payload);
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
    struct cay_rest_request *request = exchange->state;
    cay_rest_enter(request);
    if (request->on_body && !request->is_answered) {
        request->on_body(request, data, len);
        cay_rest_leave(request);
        return;
    }
    /* Of what may be a stream, no more is read than HTTP reads ahead, before its handler runs. */
    bool is_kept = !request->route || request->route->body == CAY_REST_BODY_STREAM;
    if (!request->is_answered)
        cay_buf_append(&request->body, data, len);
    if (is_kept && !request->is_answered)
        request->untaken_bytes += len;
    else
        cay_exchange_taken(exchange, len);
    if (request->body.failed && !request->is_answered)
        cay_rest_reply_fault(request, 413, "the body of this request is too large");
    else if (!request->is_answered && request->caller.role)
        (void)charge(request);
    cay_rest_leave(request);
}

static void on_body_end(struct cay_exchange *exchange)
{
    struct cay_rest_request *request = exchange->state;
    cay_rest_enter(request);
    request->is_body_over = true;
    if (request->is_answered)
        ;
    else if (request->on_body_end)
        request->on_body_end(request);
    else if (request->is_routed)
        run(request);
    cay_rest_leave(request);
}

static void on_room(struct cay_exchange *exchange)
{
    struct cay_rest_request *request = exchange->state;
    cay_rest_enter(request);
    if (request->on_room && cay_exchange_has_room(exchange))
        request->on_room(request);
    cay_rest_leave(request);
}

static void on_closed(struct cay_exchange *exchange)
{
    struct cay_rest_request *request = exchange->state;
    cay_rest_enter(request);
    request->exchange = NULL;
    request->is_answered = true;
    cay_auth_cancel(&request->auth);
    if (request->dialect->closed)
        request->dialect->closed(request);
    cay_away_leave(&request->away);
    if (request->on_closed)
        request->on_closed(request);
    cay_rest_calls_cancel(request);
    cay_rest_leave(request);
}

static const struct cay_handler handler = {
    .body = on_body,
    .body_end = on_body_end,
    .room = on_room,
    .closed = on_closed,
};

struct cay_rest_request *cay_rest_request_new(struct cay_porch *porch,
                                              struct cay_exchange *exchange,
                                              const struct cay_rest_dialect *dialect)
{
    struct cay_rest_request *request = cay_alloc(sizeof(*request) + dialect->own_bytes);
    request->porch = porch;
    request->dialect = dialect;
    request->own = request + 1;
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

static void known(struct cay_auth *auth, const struct cay_error *err)
{
    struct cay_rest_request *request = CAY_CONTAINER_OF(auth, struct cay_rest_request, auth);
    cay_rest_enter(request);
    if (!err)
        request->caller = auth->caller;
    request->on_known(request, err);
    cay_rest_leave(request);
}

void cay_rest_lapsed(struct cay_auth *auth, const struct cay_error *err)
{
    struct cay_rest_request *request = CAY_CONTAINER_OF(auth, struct cay_rest_request, auth);
    cay_rest_enter(request);
    cay_rest_calls_cut(request, err);
    /* Whatever is left is not part of a stream that could say so. */
    if (request->exchange && !request->is_answered)
        cay_rest_reply_error(request, err);
    else if (request->exchange && !request->exchange->is_finished)
        cay_exchange_reset(request->exchange);
    cay_rest_calls_cancel(request);
    cay_rest_leave(request);
}

void cay_rest_authenticate(struct cay_rest_request *request, cay_rest_known_fn *on_known)
{
    static const struct cay_auth_asker asker = {.done = known, .lapsed = cay_rest_lapsed};
    const struct cay_porch *porch = request->porch;
    request->on_known = on_known;
    cay_auth_start(&request->auth, request->exchange, porch->service, porch->allow_anonymous,
                   &asker);
}

/* What came before the handler of a stream could run. */
static void give_early_body(struct cay_rest_request *request)
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

void cay_rest_go(struct cay_rest_request *request, const struct cay_rest_route *route)
{
    request->route = route;
    cay_rest_enter(request);
    if (request->is_answered) {
        cay_rest_leave(request);
        return;
    }
    size_t early_bytes = request->untaken_bytes;
    request->untaken_bytes = 0;
    if (early_bytes && route->body == CAY_REST_BODY_WHOLE)
        cay_exchange_taken(request->exchange, early_bytes);
    if (early_bytes && request->caller.role && !charge(request))
        ;
    else if (route->body == CAY_REST_BODY_STREAM) {
        run(request);
        give_early_body(request);
    } else if (request->is_body_over) {
        run(request);
    } else {
        request->is_routed = true;
    }
    cay_rest_leave(request);
}

const struct cay_rest_route *cay_rest_route_find(struct cay_rest_request *request,
                                                 const struct cay_rest_route *routes, size_t count,
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

void *cay_rest_read(struct cay_rest_request *request, const struct cay_pb_message *desc)
{
    cay_rest_decode(request, cay_buf_str(&request->body), desc);
    void *message = request->message; /* the request may be gone once it is answered */
    if (!message)
        cay_rest_reply_fault(request, request->read_status == -ENOMEM ? 413 : 400,
                             *request->read_fault ? request->read_fault
                                                  : "the body is not the JSON this call takes");
    return message;
}

struct cay_str cay_rest_query(struct cay_rest_request *request, const char *name)
{
    struct cay_str value = {};
    if (!cay_http_query(request->exchange->query, name, &request->arena, &value))
        return (struct cay_str){};
    return value;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/hall.h"

#include <assert.h>
#include <stdlib.h>

#include "api/limits.h"
#include "base/stop.h"

static struct cay_e2b_call *of(struct cay_call *call)
{
    return CAY_CONTAINER_OF(call, struct cay_e2b_call, call);
}

static bool is_heard(const struct cay_e2b_call *call)
{
    return call->request->exchange && !call->call.is_cancelled;
}

static void finish(struct cay_call *base, const void *response, const struct cay_error *err)
{
    struct cay_e2b_call *call = of(base);
    struct cay_e2b_request *request = call->request;
    cay_e2b_enter(request);
    /* Out of the list first: what `done` does may close the request. */
    bool heard = is_heard(call);
    cay_list_remove(&call->in_request);
    if (heard)
        call->done(request, call, response, err);
    cay_arena_finish(&call->call.arena);
    free(call);
    cay_e2b_leave(request);
}

static void call_done(struct cay_call *base, const void *response)
{
    finish(base, response, NULL);
}

static void call_fail(struct cay_call *base, const struct cay_error *err)
{
    finish(base, NULL, err);
}

static bool call_send(struct cay_call *base, const void *message)
{
    struct cay_e2b_call *call = of(base);
    struct cay_e2b_request *request = call->request;
    if (!is_heard(call))
        return true;
    cay_e2b_enter(request);
    bool has_room = call->on_message(request, call, message);
    cay_e2b_leave(request);
    return has_room;
}

static void call_next(struct cay_call *base)
{
    struct cay_e2b_call *call = of(base);
    call->wants = true;
    if (!call->is_giving && is_heard(call))
        call->on_want(call->request, call);
}

/* What the other end of a call does may end it: it is in the list as long as it is there. */
static bool is_there(const struct cay_e2b_request *request, const struct cay_list_node *node)
{
    struct cay_list_node *at = cay_list_first(&request->calls);
    while (at && at != node)
        at = cay_list_next(&request->calls, at);
    return at != NULL;
}

static void call_cut(struct cay_call *base, const struct cay_error *err)
{
    struct cay_e2b_call *call = of(base);
    struct cay_e2b_request *request = call->request;
    const struct cay_list_node *node = &call->in_request;
    cay_e2b_enter(request);
    if (is_heard(call)) {
        request->exchange->is_cut = true;
        call->done(request, call, NULL, err);
    }
    if (is_there(request, node))
        cay_e2b_call_cancel(call);
    cay_e2b_leave(request);
}

static size_t call_unsent(const struct cay_call *base)
{
    const struct cay_e2b_call *call = (const struct cay_e2b_call *)base; /* its first member */
    return call->request->exchange ? cay_exchange_unsent(call->request->exchange) : 0;
}

static const struct cay_call_ops ops = {
    .done = call_done,
    .fail = call_fail,
    .send = call_send,
    .next = call_next,
    .cut = call_cut,
    .unsent = call_unsent,
};

struct cay_e2b_call *cay_e2b_call_new(struct cay_e2b_request *request, unsigned method)
{
    const struct cay_service *service = request->door->service;
    assert(method < service->ops->method_count && request->exchange);
    struct cay_e2b_call *call = cay_new(struct cay_e2b_call);
    call->request = request;
    call->call.ops = &ops;
    call->call.method = &service->ops->methods[method];
    call->call.caller = request->caller;
    call->call.request_id = request->exchange->id;
    cay_arena_init(&call->call.arena, CAY_LIMIT_CALL_ARENA_BYTES);
    cay_list_push_back(&request->calls, &call->in_request);
    return call;
}

void *cay_e2b_call_message(struct cay_e2b_call *call)
{
    /* The first of the arena: it cannot be full. */
    if (!call->message)
        call->message = cay_arena_alloc(&call->call.arena, call->call.method->input->size_bytes);
    assert(call->message);
    return call->message;
}

void cay_e2b_call_start(struct cay_e2b_call *call, cay_e2b_done_fn *done)
{
    struct cay_e2b_request *request = call->request;
    assert(call->message || call->call.method->client_streaming);
    call->done = done;
    call->call.request = call->message;
    call->is_started = true;
    cay_e2b_enter(request);
    cay_service_call(request->door->service, &call->call);
    cay_e2b_leave(request);
}

void cay_e2b_call_room(struct cay_e2b_call *call)
{
    if (call->call.on_room && !call->call.is_cancelled)
        call->call.on_room(&call->call);
}

void cay_e2b_call_give(struct cay_e2b_call *call, const void *message)
{
    struct cay_e2b_request *request = call->request;
    assert(call->wants && !call->is_giving);
    cay_e2b_enter(request);
    call->wants = false;
    call->is_giving = true;
    const struct cay_list_node *node = &call->in_request;
    call->call.on_message(&call->call, message);
    if (is_there(request, node)) {
        call->is_giving = false;
        if (call->wants && is_heard(call))
            call->on_want(request, call);
    }
    cay_e2b_leave(request);
}

void cay_e2b_call_cancel(struct cay_e2b_call *call)
{
    if (call->call.is_cancelled)
        return;
    cay_stop_ask(&call->call.is_cancelled);
    if (call->is_started && call->call.on_cancel)
        call->call.on_cancel(&call->call);
}

void cay_e2b_calls_cancel(struct cay_e2b_request *request)
{
    cay_list_for_each (struct cay_e2b_call, call, &request->calls, in_request)
        cay_e2b_call_cancel(call);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "front/rest/call.h"

#include <assert.h>
#include <stdlib.h>

static struct cay_rest_call *of(struct cay_errand *errand)
{
    return CAY_CONTAINER_OF(errand, struct cay_rest_call, errand);
}

static bool is_heard(const struct cay_rest_call *call)
{
    return call->request->exchange && !call->errand.call.is_cancelled;
}

static void ended(struct cay_errand *errand, const void *response, const struct cay_error *err)
{
    struct cay_rest_call *call = of(errand);
    struct cay_rest_request *request = call->request;
    cay_rest_enter(request);
    /* Out of the list first: what `done` does may close the request. */
    cay_list_remove(&call->in_request);
    if (is_heard(call))
        call->done(request, call, response, err);
    cay_errand_finish(errand);
    free(call);
    cay_rest_leave(request);
}

static bool heard(struct cay_errand *errand, const void *message)
{
    struct cay_rest_call *call = of(errand);
    struct cay_rest_request *request = call->request;
    if (!is_heard(call))
        return true;
    cay_rest_enter(request);
    bool has_room = call->on_message(request, call, message);
    cay_rest_leave(request);
    return has_room;
}

static void wanted(struct cay_errand *errand)
{
    struct cay_rest_call *call = of(errand);
    if (is_heard(call))
        call->on_want(call->request, call);
}

static void cut(struct cay_errand *errand, const struct cay_error *err)
{
    struct cay_rest_call *call = of(errand);
    struct cay_rest_request *request = call->request;
    if (!is_heard(call))
        return;
    cay_rest_enter(request);
    request->exchange->is_cut = true;
    call->done(request, call, NULL, err);
    cay_rest_leave(request);
}

static size_t unsent(const struct cay_errand *errand)
{
    const struct cay_rest_call *call = (const struct cay_rest_call *)errand; /* its first member */
    return call->request->exchange ? cay_exchange_unsent(call->request->exchange) : 0;
}

static const struct cay_errand_ops ops = {
    .ended = ended,
    .heard = heard,
    .wanted = wanted,
    .cut = cut,
    .unsent = unsent,
};

struct cay_rest_call *cay_rest_call_new(struct cay_rest_request *request, unsigned method)
{
    assert(request->exchange);
    struct cay_rest_call *call = cay_new(struct cay_rest_call);
    cay_errand_init(&call->errand, request->porch->service, method, &request->caller, &ops);
    call->request = request;
    call->errand.call.request_id = request->exchange->id;
    cay_list_push_back(&request->calls, &call->in_request);
    return call;
}

void *cay_rest_call_message(struct cay_rest_call *call)
{
    return cay_errand_message(&call->errand);
}

void cay_rest_call_start(struct cay_rest_call *call, cay_rest_done_fn *done)
{
    struct cay_rest_request *request = call->request;
    call->done = done;
    cay_rest_enter(request);
    cay_errand_start(&call->errand);
    cay_rest_leave(request);
}

void cay_rest_call_room(struct cay_rest_call *call)
{
    cay_errand_room(&call->errand);
}

void cay_rest_call_give(struct cay_rest_call *call, const void *message)
{
    struct cay_rest_request *request = call->request;
    cay_rest_enter(request);
    cay_errand_give(&call->errand, message);
    cay_rest_leave(request);
}

void cay_rest_call_cancel(struct cay_rest_call *call)
{
    cay_errand_cancel(&call->errand);
}

void cay_rest_calls_cancel(struct cay_rest_request *request)
{
    cay_list_for_each (struct cay_rest_call, call, &request->calls, in_request)
        cay_rest_call_cancel(call);
}

void cay_rest_calls_cut(struct cay_rest_request *request, const struct cay_error *err)
{
    cay_list_for_each (struct cay_rest_call, call, &request->calls, in_request) {
        if (is_heard(call)) {
            call->errand.call.ops->cut(&call->errand.call, err);
            return;
        }
    }
}

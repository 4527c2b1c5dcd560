/* SPDX-License-Identifier: Apache-2.0 */
#include "api/call.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

void cay_request_id(uint64_t id, char out[CAY_REQUEST_ID_BYTES])
{
    snprintf(out, CAY_REQUEST_ID_BYTES, "%016" PRIx64, id);
}

static void leave_service(struct cay_call *call)
{
    size_t *count = cay_take_ptr(call->counted_in);
    cay_list_remove(&call->in_service);
    if (count)
        --*count;
}

void cay_call_done(struct cay_call *call, const void *response)
{
    assert(call->method->server_streaming == !response);
    leave_service(call);
    call->ops->done(call, response);
}

void cay_call_fail(struct cay_call *call, const struct cay_error *err)
{
    assert(err->reason != CAY_R_NONE);
    leave_service(call);
    call->ops->fail(call, err);
}

bool cay_call_send(struct cay_call *call, const void *message)
{
    assert(call->method->server_streaming && message);
    return call->ops->send(call, message);
}

size_t cay_call_unsent(const struct cay_call *call)
{
    return call->ops->unsent ? call->ops->unsent(call) : 0;
}

void cay_call_next(struct cay_call *call)
{
    assert(call->method->client_streaming && call->on_message);
    call->ops->next(call);
}

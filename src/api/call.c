/* SPDX-License-Identifier: Apache-2.0 */
#include "api/call.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

void cay_call_done_last(struct cay_call *call, const void *response)
{
    bool is_stream = call->method->server_streaming;
    if (is_stream)
        (void)cay_call_send(call, response);
    cay_call_done(call, is_stream ? NULL : response);
}

void cay_call_done_kept(struct cay_call *call, const void *response)
{
    size_t size = call->method->output->size_bytes;
    void *copy = call->ops->send_kept ? cay_arena_alloc(&call->arena, size) : NULL;
    assert(response);
    if (!copy) {
        cay_call_done_last(call, response);
        return;
    }
    memcpy(copy, response, size);
    call->is_kept = true;
    leave_service(call);
    call->ops->done(call, copy);
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

bool cay_call_send_kept(struct cay_call *call, const void *message)
{
    assert(call->method->server_streaming && message);
    return call->ops->send_kept ? call->ops->send_kept(call, message)
                                : call->ops->send(call, message);
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

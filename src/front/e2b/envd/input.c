/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/envd/input.h"

#include <assert.h>

#include "api/limits.h"
#include "front/e2b/envd/process.h"

enum {
    PIECE_BYTES = 64 * 1024, /* much less than the queue, so that one fits before it runs empty */
    FULL_MS_MIN = 10,        /* until a full queue is tried again; longer each time */
    FULL_MS_MAX = 250,
};

static void give(struct cay_e2b_input *self);

static void given(struct cay_rest_request *request, struct cay_rest_call *call, const void *,
                  const struct cay_error *err)
{
    struct cay_e2b_input *self = call->state;
    const struct cay_v1_send_input_request *sent = call->errand.call.request;
    if (request->is_answered)
        return;
    if (err && err->reason == CAY_R_RESOURCE_EXHAUSTED) {
        request->exchange->is_long_lived = true; /* as slow as the process */
        cay_timer_start(&self->timer, self->full_ms, 0);
        self->full_ms = CAY_MIN(self->full_ms * 2, (uint64_t)FULL_MS_MAX);
        return;
    }
    if (err) {
        cay_e2b_process_input_error(request, self->process_id, err);
        self->done(request, false);
        return;
    }
    self->full_ms = FULL_MS_MIN;
    self->at += sent->data.len;
    if (self->at < self->data.len)
        give(self);
    else
        self->done(request, true);
}

static void give(struct cay_e2b_input *self)
{
    struct cay_rest_request *request = self->request;
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_PROCESS_SERVICE_SEND_INPUT);
    struct cay_v1_send_input_request *ask = cay_rest_call_message(call);
    struct cay_str data = cay_buf_str(&self->data);
    if (self->at) /* else there may be none at all */
        data.ptr += self->at;
    data.len = CAY_MIN(data.len - self->at, (size_t)PIECE_BYTES);
    ask->session_id = cay_e2b_visit(request)->sandbox_id;
    ask->process_id = self->process_id;
    ask->data = cay_arena_str(&call->errand.call.arena, data);
    assert(ask->data.len == data.len); /* the arena is new, and larger than a piece */
    call->state = self;
    cay_rest_call_start(call, given);
}

static void on_timer(struct cay_timer *timer)
{
    struct cay_e2b_input *self = CAY_CONTAINER_OF(timer, struct cay_e2b_input, timer);
    struct cay_rest_request *request = self->request;
    cay_rest_enter(request);
    if (!request->is_answered)
        give(self);
    cay_rest_leave(request);
}

void cay_e2b_input_open(struct cay_e2b_input *self, struct cay_rest_request *request,
                        void (*done)(struct cay_rest_request *request, bool is_good))
{
    self->request = request;
    self->done = done;
    self->full_ms = FULL_MS_MIN;
    cay_buf_init(&self->data, CAY_LIMIT_MESSAGE_BYTES);
    cay_timer_open(&self->timer, request->loop, on_timer);
}

void cay_e2b_input_write(struct cay_e2b_input *self, struct cay_str data)
{
    cay_buf_clear(&self->data, PIECE_BYTES);
    self->at = 0;
    cay_buf_append_str(&self->data, data);
    give(self);
}

void cay_e2b_input_close(struct cay_e2b_input *self)
{
    cay_timer_close(&self->timer);
    cay_buf_finish(&self->data);
}

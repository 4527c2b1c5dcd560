/* SPDX-License-Identifier: Apache-2.0 */
#include "api/limits.h"
#include "front/e2b/envd/handlers.h"
#include "front/e2b/envd/input.h"
#include "front/e2b/envd/process.h"
#include "front/rest/call.h"
#include "wire/rpc.h"

/*
 * Input of processes: SendInput, a piece of it, and StreamInput, a stream of the client's. Of that
 * the first message names the process; each of the others is written before the next is read, so a
 * process that does not read makes its client wait.
 */

struct feed {
    struct cay_envelope_reader reader;
    struct cay_buf unread; /* came, and is not taken: no more than HTTP reads ahead */
    struct cay_e2b_input input;
    bool is_writing;
    bool is_pumping;
};

static void pump(struct cay_rest_request *request);

static void on_closed(struct cay_rest_request *request)
{
    struct feed *self = request->state;
    cay_envelope_reader_finish(&self->reader);
    cay_buf_finish(&self->unread);
    cay_e2b_input_close(&self->input);
}

static void written(struct cay_rest_request *request, bool is_good)
{
    struct feed *self = request->state;
    self->is_writing = false;
    if (is_good)
        pump(request);
}

static void refuse(struct cay_rest_request *request, const char *why)
{
    cay_e2b_rpc_fail(request, CAY_CODE_INVALID_ARGUMENT, why);
}

static void take_message(struct cay_rest_request *request, struct feed *self)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    struct e2b_stream_input_request message = {};
    char text[200] = "the stream has something else than messages";
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    if (self->reader.flags ||
        cay_pb_json_read(&e2b_stream_input_request_desc, cay_buf_str(&self->reader.message), NULL,
                         &arena, &message, text, sizeof(text)) < 0) {
        refuse(request, text);
        return;
    }
    switch (message.which_event) {
    case E2B_STREAM_INPUT_REQUEST_EVENT_START:
        if (self->input.process_id.len)
            refuse(request, "start: it is the first message, and comes once");
        else
            (void)cay_e2b_process_id(request, message.event.start->process,
                                     &self->input.process_id);
        break;
    case E2B_STREAM_INPUT_REQUEST_EVENT_DATA:
        if (!self->input.process_id.len) {
            refuse(request, "data: the first message is start, which names the process");
            break;
        }
        self->is_writing = true;
        cay_e2b_input_write(&self->input, cay_e2b_process_bytes(message.event.data->input));
        break;
    case E2B_STREAM_INPUT_REQUEST_EVENT_KEEPALIVE:
    case E2B_STREAM_INPUT_REQUEST_EVENT_NOT_SET: break;
    }
}

static void answer(struct cay_rest_request *request, const struct feed *self)
{
    struct cay_e2b_envelope envelope;
    if (!cay_envelope_reader_is_idle(&self->reader)) {
        refuse(request, "the stream ends in the middle of a message");
        return;
    }
    cay_e2b_envelope_begin(&envelope);
    cay_json_object_begin(&envelope.json);
    cay_json_object_end(&envelope.json);
    (void)cay_e2b_envelope_send(request, &envelope);
    cay_e2b_rpc_end(request);
}

static void read_some(struct cay_rest_request *request, struct feed *self)
{
    bool is_complete = false;
    ssize_t took =
        cay_envelope_feed(&self->reader, self->unread.data, self->unread.len, &is_complete);
    if (took < 0) {
        cay_e2b_rpc_fail(request, CAY_CODE_RESOURCE_EXHAUSTED,
                         "a message is too large; send the input in more of them");
        return;
    }
    cay_buf_consume(&self->unread, (size_t)took);
    cay_exchange_taken(request->exchange, (size_t)took);
    if (!is_complete)
        return;
    take_message(request, self);
    /* Answering may have closed it, and freed what it read with. */
    if (request->exchange)
        cay_envelope_reader_next(&self->reader);
}

static void pump(struct cay_rest_request *request)
{
    struct feed *self = request->state;
    if (self->is_pumping)
        return;
    self->is_pumping = true;
    while (!request->is_answered && !self->is_writing && self->unread.len)
        read_some(request, self);
    self->is_pumping = false;
    if (!request->is_answered && !self->is_writing && request->is_body_over)
        answer(request, self);
}

static void on_body(struct cay_rest_request *request, const char *data, size_t len)
{
    struct feed *self = request->state;
    cay_buf_append(&self->unread, data, len);
    if (self->unread.failed)
        cay_e2b_rpc_fail(
            request, CAY_CODE_RESOURCE_EXHAUSTED,
            "the stream brings input faster than the process reads it; send less at a time");
    else
        pump(request);
}

void cay_e2b_process_stream_input(struct cay_rest_request *request)
{
    struct feed *self = cay_arena_new(&request->arena, struct feed);
    if (!self)
        return;
    cay_buf_init(&self->reader.message, CAY_LIMIT_STREAM_INPUT_BYTES);
    cay_buf_init(&self->unread, CAY_LIMIT_MESSAGE_BYTES);
    cay_e2b_input_open(&self->input, request, written);
    request->state = self;
    request->on_body = on_body;
    request->on_body_end = pump;
    request->on_closed = on_closed;
    request->exchange->is_long_lived = true; /* whoever types is slow */
}

static void input_done(struct cay_rest_request *request, bool is_good)
{
    if (is_good)
        cay_e2b_rpc_reply(request, CAY_STR("{}"));
}

static void close_input(struct cay_rest_request *request)
{
    cay_e2b_input_close(request->state);
}

void cay_e2b_process_send_input(struct cay_rest_request *request)
{
    const struct e2b_send_input_request *wanted =
        cay_e2b_rpc_read(request, &e2b_send_input_request_desc);
    if (!wanted)
        return;
    request->exchange->is_piece = true;
    struct cay_e2b_input *input = cay_arena_new(&request->arena, struct cay_e2b_input);
    if (!input) {
        cay_e2b_rpc_fail(request, CAY_CODE_RESOURCE_EXHAUSTED, "the request is too large");
        return;
    }
    if (!cay_e2b_process_id(request, wanted->process, &input->process_id))
        return;
    cay_e2b_input_open(input, request, input_done);
    request->state = input;
    request->on_closed = close_input;
    cay_e2b_input_write(input, cay_e2b_process_bytes(wanted->input));
}

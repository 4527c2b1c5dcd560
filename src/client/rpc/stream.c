/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "api/limits.h"
#include "client/rpc/refusal.h"
#include "client/rpc/transfer.h"
#include "wire/gzip.h"

struct stream {
    struct cay_envelope_reader reader;
    struct cay_buf unpacked;
    struct cay_arena arena; /* of the message at hand */
    void *state;            /* of receive or produce */
    bool (*take)(struct cay_transfer *transfer, struct cay_str payload, struct cay_error *err);

    cay_client_receiver *receive;

    cay_client_producer *produce;

    /* The one message that answers an upload. */
    struct cay_arena *response_arena;
    void *response;
    bool has_response;
};

static void stream_init(struct stream *stream)
{
    cay_buf_init(&stream->reader.message, CAY_LIMIT_MESSAGE_BYTES);
    cay_buf_init(&stream->unpacked, CAY_LIMIT_MESSAGE_BYTES);
    cay_arena_init(&stream->arena, CAY_LIMIT_CALL_ARENA_BYTES);
}

static void stream_finish(struct stream *stream)
{
    cay_envelope_reader_finish(&stream->reader);
    cay_buf_finish(&stream->unpacked);
    cay_arena_finish(&stream->arena);
}

static bool broken_stream(struct cay_error *err)
{
    return cay_fail(err, CAY_R_INTERNAL,
                    "the daemon's stream could not be read; are cay and cayd of one version?");
}

static bool take_envelope(struct cay_transfer *transfer, struct cay_error *err)
{
    struct stream *stream = transfer->state;
    struct cay_str payload = cay_buf_str(&stream->reader.message);
    unsigned char flags = stream->reader.flags;
    if (flags & ~(CAY_ENVELOPE_COMPRESSED | CAY_ENVELOPE_CONNECT_END))
        return broken_stream(err);
    if (flags & CAY_ENVELOPE_COMPRESSED && payload.len) {
        cay_buf_clear(&stream->unpacked, CAY_LIMIT_SEND_HIGH_BYTES);
        if (!transfer->is_gzip || cay_gunzip(payload, &stream->unpacked) < 0)
            return broken_stream(err);
        payload = cay_buf_str(&stream->unpacked);
    }
    if (!(flags & CAY_ENVELOPE_CONNECT_END))
        return stream->take(transfer, payload, err);
    int status = cay_refusal_read_end(payload, err);
    transfer->is_over = true;
    return status < 0 ? broken_stream(err) : status == 0;
}

static bool take_bytes(struct cay_transfer *transfer, struct cay_str bytes, struct cay_error *err)
{
    struct stream *stream = transfer->state;
    while (bytes.len && !transfer->is_over) {
        bool is_complete = false;
        ssize_t used = cay_envelope_feed(&stream->reader, bytes.ptr, bytes.len, &is_complete);
        if (used < 0)
            return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "a message has more than %d bytes",
                            CAY_LIMIT_MESSAGE_BYTES);
        bytes.ptr += used;
        bytes.len -= (size_t)used;
        if (!is_complete)
            continue;
        if (!take_envelope(transfer, err))
            return false;
        cay_envelope_reader_next(&stream->reader);
    }
    return true;
}

static bool run(struct cay_transfer *transfer, struct cay_client_duplex *other,
                struct cay_error *err)
{
    if (!cay_transfer_run(transfer, other, err))
        return false;
    if (transfer->is_over)
        return true;
    return cay_fail(err, CAY_R_UNAVAILABLE,
                    "the connection to %.100s broke before the answer was complete; try again",
                    transfer->client->address.text);
}

static bool take_message(struct cay_transfer *transfer, struct cay_str payload,
                         struct cay_error *err)
{
    struct stream *stream = transfer->state;
    const struct cay_pb_message *output = transfer->method->output;
    cay_arena_finish(&stream->arena);
    void *message = cay_arena_alloc(&stream->arena, output->size_bytes);
    if (!message)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    return cay_client_decode(output, payload, &stream->arena, message, err) &&
           stream->receive(stream->state, message, err);
}

bool cay_client_call_stream(struct cay_client *client, const struct cay_pb_method *method,
                            const void *request, cay_client_receiver *receive, void *state,
                            struct cay_error *err)
{
    assert(method->server_streaming && !method->client_streaming);
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_auto(stream_finish) struct stream stream = {
        .state = state,
        .take = take_message,
        .receive = receive,
    };
    stream_init(&stream);
    cay_buf_init(&body, CAY_LIMIT_MESSAGE_BYTES + CAY_ENVELOPE_HEAD_BYTES);
    size_t begin = cay_envelope_begin(&body);
    if (!cay_client_encode(method->input, request, &body, err))
        return false;
    cay_envelope_end(&body, begin, 0);
    struct cay_transfer transfer = {
        .client = client,
        .method = method,
        .state = &stream,
        .body = cay_buf_str(&body),
        .sink = take_bytes,
    };
    return run(&transfer, NULL, err);
}

static bool take_response(struct cay_transfer *transfer, struct cay_str payload,
                          struct cay_error *err)
{
    struct stream *stream = transfer->state;
    if (stream->has_response)
        return broken_stream(err);
    stream->has_response = true;
    return cay_client_decode(transfer->method->output, payload, stream->response_arena,
                             stream->response, err);
}

static bool give_message(struct cay_transfer *transfer, struct cay_buf *out, struct cay_error *err)
{
    struct stream *stream = transfer->state;
    const void *message = NULL;
    cay_arena_finish(&stream->arena);
    if (!stream->produce(stream->state, &stream->arena, &message, err))
        return false;
    if (!message)
        return true;
    size_t begin = cay_envelope_begin(out);
    if (!cay_client_encode(transfer->method->input, message, out, err))
        return false;
    cay_envelope_end(out, begin, 0);
    return true;
}

bool cay_client_call_upload(struct cay_client *client, const struct cay_pb_method *method,
                            cay_client_producer *produce, void *state, struct cay_arena *arena,
                            void *out_response, struct cay_error *err)
{
    assert(method->client_streaming && !method->server_streaming);
    void *response = cay_arena_alloc(arena, method->output->size_bytes);
    if (!response)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    cay_auto(stream_finish) struct stream stream = {
        .state = state,
        .take = take_response,
        .produce = produce,
        .response_arena = arena,
        .response = response,
    };
    stream_init(&stream);
    struct cay_transfer transfer = {
        .client = client,
        .method = method,
        .state = &stream,
        .source = give_message,
        .sink = take_bytes,
    };
    if (!run(&transfer, NULL, err))
        return false;
    if (!stream.has_response)
        return broken_stream(err);
    memcpy(out_response, response, method->output->size_bytes);
    return true;
}

bool cay_client_call_duplex(struct cay_client *client, const struct cay_pb_method *method,
                            struct cay_client_duplex *duplex, struct cay_error *err)
{
    assert(method->client_streaming && method->server_streaming);
    cay_auto(stream_finish) struct stream stream = {
        .state = duplex->state,
        .take = take_message,
        .receive = duplex->receive,
        .produce = duplex->produce,
    };
    stream_init(&stream);
    struct cay_transfer transfer = {
        .client = client,
        .method = method,
        .state = &stream,
        .source = give_message,
        .sink = take_bytes,
    };
    return run(&transfer, duplex, err);
}

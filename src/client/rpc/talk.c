/* SPDX-License-Identifier: Apache-2.0 */
#include "client/rpc/talk.h"

#include <assert.h>

#include "api/limits.h"
#include "client/rpc/refusal.h"

static bool is_stream(const struct cay_talk *talk)
{
    const struct cay_pb_method *method = talk->transfer.method;
    return method->client_streaming || method->server_streaming;
}

static bool collect(struct cay_transfer *transfer, struct cay_str bytes, struct cay_error *err)
{
    struct cay_talk *talk = transfer->state;
    cay_buf_append_str(&talk->body, bytes);
    return !talk->body.failed ||
           cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "the answer is larger than %d bytes",
                    CAY_LIMIT_MESSAGE_BYTES);
}

/* Bodies of requests are given piece by piece here, not asked for. */
static bool unasked(struct cay_transfer *, struct cay_buf *, struct cay_error *)
{
    return false;
}

void cay_talk_init(struct cay_talk *talk, struct cay_client *client,
                   const struct cay_pb_method *method, struct cay_str headers)
{
    *talk = (struct cay_talk){.transfer = {.client = client,
                                           .method = method,
                                           .state = talk,
                                           .headers = headers,
                                           .source = method->client_streaming ? unasked : NULL,
                                           .sink = collect}};
    cay_buf_init(&talk->transfer.refusal, CAY_REFUSAL_BYTES_MAX);
    cay_answer_init(&talk->answer);
    cay_buf_init(&talk->body, CAY_LIMIT_MESSAGE_BYTES);
    cay_buf_init(&talk->reader.message, CAY_LIMIT_MESSAGE_BYTES);
    cay_arena_init(&talk->arena, CAY_LIMIT_CALL_ARENA_BYTES);
}

void cay_talk_finish(struct cay_talk *talk)
{
    cay_buf_finish(&talk->transfer.refusal);
    cay_answer_finish(&talk->answer);
    cay_buf_finish(&talk->body);
    cay_envelope_reader_finish(&talk->reader);
    cay_arena_finish(&talk->arena);
}

static bool encode(struct cay_talk *talk, const void *message, struct cay_buf *out,
                   struct cay_error *err)
{
    size_t begin = is_stream(talk) ? cay_envelope_begin(out) : 0;
    if (!cay_client_encode(talk->transfer.method->input, message, out, err))
        return false;
    if (is_stream(talk))
        cay_envelope_end(out, begin, 0);
    return true;
}

bool cay_talk_begin(struct cay_talk *talk, const void *request, struct cay_buf *out,
                    struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, CAY_LIMIT_MESSAGE_BYTES + CAY_ENVELOPE_HEAD_BYTES);
    assert(!request == talk->transfer.method->client_streaming);
    if (request && !encode(talk, request, &body, err))
        return false;
    talk->transfer.body = cay_buf_str(&body);
    cay_transfer_write_head(&talk->transfer, out);
    talk->transfer.body = (struct cay_str){};
    return true;
}

bool cay_talk_give(struct cay_talk *talk, const void *message, struct cay_buf *out,
                   struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf piece;
    cay_buf_init(&piece, CAY_LIMIT_MESSAGE_BYTES + CAY_ENVELOPE_HEAD_BYTES);
    assert(talk->transfer.method->client_streaming);
    if (message && !encode(talk, message, &piece, err))
        return false;
    cay_buf_printf(out, "%zx\r\n", piece.len);
    cay_buf_append_str(out, cay_buf_str(&piece));
    cay_buf_append_text(out, "\r\n");
    return true;
}

bool cay_talk_feed(struct cay_talk *talk, struct cay_str bytes, struct cay_error *err)
{
    return talk->answer.is_complete || cay_answer_feed(&talk->answer, &talk->transfer, bytes, err);
}

void cay_talk_hang_up(struct cay_talk *talk)
{
    talk->has_hung_up = true;
    if (!talk->answer.is_complete)
        (void)cay_answer_end(&talk->answer);
}

static enum cay_talk_news broken(struct cay_error *err)
{
    cay_fail(err, CAY_R_INTERNAL,
             "the daemon's stream could not be read; is it of the same version?");
    return CAY_TALK_FAILED;
}

static enum cay_talk_news decode(struct cay_talk *talk, struct cay_str bytes,
                                 struct cay_arena *arena, const void **out_message,
                                 struct cay_error *err)
{
    const struct cay_pb_message *output = talk->transfer.method->output;
    void *message = cay_arena_alloc(arena, output->size_bytes);
    if (!message)
        cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    else if (cay_client_decode(output, bytes, arena, message, err)) {
        *out_message = message;
        return CAY_TALK_MESSAGE;
    }
    return CAY_TALK_FAILED;
}

static enum cay_talk_news take_envelope(struct cay_talk *talk, struct cay_arena *arena,
                                        const void **out_message, struct cay_error *err)
{
    struct cay_str payload = cay_buf_str(&talk->reader.message);
    unsigned char flags = talk->reader.flags;
    bool is_one = !talk->transfer.method->server_streaming;
    if (flags & CAY_ENVELOPE_CONNECT_END) {
        int status = cay_refusal_read_end(payload, err);
        talk->transfer.is_over = true;
        if (status < 0 || (status == 0 && is_one && !talk->has_response))
            return broken(err);
        return status == 0 ? CAY_TALK_END : CAY_TALK_FAILED;
    }
    if (flags || (is_one && talk->has_response))
        return broken(err);
    talk->has_response = true;
    if (!is_one)
        cay_arena_finish(&talk->arena);
    enum cay_talk_news news =
        decode(talk, payload, is_one ? arena : &talk->arena, out_message, err);
    cay_envelope_reader_next(&talk->reader);
    return news;
}

/* The next envelope, as far as it came. */
static enum cay_talk_news next_of_stream(struct cay_talk *talk, struct cay_arena *arena,
                                         const void **out_message, struct cay_error *err)
{
    bool is_complete = false;
    ssize_t used = 0;
    while (!is_complete && talk->body_read < talk->body.len) {
        used = cay_envelope_feed(&talk->reader, talk->body.data + talk->body_read,
                                 talk->body.len - talk->body_read, &is_complete);
        if (used < 0) {
            cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "a message has more than %d bytes",
                     CAY_LIMIT_MESSAGE_BYTES);
            return CAY_TALK_FAILED;
        }
        talk->body_read += (size_t)used;
    }
    if (is_complete)
        return take_envelope(talk, arena, out_message, err);
    cay_buf_clear(&talk->body, CAY_LIMIT_SEND_HIGH_BYTES);
    talk->body_read = 0;
    return CAY_TALK_NOTHING;
}

static enum cay_talk_news next_of_one(struct cay_talk *talk, struct cay_arena *arena,
                                      const void **out_message, struct cay_error *err)
{
    if (!talk->answer.is_complete)
        return CAY_TALK_NOTHING;
    if (talk->has_response)
        return CAY_TALK_END;
    if (!cay_transfer_check(&talk->transfer, talk->answer.status, talk->answer.type, err))
        return CAY_TALK_FAILED;
    talk->has_response = true;
    return decode(talk, cay_buf_str(&talk->body), arena, out_message, err);
}

enum cay_talk_news cay_talk_next(struct cay_talk *talk, struct cay_arena *arena,
                                 const void **out_message, struct cay_error *err)
{
    enum cay_talk_news news = is_stream(talk) ? next_of_stream(talk, arena, out_message, err)
                                              : next_of_one(talk, arena, out_message, err);
    if (news != CAY_TALK_NOTHING || (!talk->answer.is_complete && !talk->has_hung_up))
        return news;
    /* No more will come of it: a refusal, or not all that there should be. */
    if (!talk->answer.is_complete ||
        cay_transfer_check(&talk->transfer, talk->answer.status, talk->answer.type, err))
        (void)cay_transfer_broke(talk->transfer.client, err);
    return CAY_TALK_FAILED;
}

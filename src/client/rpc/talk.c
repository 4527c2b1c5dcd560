/* SPDX-License-Identifier: Apache-2.0 */
#include "client/rpc/talk.h"

#include <errno.h>

#include "api/limits.h"
#include "client/rpc/client_internal.h"
#include "client/rpc/refusal.h"
#include "wire/gzip.h"

enum {
    TIMEOUT_HEADER_MAX = 999'999'999, /* Connect-Timeout-Ms has at most 10 digits */
    HEAD_BYTES = 512,
};

static bool is_stream(const struct cay_talk *talk)
{
    return talk->method->client_streaming || talk->method->server_streaming;
}

static const char *content_type(const struct cay_talk *talk)
{
    return cay_rpc_content_type((struct cay_rpc_kind){
        is_stream(talk) ? CAY_RPC_CONNECT_STREAM : CAY_RPC_CONNECT_UNARY, talk->codec});
}

void cay_talk_init(struct cay_talk *talk, const struct cay_client *client,
                   const struct cay_pb_method *method, struct cay_str headers)
{
    *talk = (struct cay_talk){
        .client = client, .method = method, .headers = headers, .codec = CAY_RPC_PROTO};
    cay_answer_init(&talk->answer, CAY_LIMIT_MESSAGE_BYTES);
    cay_buf_init(&talk->reader.message, CAY_LIMIT_MESSAGE_BYTES);
    cay_buf_init(&talk->unpacked, CAY_LIMIT_MESSAGE_BYTES);
    cay_arena_init(&talk->arena, CAY_LIMIT_CALL_ARENA_BYTES);
}

void cay_talk_finish(struct cay_talk *talk)
{
    cay_answer_finish(&talk->answer);
    cay_envelope_reader_finish(&talk->reader);
    cay_buf_finish(&talk->unpacked);
    cay_arena_finish(&talk->arena);
}

/* Every call has one, and most of what printf can is not needed for it. */
static void write_length(size_t len, struct cay_buf *out)
{
    char text[32] = "";
    char *at = text + sizeof(text) - sizeof("\r\n\r\n");
    memcpy(at, "\r\n\r\n", sizeof("\r\n\r\n"));
    do {
        *--at = (char)('0' + len % 10);
        len /= 10;
    } while (len);
    cay_buf_append_text(out, "Content-Length: ");
    cay_buf_append_text(out, at);
}

static void write_head(const struct cay_talk *talk, size_t body_len, struct cay_buf *out)
{
    const struct cay_client *client = talk->client;
    const struct cay_address *address = &client->address;
    struct cay_str key = cay_secret_view(&client->key);
    const char *const words[] = {
        "POST ",
        talk->is_relayed ? "http://" : "",
        talk->is_relayed ? address->authority : "",
        address->path,
        talk->method->path,
        " HTTP/1.1\r\nHost: ",
        address->authority,
        "\r\nContent-Type: ",
        content_type(talk),
        "\r\nConnect-Protocol-Version: 1\r\nUser-Agent: cay/" CAY_VERSION "\r\n",
    };
    (void)cay_buf_reserve(out, HEAD_BYTES + body_len); /* most need no more */
    for (size_t i = 0; i < CAY_COUNT(words); i++)
        cay_buf_append_text(out, words[i]);
    if (talk->is_relayed)
        cay_client_write_proxy_rights(client, out);
    if (talk->offers_gzip)
        cay_buf_append_text(out, "Connect-Accept-Encoding: gzip\r\n");
    if (talk->timeout_ms)
        cay_buf_printf(out, "Connect-Timeout-Ms: %lld\r\n",
                       (long long)CAY_MIN(talk->timeout_ms, TIMEOUT_HEADER_MAX));
    if (key.len)
        cay_buf_printf(out, "Authorization: Bearer %.*s\r\n", (int)key.len, key.ptr);
    cay_buf_append_str(out, talk->headers);
    if (talk->method->client_streaming)
        cay_buf_append_text(out, "Transfer-Encoding: chunked\r\n\r\n");
    else
        write_length(body_len, out);
}

static bool is_written(const struct cay_buf *out, struct cay_error *err)
{
    return !out->failed ||
           cay_fail(err, out->no_memory ? CAY_R_OUT_OF_MEMORY : CAY_R_MESSAGE_TOO_LARGE, NULL);
}

bool cay_talk_begin_bytes(struct cay_talk *talk, struct cay_str request, struct cay_buf *out,
                          struct cay_error *err)
{
    unsigned char head[CAY_ENVELOPE_HEAD_BYTES];
    bool has_envelope = is_stream(talk) && !talk->method->client_streaming;
    if (request.len > CAY_LIMIT_MESSAGE_BYTES)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "a message has at most %d bytes",
                        CAY_LIMIT_MESSAGE_BYTES);
    write_head(talk, request.len + (has_envelope ? sizeof(head) : 0), out);
    if (has_envelope) {
        cay_envelope_head(head, 0, request.len);
        cay_buf_append(out, head, sizeof(head));
    }
    if (!talk->method->client_streaming)
        cay_buf_append_str(out, request);
    return is_written(out, err);
}

bool cay_talk_give_bytes(struct cay_talk *, struct cay_str message, struct cay_buf *out,
                         struct cay_error *err)
{
    unsigned char head[CAY_ENVELOPE_HEAD_BYTES];
    if (message.len > CAY_LIMIT_MESSAGE_BYTES)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "a message has at most %d bytes",
                        CAY_LIMIT_MESSAGE_BYTES);
    cay_envelope_head(head, 0, message.len);
    cay_buf_printf(out, "%zx\r\n", message.len + sizeof(head));
    cay_buf_append(out, head, sizeof(head));
    cay_buf_append_str(out, message);
    cay_buf_append_text(out, "\r\n");
    return is_written(out, err);
}

void cay_talk_give_end(struct cay_buf *out)
{
    cay_buf_append_text(out, "0\r\n\r\n");
}

bool cay_talk_encode(const struct cay_talk *talk, const void *message, struct cay_buf *out,
                     struct cay_error *err)
{
    const struct cay_pb_message *desc = talk->method->input;
    cay_buf_init(out, CAY_LIMIT_MESSAGE_BYTES);
    if (cay_pb_encode(desc, message, out) == 0)
        return true;
    if (out->no_memory)
        return cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "the %s is larger than the %d bytes allowed",
                    desc->full_name, CAY_LIMIT_MESSAGE_BYTES);
}

bool cay_talk_begin(struct cay_talk *talk, const void *request, struct cay_buf *out,
                    struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf body = {};
    return (!request || cay_talk_encode(talk, request, &body, err)) &&
           cay_talk_begin_bytes(talk, cay_buf_str(&body), out, err);
}

bool cay_talk_give(struct cay_talk *talk, const void *message, struct cay_buf *out,
                   struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf body = {};
    if (!message) {
        cay_talk_give_end(out);
        return is_written(out, err);
    }
    return cay_talk_encode(talk, message, &body, err) &&
           cay_talk_give_bytes(talk, cay_buf_str(&body), out, err);
}

bool cay_talk_feed(struct cay_talk *talk, struct cay_str bytes, struct cay_error *err)
{
    int status = talk->answer.is_complete ? 0 : cay_answer_feed(&talk->answer, bytes);
    if (status == -EMSGSIZE)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "the answer is larger than %d bytes",
                        CAY_LIMIT_MESSAGE_BYTES);
    if (status == -ENOMEM)
        return cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    return status == 0 || cay_blame_not_http(&talk->client->address, err);
}

void cay_talk_hang_up(struct cay_talk *talk)
{
    talk->has_hung_up = true;
    if (!talk->answer.is_complete)
        (void)cay_answer_end(&talk->answer);
}

static enum cay_talk_news garbled(struct cay_error *err)
{
    cay_fail(err, CAY_R_INTERNAL,
             "the daemon's stream could not be read; is it of the same version?");
    return CAY_TALK_FAILED;
}

static enum cay_talk_news take_envelope(struct cay_talk *talk, struct cay_str *out_message,
                                        struct cay_error *err)
{
    struct cay_str payload = cay_buf_str(&talk->reader.message);
    unsigned char flags = talk->reader.flags;
    bool is_one = !talk->method->server_streaming;
    talk->has_envelope = true;
    if (flags & ~(CAY_ENVELOPE_COMPRESSED | CAY_ENVELOPE_CONNECT_END))
        return garbled(err);
    if (flags & CAY_ENVELOPE_COMPRESSED && payload.len) {
        cay_buf_clear(&talk->unpacked, CAY_LIMIT_SEND_HIGH_BYTES);
        if (!talk->offers_gzip || cay_gunzip(payload, &talk->unpacked) < 0)
            return garbled(err);
        payload = cay_buf_str(&talk->unpacked);
    }
    if (flags & CAY_ENVELOPE_CONNECT_END) {
        int status = cay_refusal_read_end(payload, err);
        talk->is_over = true;
        if (status < 0 || (status == 0 && is_one && !talk->has_response))
            return garbled(err);
        return status == 0 ? CAY_TALK_END : CAY_TALK_FAILED;
    }
    if (is_one && talk->has_response)
        return garbled(err);
    talk->has_response = true;
    *out_message = payload;
    return CAY_TALK_MESSAGE;
}

/* The next envelope, as far as it came. */
static enum cay_talk_news next_of_stream(struct cay_talk *talk, struct cay_str *out_message,
                                         struct cay_error *err)
{
    struct cay_buf *body = &talk->answer.body;
    bool is_complete = false;
    if (talk->has_envelope)
        cay_envelope_reader_next(&talk->reader);
    talk->has_envelope = false;
    while (!is_complete && talk->body_read < body->len) {
        ssize_t used = cay_envelope_feed(&talk->reader, body->data + talk->body_read,
                                         body->len - talk->body_read, &is_complete);
        if (used < 0) {
            cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "a message has more than %d bytes",
                     CAY_LIMIT_MESSAGE_BYTES);
            return CAY_TALK_FAILED;
        }
        talk->body_read += (size_t)used;
    }
    if (is_complete)
        return take_envelope(talk, out_message, err);
    cay_buf_clear(body, CAY_LIMIT_SEND_HIGH_BYTES);
    talk->body_read = 0;
    return CAY_TALK_NOTHING;
}

static enum cay_talk_news next_of_one(struct cay_talk *talk, struct cay_str *out_message)
{
    if (!talk->answer.is_complete)
        return CAY_TALK_NOTHING;
    if (talk->has_response)
        return CAY_TALK_END;
    talk->has_response = true;
    *out_message = cay_buf_str(&talk->answer.body);
    return CAY_TALK_MESSAGE;
}

/* The answer is a refusal, or not ours. */
static enum cay_talk_news refused(const struct cay_talk *talk, struct cay_error *err)
{
    const struct cay_answer *answer = &talk->answer;
    struct cay_str body = cay_buf_str(&answer->body);
    body.len = CAY_MIN(body.len, (size_t)CAY_REFUSAL_BYTES_MAX);
    if (answer->status == 200)
        (void)cay_blame_stranger(&talk->client->address, answer->type, err);
    else
        cay_refusal_read(body, answer->status, err);
    return CAY_TALK_FAILED;
}

enum cay_talk_news cay_talk_next_bytes(struct cay_talk *talk, struct cay_str *out_message,
                                       struct cay_error *err)
{
    const struct cay_answer *answer = &talk->answer;
    bool is_good =
        answer->has_head && answer->status == 200 && strcmp(answer->type, content_type(talk)) == 0;
    if (answer->has_head && !is_good && (answer->status == 200 || answer->is_complete))
        return refused(talk, err);
    if (is_good) {
        enum cay_talk_news news = is_stream(talk) ? next_of_stream(talk, out_message, err)
                                                  : next_of_one(talk, out_message);
        if (news != CAY_TALK_NOTHING)
            return news;
    }
    if (!answer->is_complete && !talk->has_hung_up)
        return CAY_TALK_NOTHING;
    /* No more will come of it, and that was not all. */
    if (answer->head.len)
        (void)cay_blame_broken(&talk->client->address, err);
    else
        (void)cay_blame_wordless(&talk->client->address, err);
    return CAY_TALK_FAILED;
}

bool cay_talk_decode(const struct cay_talk *talk, struct cay_str bytes, struct cay_arena *arena,
                     const void **out_message, struct cay_error *err)
{
    const struct cay_pb_message *desc = talk->method->output;
    void *message = cay_arena_alloc(arena, desc->size_bytes);
    /* Decoded strings point into the bytes. */
    char *copy = cay_arena_copy(arena, bytes);
    int status = -ENOMEM;
    if (message && copy)
        status = cay_pb_decode(desc, (struct cay_str){copy, bytes.len}, arena, message);
    if (status == -ENOMEM && arena->no_memory)
        return cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    if (status == -ENOMEM)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "the %s takes too much memory",
                        desc->full_name);
    if (status < 0)
        return cay_fail(err, CAY_R_INTERNAL,
                        "the daemon's %s could not be decoded; is it of the same version?",
                        desc->full_name);
    *out_message = message;
    return true;
}

enum cay_talk_news cay_talk_next(struct cay_talk *talk, struct cay_arena *arena,
                                 const void **out_message, struct cay_error *err)
{
    struct cay_str bytes = {};
    enum cay_talk_news news = cay_talk_next_bytes(talk, &bytes, err);
    if (news != CAY_TALK_MESSAGE)
        return news;
    if (talk->method->server_streaming) {
        arena = &talk->arena;
        cay_arena_finish(arena);
    }
    return cay_talk_decode(talk, bytes, arena, out_message, err) ? CAY_TALK_MESSAGE
                                                                 : CAY_TALK_FAILED;
}

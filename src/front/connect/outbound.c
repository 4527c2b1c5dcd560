/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "api/limits.h"
#include "base/clock.h"
#include "front/connect/rpc.h"
#include "wire/gzip.h"

static bool encode(const struct cay_rpc *rpc, const void *message, struct cay_buf *out,
                   struct cay_error *err)
{
    const struct cay_pb_message *output = rpc->call.method->output;
    int status = rpc->kind.codec == CAY_RPC_JSON ? cay_pb_json_write(output, message, NULL, out)
                                                 : cay_pb_encode(output, message, out);
    if (status == -ENOBUFS || status == -EMSGSIZE)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "the answer is larger than %d bytes",
                        CAY_LIMIT_MESSAGE_BYTES);
    if (status < 0)
        return cay_fail(err, CAY_R_INTERNAL, "the answer could not be encoded");
    return true;
}

static void count_call(struct cay_rpc *rpc, const struct cay_error *err)
{
    enum cay_connect_code code = err ? cay_reason_info(err->reason)->code : CAY_CODE_OK;
    struct cay_rpc_method_stats *stats = &rpc->door->stats[rpc->call.method->index];
    uint64_t took_us = (uint64_t)(cay_clock_ns() - rpc->started_ns) / 1000;
    size_t bucket = 0;
    while (bucket < CAY_RPC_BUCKETS - 1 && took_us > cay_rpc_bucket_us[bucket])
        bucket++;
    stats->by_code[code]++;
    stats->buckets[bucket]++;
    stats->total_us += took_us;
    rpc->exchange->log_code = code ? cay_code_name(code) : "ok";
    rpc->is_over = true;
}

enum { ANSWER_HEADERS_MAX = 4 };

static size_t answer_headers(const struct cay_rpc *rpc, bool is_compressed, const char *type,
                             struct cay_http_header out[ANSWER_HEADERS_MAX])
{
    const struct cay_rpc_names *names = cay_rpc_names(rpc->kind.protocol);
    size_t count = 0;
    out[count++] = (struct cay_http_header){CAY_STR("content-type"), cay_str(type)};
    if (is_compressed)
        out[count++] = (struct cay_http_header){cay_str(names->encoding), CAY_STR("gzip")};
    out[count++] = (struct cay_http_header){cay_str(names->accept_encoding), CAY_STR("gzip")};
    if (rpc->is_get)
        out[count++] =
            (struct cay_http_header){CAY_STR("vary"), CAY_STR("accept-encoding, authorization")};
    return count;
}

static bool is_worth_packing(const struct cay_rpc *rpc, size_t len)
{
    return rpc->accepts_gzip && len >= CAY_LIMIT_GZIP_MIN_BYTES;
}

/* Packed if that was done and made it smaller. */
static void unary_answer(struct cay_rpc *rpc, int status, const char *type, struct cay_str body,
                         struct cay_str packed)
{
    struct cay_http_header headers[ANSWER_HEADERS_MAX];
    bool is_compressed = packed.len && packed.len < body.len;
    if (is_compressed)
        body = packed;
    size_t count = answer_headers(rpc, is_compressed, type, headers);
    cay_exchange_respond(rpc->exchange, status, headers, count, (int64_t)body.len);
    cay_exchange_write(rpc->exchange, body.ptr, body.len);
    cay_exchange_finish(rpc->exchange, NULL, 0);
}

static void unary_error(struct cay_rpc *rpc, const struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_auto(cay_buf_finish) struct cay_buf packed;
    cay_buf_init(&body, 4096);
    cay_buf_init(&packed, 8192);
    cay_rpc_error_json(&body, err);
    count_call(rpc, err);
    if (is_worth_packing(rpc, body.len))
        (void)cay_gzip(cay_buf_str(&body), &packed);
    unary_answer(rpc, cay_reason_info(err->reason)->http_status, "application/json",
                 cay_buf_str(&body), cay_buf_str(&packed));
}

static void respond_stream(struct cay_rpc *rpc)
{
    if (rpc->is_responded)
        return;
    rpc->is_responded = true;
    struct cay_http_header headers[ANSWER_HEADERS_MAX];
    size_t count = answer_headers(rpc, rpc->accepts_gzip, cay_rpc_content_type(rpc->kind), headers);
    cay_exchange_respond(rpc->exchange, 200, headers, count, -1);
}

bool cay_rpc_send_message(struct cay_rpc *rpc, const void *message, struct cay_error *err)
{
    assert(!rpc->is_sending);
    cay_auto(cay_buf_finish) struct cay_buf out;
    cay_auto(cay_buf_finish) struct cay_buf packed;
    cay_buf_init(&out, CAY_LIMIT_MESSAGE_BYTES + CAY_ENVELOPE_HEAD_BYTES);
    cay_buf_init(&packed, CAY_LIMIT_MESSAGE_BYTES);
    size_t begin = cay_envelope_begin(&out);
    if (!encode(rpc, message, &out, err))
        return false;
    size_t payload = begin + CAY_ENVELOPE_HEAD_BYTES;
    struct cay_str plain = {out.data + payload, out.len - payload};
    unsigned char flags = 0;
    /* As it is when packing does not make it smaller, does not fit, or takes long: pieces of files
     * follow one another, and nobody gains by waiting for a worker in between. */
    if (is_worth_packing(rpc, plain.len) && !cay_is_dear(plain.len, false) &&
        cay_gzip(plain, &packed) == 0 && packed.len < plain.len) {
        flags = CAY_ENVELOPE_COMPRESSED;
        out.len = payload;
        cay_buf_append_str(&out, cay_buf_str(&packed));
    }
    cay_envelope_end(&out, begin, flags);
    respond_stream(rpc);
    cay_exchange_write(rpc->exchange, out.data, out.len);
    return true;
}

static void grpc_end(struct cay_rpc *rpc, const struct cay_error *err)
{
    char status[8];
    snprintf(status, sizeof(status), "%d", err ? (int)cay_reason_info(err->reason)->code : 0);
    struct cay_http_header trailers[3] = {{CAY_STR("grpc-status"), cay_str(status)}};
    size_t count = 1;
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_auto(cay_buf_finish) struct cay_buf details;
    cay_buf_init(&text, 1024);
    cay_buf_init(&details, 2048);
    if (err) {
        cay_rpc_grpc_message(&text, cay_str(err->text));
        cay_rpc_grpc_details(&details, err);
        trailers[count++] = (struct cay_http_header){CAY_STR("grpc-message"), cay_buf_str(&text)};
        trailers[count++] =
            (struct cay_http_header){CAY_STR("grpc-status-details-bin"), cay_buf_str(&details)};
    }
    cay_exchange_finish(rpc->exchange, trailers, count);
}

void cay_rpc_send_end(struct cay_rpc *rpc, const struct cay_error *err)
{
    assert(rpc->exchange && !rpc->is_over);
    if (rpc->kind.protocol == CAY_RPC_CONNECT_UNARY) {
        assert(err);
        unary_error(rpc, err);
        return;
    }
    respond_stream(rpc);
    count_call(rpc, err);
    if (rpc->kind.protocol == CAY_RPC_GRPC) {
        grpc_end(rpc, err);
        return;
    }
    cay_auto(cay_buf_finish) struct cay_buf out;
    cay_buf_init(&out, 8192);
    size_t begin = cay_envelope_begin(&out);
    if (rpc->kind.protocol == CAY_RPC_CONNECT_STREAM) {
        cay_rpc_end_json(&out, err);
        cay_envelope_end(&out, begin, CAY_ENVELOPE_CONNECT_END);
    } else {
        cay_rpc_grpc_web_trailer(&out, err);
        cay_envelope_end(&out, begin, CAY_ENVELOPE_GRPC_WEB_TRAILER);
    }
    cay_exchange_write(rpc->exchange, out.data, out.len);
    cay_exchange_finish(rpc->exchange, NULL, 0);
}

/* Packed if that was done and made it smaller. */
static void send_enveloped(struct cay_rpc *rpc)
{
    bool is_packed = rpc->packed.len && rpc->packed.len < rpc->answer.len;
    struct cay_str body = cay_buf_str(is_packed ? &rpc->packed : &rpc->answer);
    unsigned char head[CAY_ENVELOPE_HEAD_BYTES];
    cay_envelope_head(head, is_packed ? CAY_ENVELOPE_COMPRESSED : 0, body.len);
    respond_stream(rpc);
    cay_exchange_write(rpc->exchange, head, sizeof(head));
    cay_exchange_write(rpc->exchange, body.ptr, body.len);
}

static bool pack_answer(struct cay_rpc *rpc, struct cay_error *)
{
    if (is_worth_packing(rpc, rpc->answer.len))
        (void)cay_gzip(cay_buf_str(&rpc->answer), &rpc->packed); /* or it goes as it is */
    return true;
}

static bool make_answer(struct cay_rpc *rpc, struct cay_error *err)
{
    return encode(rpc, rpc->response, &rpc->answer, err) && pack_answer(rpc, err);
}

static void send_answer(struct cay_rpc *rpc, const struct cay_error *err)
{
    if (err) {
        cay_rpc_send_end(rpc, err);
    } else if (rpc->kind.protocol == CAY_RPC_CONNECT_UNARY) {
        count_call(rpc, NULL);
        unary_answer(rpc, 200, cay_rpc_content_type(rpc->kind), cay_buf_str(&rpc->answer),
                     cay_buf_str(&rpc->packed));
    } else {
        send_enveloped(rpc);
        cay_rpc_send_end(rpc, NULL);
    }
}

void cay_rpc_send_response(struct cay_rpc *rpc, const void *response)
{
    assert(rpc->exchange && !rpc->is_over);
    struct cay_error err = {};
    rpc->response = response;
    if (rpc->call.is_kept && cay_is_dear_in_memory(rpc->call.arena.used_bytes))
        cay_rpc_send_away(rpc, make_answer, send_answer);
    else if (!encode(rpc, response, &rpc->answer, &err))
        send_answer(rpc, &err);
    else if (is_worth_packing(rpc, rpc->answer.len) && cay_is_dear(rpc->answer.len, false))
        cay_rpc_send_away(rpc, pack_answer, send_answer);
    else
        send_answer(rpc, pack_answer(rpc, &err) ? NULL : &err);
}

static bool make_message(struct cay_rpc *rpc, struct cay_error *err)
{
    return encode(rpc, rpc->response, &rpc->answer, err);
}

static void send_made(struct cay_rpc *rpc, const struct cay_error *err)
{
    rpc->is_sending = false;
    if (err) {
        cay_rpc_give_up(rpc, err);
        return;
    }
    send_enveloped(rpc);
    cay_buf_clear(&rpc->answer, 0);
    cay_rpc_tell_room(rpc);
}

bool cay_rpc_send_later(struct cay_rpc *rpc, const void *message)
{
    const struct cay_pb_message *output = rpc->call.method->output;
    int64_t len = cay_pb_encoded_size(output, message);
    void *copy = NULL;
    if (!rpc->away.is_away && len > 0 && cay_is_dear((size_t)len, false))
        copy = cay_arena_alloc(&rpc->call.arena, output->size_bytes);
    if (!copy)
        return false;
    rpc->response = memcpy(copy, message, output->size_bytes);
    rpc->is_sending = true;
    cay_rpc_send_away(rpc, make_message, send_made);
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>

#include "api/limits.h"
#include "front/connect/rpc.h"
#include "wire/gzip.h"

static bool unpack(struct cay_rpc *rpc, struct cay_str *bytes, struct cay_error *err)
{
    cay_buf_clear(&rpc->unpacked, 64 * 1024);
    int status = cay_gunzip(*bytes, &rpc->unpacked);
    if (status == -EMSGSIZE)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "the message unpacks to more than %d bytes",
                        CAY_LIMIT_MESSAGE_BYTES);
    if (status < 0)
        return cay_fail(err, CAY_R_MALFORMED_REQUEST, "the message is not valid gzip");
    *bytes = cay_buf_str(&rpc->unpacked);
    return true;
}

/* `bytes` must outlive the arena's use. */
static bool decode(const struct cay_rpc *rpc, struct cay_str bytes, struct cay_arena *arena,
                   const void **out_message, struct cay_error *err)
{
    const struct cay_pb_message *input = rpc->call.method->input;
    void *message = cay_arena_alloc(arena, input->size_bytes);
    if (!message)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    int status = 0;
    char text[160] = "";
    const char *nearest = NULL;
    if (rpc->kind.codec == CAY_RPC_JSON) {
        /* No body at all is an empty message, as in the binary codec. */
        struct cay_str json = bytes.len ? bytes : CAY_STR("{}");
        const struct cay_pb_json_options options = {
            .reject_unknown_fields = !rpc->ignores_unknown_fields,
            .out_nearest = &nearest,
        };
        status = cay_pb_json_read(input, json, &options, arena, message, text, sizeof(text));
    } else {
        status = cay_pb_decode(input, bytes, arena, message);
    }
    if (status == -ENOMEM)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE,
                        "decoding the message takes more memory than a call may use");
    if (status == -ENOKEY)
        cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s: %s", input->full_name, text);
    else if (status < 0)
        cay_fail(err, CAY_R_MALFORMED_REQUEST, "%s is not a valid %s%s%s",
                 rpc->kind.codec == CAY_RPC_JSON ? "the JSON" : "the message", input->full_name,
                 *text ? ": " : "", text);
    if (status < 0)
        return nearest ? cay_error_fact(err, "nearest", "%s", nearest) : false;
    *out_message = message;
    return true;
}

/* One envelope and nothing else. */
static bool open_single_envelope(struct cay_rpc *rpc, struct cay_str *bytes,
                                 bool *out_is_compressed, struct cay_error *err)
{
    struct cay_envelope_reader reader = {};
    cay_buf_init(&reader.message, CAY_LIMIT_MESSAGE_BYTES);
    bool is_complete = false;
    ssize_t used = cay_envelope_feed(&reader, bytes->ptr, bytes->len, &is_complete);
    cay_envelope_reader_finish(&reader);
    if (used == -EMSGSIZE)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "a message may have %d bytes at most",
                        CAY_LIMIT_MESSAGE_BYTES);
    if (bytes->len == 0 || (is_complete && (size_t)used < bytes->len))
        return cay_fail(err, CAY_R_UNIMPLEMENTED, "%s takes exactly one message",
                        rpc->call.method->name);
    if (!is_complete)
        return cay_fail(err, CAY_R_MALFORMED_REQUEST,
                        "the request ends in the middle of a message");
    *out_is_compressed = reader.flags & CAY_ENVELOPE_COMPRESSED;
    if (reader.flags & ~CAY_ENVELOPE_COMPRESSED)
        return cay_fail(err, CAY_R_MALFORMED_REQUEST, "unknown envelope flags 0x%02x",
                        reader.flags);
    bytes->ptr += CAY_ENVELOPE_HEAD_BYTES;
    bytes->len -= CAY_ENVELOPE_HEAD_BYTES;
    return true;
}

bool cay_rpc_decode_single(struct cay_rpc *rpc, struct cay_error *err)
{
    struct cay_str bytes = cay_buf_str(&rpc->body);
    bool is_compressed = rpc->request_compression == CAY_RPC_GZIP && bytes.len;
    if (rpc->kind.protocol != CAY_RPC_CONNECT_UNARY &&
        !open_single_envelope(rpc, &bytes, &is_compressed, err))
        return false;
    if (is_compressed && rpc->request_compression != CAY_RPC_GZIP)
        return cay_fail(err, CAY_R_MALFORMED_REQUEST,
                        "a message is marked as compressed, but no compression was announced");
    if (is_compressed && !unpack(rpc, &bytes, err))
        return false;
    return decode(rpc, bytes, &rpc->call.arena, &rpc->call.request, err);
}

static size_t unread_bytes(const struct cay_rpc *rpc)
{
    return rpc->body.len - rpc->body_read;
}

/* Moves bytes of the body into the reader until it holds a message. */
static bool read_envelope(struct cay_rpc *rpc, struct cay_error *err)
{
    if (rpc->has_message || !unread_bytes(rpc))
        return true;
    ssize_t used = cay_envelope_feed(&rpc->reader, rpc->body.data + rpc->body_read,
                                     unread_bytes(rpc), &rpc->has_message);
    if (used < 0)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "a message may have %d bytes at most",
                        CAY_LIMIT_MESSAGE_BYTES);
    /* Not moved to the front for each message: a peer may send very many small ones. */
    rpc->body_read += (size_t)used;
    if (rpc->body_read > rpc->body.len / 2) {
        cay_buf_consume(&rpc->body, rpc->body_read);
        rpc->body_read = 0;
    }
    if (rpc->exchange)
        cay_exchange_taken(rpc->exchange, (size_t)used);
    return true;
}

/* The message that the reader holds. */
static bool decode_message(struct cay_rpc *rpc, struct cay_error *err)
{
    struct cay_str bytes = cay_buf_str(&rpc->reader.message);
    if (rpc->reader.flags & ~CAY_ENVELOPE_COMPRESSED)
        return cay_fail(err, CAY_R_MALFORMED_REQUEST, "unknown envelope flags 0x%02x",
                        rpc->reader.flags);
    if (rpc->reader.flags & CAY_ENVELOPE_COMPRESSED) {
        if (rpc->request_compression != CAY_RPC_GZIP)
            return cay_fail(err, CAY_R_MALFORMED_REQUEST,
                            "a message is marked as compressed, but no compression was announced");
        if (bytes.len && !unpack(rpc, &bytes, err))
            return false;
    }
    return decode(rpc, bytes, &rpc->message_arena, &rpc->message, err);
}

static void message_decoded(struct cay_rpc *rpc, const struct cay_error *err)
{
    if (cay_rpc_has_decoded(rpc, err))
        cay_rpc_pump(rpc);
}

/* Gives the verb the message, or has it decoded first: then it comes back to the pump. */
static bool deliver(struct cay_rpc *rpc, struct cay_error *err)
{
    if (!rpc->message &&
        cay_is_dear(rpc->reader.message.len, rpc->reader.flags & CAY_ENVELOPE_COMPRESSED)) {
        cay_rpc_send_away(rpc, decode_message, message_decoded);
        return true;
    }
    if (!rpc->message && !decode_message(rpc, err))
        return false;
    rpc->wants_message = false;
    rpc->call.on_message(&rpc->call, cay_take_ptr(rpc->message));
    return true;
}

void cay_rpc_pump(struct cay_rpc *rpc)
{
    /* A verb that asks for the next message while it is given one must not nest. */
    if (rpc->depth > 1)
        return;
    struct cay_error err = {};
    while (rpc->is_started && !rpc->is_over && rpc->wants_message && !rpc->end_delivered &&
           !rpc->away.is_away) {
        if (!read_envelope(rpc, &err)) {
            cay_rpc_give_up(rpc, &err);
            return;
        }
        if (rpc->has_message) {
            if (!deliver(rpc, &err)) {
                cay_rpc_give_up(rpc, &err);
                return;
            }
        } else if (unread_bytes(rpc)) {
            continue;
        } else if (rpc->is_body_over) {
            if (!cay_envelope_reader_is_idle(&rpc->reader)) {
                cay_fail(&err, CAY_R_MALFORMED_REQUEST,
                         "the request ends in the middle of a message");
                cay_rpc_give_up(rpc, &err);
                return;
            }
            rpc->end_delivered = true;
            rpc->call.on_message(&rpc->call, NULL);
        } else {
            return;
        }
    }
}

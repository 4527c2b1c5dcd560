/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The bytes of the three RPC protocols that share one port: Connect, gRPC and gRPC-Web. Pure
 * functions; the state of a call lives in front/connect.
 */

#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

enum cay_rpc_protocol {
    CAY_RPC_CONNECT_UNARY = 1, /* the body is the bare message */
    CAY_RPC_CONNECT_STREAM,    /* enveloped, an end-of-stream envelope last */
    CAY_RPC_GRPC,              /* enveloped, status in HTTP/2 trailers */
    CAY_RPC_GRPC_WEB,          /* enveloped, a trailer envelope last */
};

enum cay_rpc_codec {
    CAY_RPC_PROTO = 1,
    CAY_RPC_JSON,
};

enum cay_rpc_compression {
    CAY_RPC_IDENTITY = 0,
    CAY_RPC_GZIP,
};

struct cay_rpc_kind {
    enum cay_rpc_protocol protocol;
    enum cay_rpc_codec codec;
};

/* What a Content-Type asks for; false for one we do not speak. Parameters other than charset=utf-8
 * are refused. */
[[nodiscard]] bool cay_rpc_kind_parse(struct cay_str content_type, struct cay_rpc_kind *out_kind);
const char *cay_rpc_content_type(struct cay_rpc_kind kind);

/* The header names that differ between the protocols. */
struct cay_rpc_names {
    const char *encoding;
    const char *accept_encoding;
    const char *timeout;
};
const struct cay_rpc_names *cay_rpc_names(enum cay_rpc_protocol protocol);

/* An encoding header's value ("", "identity", "gzip"); false for one we cannot undo. */
[[nodiscard]] bool cay_rpc_compression_parse(struct cay_str value,
                                             enum cay_rpc_compression *out_compression);

/* Connect-Timeout-Ms (at most 10 digits) or Grpc-Timeout (at most 8 digits and a unit) as
 * milliseconds, rounded up. -EINVAL when malformed. */
[[nodiscard]] int cay_rpc_timeout_parse(enum cay_rpc_protocol protocol, struct cay_str value,
                                        uint64_t *out_ms);

enum {
    CAY_ENVELOPE_HEAD_BYTES = 5,
    CAY_ENVELOPE_COMPRESSED = 0x01,
    CAY_ENVELOPE_CONNECT_END = 0x02,
    CAY_ENVELOPE_GRPC_WEB_TRAILER = 0x80,
};

/* Cuts a byte stream into envelopes. Zeroed to start with (message.size_bytes_max set). */
struct cay_envelope_reader {
    unsigned char head[CAY_ENVELOPE_HEAD_BYTES];
    unsigned head_len;
    unsigned char flags;
    uint32_t payload_len;
    struct cay_buf message;
};

/*
 * Takes bytes until one envelope is complete: returns how many it took and sets *out_is_complete;
 * the payload is then in reader->message until cay_envelope_reader_next. -EMSGSIZE when it
 * announces more than message.size_bytes_max.
 */
[[nodiscard]] ssize_t cay_envelope_feed(struct cay_envelope_reader *reader, const char *bytes,
                                        size_t len, bool *out_is_complete);
void cay_envelope_reader_next(struct cay_envelope_reader *reader);
void cay_envelope_reader_finish(struct cay_envelope_reader *reader);

/* True when the stream ends between two envelopes, as it must. */
static inline bool cay_envelope_reader_is_idle(const struct cay_envelope_reader *reader)
{
    return reader->head_len == 0;
}

/* The head of an envelope around that much. */
void cay_envelope_head(unsigned char out[CAY_ENVELOPE_HEAD_BYTES], unsigned char flags, size_t len);

/* Leaves room for an envelope's head, and fills it in once the payload stands behind it. */
size_t cay_envelope_begin(struct cay_buf *out);
void cay_envelope_end(struct cay_buf *out, size_t begin, unsigned char flags);

/* {"code":…,"message":…,"details":[…]}: the body of a Connect unary error. */
void cay_rpc_error_json(struct cay_buf *out, const struct cay_error *err);

/* {"error":{…}} or {}: the payload of a Connect end-of-stream envelope. `err` NULL on success. */
void cay_rpc_end_json(struct cay_buf *out, const struct cay_error *err);

/* grpc-message (percent-encoded) and grpc-status-details-bin (google.rpc.Status, base64). */
void cay_rpc_grpc_message(struct cay_buf *out, struct cay_str text);
void cay_rpc_grpc_details(struct cay_buf *out, const struct cay_error *err);

/* The payload of a gRPC-Web trailer envelope. `err` NULL on success. */
void cay_rpc_grpc_web_trailer(struct cay_buf *out, const struct cay_error *err);

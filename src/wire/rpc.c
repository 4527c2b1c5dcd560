/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/rpc.h"

#include <assert.h>
#include <errno.h>

#include "base/base64.h"
#include "base/json.h"
#include "wire/http.h"

enum { DETAIL_BYTES_MAX = 1024 }; /* reason and text are shorter */

static const struct {
    const char *content_type;
    struct cay_rpc_kind kind;
} kinds[] = {
    /* The first of equal kinds is the one we send. */
    {"application/json", {CAY_RPC_CONNECT_UNARY, CAY_RPC_JSON}},
    {"application/proto", {CAY_RPC_CONNECT_UNARY, CAY_RPC_PROTO}},
    {"application/connect+json", {CAY_RPC_CONNECT_STREAM, CAY_RPC_JSON}},
    {"application/connect+proto", {CAY_RPC_CONNECT_STREAM, CAY_RPC_PROTO}},
    {"application/grpc", {CAY_RPC_GRPC, CAY_RPC_PROTO}},
    {"application/grpc+proto", {CAY_RPC_GRPC, CAY_RPC_PROTO}},
    {"application/grpc+json", {CAY_RPC_GRPC, CAY_RPC_JSON}},
    {"application/grpc-web", {CAY_RPC_GRPC_WEB, CAY_RPC_PROTO}},
    {"application/grpc-web+proto", {CAY_RPC_GRPC_WEB, CAY_RPC_PROTO}},
    {"application/grpc-web+json", {CAY_RPC_GRPC_WEB, CAY_RPC_JSON}},
};

bool cay_rpc_kind_parse(struct cay_str content_type, struct cay_rpc_kind *out_kind)
{
    struct cay_str type;
    if (!cay_str_split(&content_type, ';', &type))
        return false;
    if (content_type.ptr) {
        struct cay_str parameter = cay_str_trim(content_type);
        if (!cay_str_equal_nocase(parameter, CAY_STR("charset=utf-8")) &&
            !cay_str_equal_nocase(parameter, CAY_STR("charset=\"utf-8\"")))
            return false;
    }
    type = cay_str_trim(type);
    for (size_t i = 0; i < CAY_COUNT(kinds); i++) {
        if (cay_str_equal_nocase(type, cay_str(kinds[i].content_type))) {
            *out_kind = kinds[i].kind;
            return true;
        }
    }
    return false;
}

const char *cay_rpc_content_type(struct cay_rpc_kind kind)
{
    for (size_t i = 0; i < CAY_COUNT(kinds); i++) {
        if (kinds[i].kind.protocol == kind.protocol && kinds[i].kind.codec == kind.codec)
            return kinds[i].content_type;
    }
    assert(!"a kind that cay_rpc_kind_parse never gives");
    return "";
}

const struct cay_rpc_names *cay_rpc_names(enum cay_rpc_protocol protocol)
{
    static const struct cay_rpc_names unary = {"content-encoding", "accept-encoding",
                                               "connect-timeout-ms"};
    static const struct cay_rpc_names stream = {"connect-content-encoding",
                                                "connect-accept-encoding", "connect-timeout-ms"};
    static const struct cay_rpc_names grpc = {"grpc-encoding", "grpc-accept-encoding",
                                              "grpc-timeout"};
    if (protocol == CAY_RPC_CONNECT_UNARY)
        return &unary;
    return protocol == CAY_RPC_CONNECT_STREAM ? &stream : &grpc;
}

bool cay_rpc_compression_parse(struct cay_str value, enum cay_rpc_compression *out_compression)
{
    if (value.len == 0 || cay_str_is(value, "identity"))
        *out_compression = CAY_RPC_IDENTITY;
    else if (cay_str_is(value, "gzip"))
        *out_compression = CAY_RPC_GZIP;
    else
        return false;
    return true;
}

int cay_rpc_timeout_parse(enum cay_rpc_protocol protocol, struct cay_str value, uint64_t *out_ms)
{
    uint64_t number = 0;
    if (protocol == CAY_RPC_CONNECT_UNARY || protocol == CAY_RPC_CONNECT_STREAM) {
        if (value.len > 10 || cay_str_to_u64(value, UINT64_MAX, &number) < 0)
            return -EINVAL;
        *out_ms = number;
        return 0;
    }
    if (value.len < 2 || value.len > 9)
        return -EINVAL;
    char unit = value.ptr[--value.len];
    if (cay_str_to_u64(value, UINT64_MAX, &number) < 0)
        return -EINVAL;
    switch (unit) {
    case 'H': number *= UINT64_C(3600000); break;
    case 'M': number *= 60000; break;
    case 'S': number *= 1000; break;
    case 'm': break;
    case 'u': number = (number + 999) / 1000; break;
    case 'n': number = (number + 999999) / 1000000; break;
    default: return -EINVAL;
    }
    *out_ms = number;
    return 0;
}

ssize_t cay_envelope_feed(struct cay_envelope_reader *reader, const char *bytes, size_t len,
                          bool *out_is_complete)
{
    size_t used = 0;
    *out_is_complete = false;
    if (!len)
        return 0;
    if (reader->head_len < CAY_ENVELOPE_HEAD_BYTES) {
        used = CAY_MIN(len, (size_t)CAY_ENVELOPE_HEAD_BYTES - reader->head_len);
        if (used)
            memcpy(reader->head + reader->head_len, bytes, used);
        reader->head_len += (unsigned)used;
        if (reader->head_len < CAY_ENVELOPE_HEAD_BYTES)
            return (ssize_t)used;
        reader->flags = reader->head[0];
        reader->payload_len = (uint32_t)reader->head[1] << 24 | (uint32_t)reader->head[2] << 16 |
                              (uint32_t)reader->head[3] << 8 | (uint32_t)reader->head[4];
        if (reader->payload_len > reader->message.size_bytes_max)
            return -EMSGSIZE;
    }
    size_t take = CAY_MIN(len - used, (size_t)reader->payload_len - reader->message.len);
    cay_buf_append(&reader->message, bytes + used, take);
    if (reader->message.failed)
        return -ENOMEM;
    *out_is_complete = reader->message.len == reader->payload_len;
    return (ssize_t)(used + take);
}

void cay_envelope_reader_next(struct cay_envelope_reader *reader)
{
    reader->head_len = 0;
    cay_buf_clear(&reader->message, 64 * 1024);
}

void cay_envelope_reader_finish(struct cay_envelope_reader *reader)
{
    cay_buf_finish(&reader->message);
}

void cay_envelope_head(unsigned char out[CAY_ENVELOPE_HEAD_BYTES], unsigned char flags, size_t len)
{
    assert(len <= UINT32_MAX);
    out[0] = flags;
    out[1] = (unsigned char)(len >> 24);
    out[2] = (unsigned char)(len >> 16);
    out[3] = (unsigned char)(len >> 8);
    out[4] = (unsigned char)len;
}

size_t cay_envelope_begin(struct cay_buf *out)
{
    size_t begin = out->len;
    cay_buf_append(out, "\0\0\0\0", CAY_ENVELOPE_HEAD_BYTES);
    return begin;
}

void cay_envelope_end(struct cay_buf *out, size_t begin, unsigned char flags)
{
    if (out->failed)
        return;
    size_t len = out->len - begin - CAY_ENVELOPE_HEAD_BYTES;
    if (len > UINT32_MAX) {
        out->failed = true;
        return;
    }
    cay_envelope_head((unsigned char *)out->data + begin, flags, len);
}

static void put_length_field(struct cay_buf *out, unsigned field, struct cay_str bytes)
{
    assert(bytes.len < 1u << 14);
    cay_buf_append_byte(out, (unsigned char)(field << 3 | 2));
    if (bytes.len >= 128)
        cay_buf_append_byte(out, (unsigned char)(bytes.len & 127) | 128);
    cay_buf_append_byte(out, (unsigned char)(bytes.len >= 128 ? bytes.len >> 7 : bytes.len));
    cay_buf_append_str(out, bytes);
}

/* cay.v1.ErrorInfo{reason, metadata} in protobuf: field 1, a string; field 2, a map of them. */
static void error_info(struct cay_buf *out, const struct cay_error *err)
{
    put_length_field(out, 1, cay_str(cay_reason_info(err->reason)->name));
    const char *value = NULL;
    for (const char *key = NULL; (key = cay_error_next_fact(err, key, &value));) {
        cay_auto(cay_buf_finish) struct cay_buf entry;
        cay_buf_init(&entry, DETAIL_BYTES_MAX);
        put_length_field(&entry, 1, cay_str(key));
        put_length_field(&entry, 2, cay_str(value));
        put_length_field(out, 2, cay_buf_str(&entry));
    }
}

static void debug_object(struct cay_json_writer *json, const struct cay_error *err)
{
    const char *value = NULL;
    const char *key = cay_error_next_fact(err, NULL, &value);
    cay_json_object_begin(json);
    cay_json_key(json, "reason");
    cay_json_text(json, cay_reason_info(err->reason)->name);
    if (key) {
        cay_json_key(json, "metadata");
        cay_json_object_begin(json);
        for (; key; key = cay_error_next_fact(err, key, &value)) {
            cay_json_key(json, key);
            cay_json_text(json, value);
        }
        cay_json_object_end(json);
    }
    cay_json_object_end(json);
}

static void error_object(struct cay_json_writer *json, const struct cay_error *err)
{
    const struct cay_reason_info *info = cay_reason_info(err->reason);
    cay_auto(cay_buf_finish) struct cay_buf detail;
    cay_auto(cay_buf_finish) struct cay_buf encoded;
    cay_buf_init(&detail, DETAIL_BYTES_MAX);
    cay_buf_init(&encoded, 2 * DETAIL_BYTES_MAX);
    error_info(&detail, err);
    cay_base64_append(&encoded, cay_buf_str(&detail), false);

    cay_json_object_begin(json);
    cay_json_key(json, "code");
    cay_json_text(json, cay_code_name(info->code));
    cay_json_key(json, "message");
    cay_json_text(json, err->text);
    cay_json_key(json, "details");
    cay_json_array_begin(json);
    cay_json_object_begin(json);
    cay_json_key(json, "type");
    cay_json_text(json, "cay.v1.ErrorInfo");
    cay_json_key(json, "value");
    cay_json_string(json, cay_buf_str(&encoded));
    cay_json_key(json, "debug");
    debug_object(json, err);
    cay_json_object_end(json);
    cay_json_array_end(json);
    cay_json_object_end(json);
}

void cay_rpc_error_json(struct cay_buf *out, const struct cay_error *err)
{
    struct cay_json_writer json = {.buf = out};
    error_object(&json, err);
}

void cay_rpc_end_json(struct cay_buf *out, const struct cay_error *err)
{
    struct cay_json_writer json = {.buf = out};
    cay_json_object_begin(&json);
    if (err) {
        cay_json_key(&json, "error");
        error_object(&json, err);
    }
    cay_json_object_end(&json);
}

void cay_rpc_grpc_message(struct cay_buf *out, struct cay_str text)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c >= 0x20 && c < 0x7F && c != '%') {
            cay_buf_append_byte(out, c);
        } else {
            cay_buf_append_byte(out, '%');
            cay_buf_append_byte(out, (unsigned char)hex[c >> 4]);
            cay_buf_append_byte(out, (unsigned char)hex[c & 15]);
        }
    }
}

void cay_rpc_grpc_details(struct cay_buf *out, const struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf info;
    cay_auto(cay_buf_finish) struct cay_buf any;
    cay_auto(cay_buf_finish) struct cay_buf status;
    cay_buf_init(&info, DETAIL_BYTES_MAX);
    cay_buf_init(&any, DETAIL_BYTES_MAX);
    cay_buf_init(&status, DETAIL_BYTES_MAX);
    error_info(&info, err);
    put_length_field(&any, 1, CAY_STR("type.googleapis.com/cay.v1.ErrorInfo"));
    put_length_field(&any, 2, cay_buf_str(&info));
    cay_buf_append_byte(&status, 1 << 3);
    cay_buf_append_byte(&status, (unsigned char)cay_reason_info(err->reason)->code);
    put_length_field(&status, 2, cay_str(err->text));
    put_length_field(&status, 3, cay_buf_str(&any));
    cay_base64_append(out, cay_buf_str(&status), false);
}

void cay_rpc_grpc_web_trailer(struct cay_buf *out, const struct cay_error *err)
{
    cay_buf_printf(out, "grpc-status: %d\r\n", err ? (int)cay_reason_info(err->reason)->code : 0);
    if (!err)
        return;
    cay_buf_append_text(out, "grpc-message: ");
    cay_rpc_grpc_message(out, cay_str(err->text));
    cay_buf_append_text(out, "\r\ngrpc-status-details-bin: ");
    cay_rpc_grpc_details(out, err);
    cay_buf_append_text(out, "\r\n");
}

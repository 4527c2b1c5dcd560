/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

#include "base/base64.h"
#include "base/json.h"
#include "wire/http.h"
#include "wire/rpc.h"

enum { MESSAGE_BYTES_MAX = 4096 };

static void check_kind(struct cay_str text)
{
    struct cay_rpc_kind kind = {};
    struct cay_rpc_kind again = {};
    if (!cay_rpc_kind_parse(text, &kind))
        return;
    FUZZ_CHECK(cay_rpc_kind_parse(cay_str(cay_rpc_content_type(kind)), &again));
    FUZZ_CHECK(kind.protocol == again.protocol && kind.codec == again.codec);
}

static void check_timeout(struct cay_str text)
{
    for (int protocol = CAY_RPC_CONNECT_UNARY; protocol <= CAY_RPC_GRPC_WEB; protocol++) {
        uint64_t ms = 0;
        int status = cay_rpc_timeout_parse((enum cay_rpc_protocol)protocol, text, &ms);
        FUZZ_CHECK(status == 0 || status == -EINVAL);
        FUZZ_CHECK(ms <= UINT64_C(99999999) * 3600000);
    }
    enum cay_rpc_compression compression;
    (void)!cay_rpc_compression_parse(text, &compression);
}

/* The same envelopes whatever the pieces; what is cut can be put together again. */
static void check_envelopes(struct cay_str bytes, size_t piece)
{
    struct cay_envelope_reader reader = {.message.size_bytes_max = MESSAGE_BYTES_MAX};
    cay_auto(cay_buf_finish) struct cay_buf again;
    cay_buf_init(&again, bytes.len + CAY_ENVELOPE_HEAD_BYTES);
    size_t used = 0;
    while (used < bytes.len) {
        bool is_complete = false;
        size_t len = CAY_MIN(piece, bytes.len - used);
        ssize_t got = cay_envelope_feed(&reader, bytes.ptr + used, len, &is_complete);
        if (got == -EMSGSIZE) {
            FUZZ_CHECK(reader.payload_len > MESSAGE_BYTES_MAX);
            break;
        }
        FUZZ_CHECK(got > 0 && (size_t)got <= len);
        used += (size_t)got;
        FUZZ_CHECK(reader.message.len <= MESSAGE_BYTES_MAX);
        if (!is_complete)
            continue;
        size_t begin = cay_envelope_begin(&again);
        cay_buf_append_str(&again, cay_buf_str(&reader.message));
        cay_envelope_end(&again, begin, reader.flags);
        cay_envelope_reader_next(&reader);
    }
    FUZZ_CHECK(!again.failed && again.len <= bytes.len);
    FUZZ_CHECK(!again.len || memcmp(again.data, bytes.ptr, again.len) == 0);
    cay_envelope_reader_finish(&reader);
}

static void check_query(struct cay_str text)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, 1 << 20);
    struct cay_str value = {};
    if (cay_http_query(text, "a", &arena, &value))
        FUZZ_CHECK(value.len <= text.len);
    (void)!cay_http_query(text, "message", &arena, &value);
    (void)!cay_http_list_has(text, "gzip");
}

/* Any text makes an error that JSON readers and gRPC's header rules accept. */
static void check_errors(struct cay_str text, enum cay_reason reason)
{
    struct cay_error err = {.reason = reason};
    size_t len = CAY_MIN(text.len, sizeof(err.text) - 1);
    if (len)
        memcpy(err.text, text.ptr, len);
    cay_auto(cay_buf_finish) struct cay_buf out;
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_buf_init(&out, 8192);
    cay_arena_init(&arena, 1 << 20);
    cay_rpc_end_json(&out, &err);
    FUZZ_CHECK(!out.failed);
    struct cay_json_reader json;
    cay_json_reader_init(&json, cay_buf_str(&out), &arena);
    while (cay_json_next(&json) != CAY_JSON_END)
        FUZZ_CHECK(json.token != CAY_JSON_ERROR);
    cay_buf_clear(&out, 8192);
    cay_rpc_grpc_message(&out, cay_str(err.text));
    FUZZ_CHECK(cay_http_is_field_value(cay_buf_str(&out)));
    cay_buf_clear(&out, 8192);
    cay_rpc_grpc_web_trailer(&out, &err);
    FUZZ_CHECK(!out.failed);
}

/* The first byte chooses the size of pieces and the reason. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct cay_str text = {(const char *)data + 1, size - 1};
    check_kind(text);
    check_timeout(text);
    check_envelopes(text, 1 + data[0] % 16);
    check_envelopes(text, SIZE_MAX);
    check_query(text);
    check_errors(text, (enum cay_reason)(1 + data[0] % (CAY_R_COUNT - 1)));
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <string.h>

#include "wire/rpc.h"

static void content_types_say_protocol_and_codec(void **)
{
    static const struct {
        const char *type;
        enum cay_rpc_protocol protocol; /* 0: refused */
        enum cay_rpc_codec codec;
    } cases[] = {
        {"application/json", CAY_RPC_CONNECT_UNARY, CAY_RPC_JSON},
        {"application/proto", CAY_RPC_CONNECT_UNARY, CAY_RPC_PROTO},
        {"application/connect+json", CAY_RPC_CONNECT_STREAM, CAY_RPC_JSON},
        {"application/connect+proto", CAY_RPC_CONNECT_STREAM, CAY_RPC_PROTO},
        {"application/grpc", CAY_RPC_GRPC, CAY_RPC_PROTO},
        {"application/grpc+proto", CAY_RPC_GRPC, CAY_RPC_PROTO},
        {"application/grpc+json", CAY_RPC_GRPC, CAY_RPC_JSON},
        {"application/grpc-web", CAY_RPC_GRPC_WEB, CAY_RPC_PROTO},
        {"application/grpc-web+proto", CAY_RPC_GRPC_WEB, CAY_RPC_PROTO},
        {"application/grpc-web+json", CAY_RPC_GRPC_WEB, CAY_RPC_JSON},
        {"Application/JSON", CAY_RPC_CONNECT_UNARY, CAY_RPC_JSON},
        {"application/json; charset=utf-8", CAY_RPC_CONNECT_UNARY, CAY_RPC_JSON},
        {"application/json;charset=UTF-8", CAY_RPC_CONNECT_UNARY, CAY_RPC_JSON},
        {"application/json ; charset=\"utf-8\"", CAY_RPC_CONNECT_UNARY, CAY_RPC_JSON},
        {"", 0, 0},
        {"application", 0, 0},
        {"application/jsonx", 0, 0},
        {"text/plain", 0, 0},
        {"application/grpc-web-text", 0, 0},
        {"application/grpc+", 0, 0},
        {"application/json; charset=latin1", 0, 0},
        {"application/json;", 0, 0},
        {"application/json; charset=utf-8; x=y", 0, 0},
        {"application/json, application/json", 0, 0},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        struct cay_rpc_kind kind = {};
        bool known = cay_rpc_kind_parse(cay_str(cases[i].type), &kind);
        assert_int_equal(known, cases[i].protocol != 0);
        assert_int_equal(kind.protocol, cases[i].protocol);
        assert_int_equal(kind.codec, cases[i].codec);
        struct cay_rpc_kind again = {};
        if (known) {
            assert_true(cay_rpc_kind_parse(cay_str(cay_rpc_content_type(kind)), &again));
            assert_memory_equal(&kind, &again, sizeof(kind));
        }
    }
    struct cay_rpc_kind kind;
    assert_false(cay_rpc_kind_parse((struct cay_str){}, &kind));
}

static void timeouts_are_milliseconds_rounded_up(void **)
{
    static const struct {
        enum cay_rpc_protocol protocol;
        const char *text;
        int64_t ms; /* -1: malformed */
    } cases[] = {
        {CAY_RPC_CONNECT_UNARY, "0", 0},
        {CAY_RPC_CONNECT_UNARY, "5000", 5000},
        {CAY_RPC_CONNECT_STREAM, "9999999999", 9999999999},
        {CAY_RPC_CONNECT_STREAM, "10000000000", -1},
        {CAY_RPC_CONNECT_STREAM, "00000000001", -1},
        {CAY_RPC_CONNECT_UNARY, "", -1},
        {CAY_RPC_CONNECT_UNARY, "-1", -1},
        {CAY_RPC_CONNECT_UNARY, "+1", -1},
        {CAY_RPC_CONNECT_UNARY, "1m", -1},
        {CAY_RPC_CONNECT_UNARY, "1.5", -1},
        {CAY_RPC_CONNECT_UNARY, " 1", -1},
        {CAY_RPC_GRPC, "1H", 3600000},
        {CAY_RPC_GRPC, "99999999H", 359999996400000},
        {CAY_RPC_GRPC, "2M", 120000},
        {CAY_RPC_GRPC, "3S", 3000},
        {CAY_RPC_GRPC_WEB, "4m", 4},
        {CAY_RPC_GRPC, "0m", 0},
        {CAY_RPC_GRPC, "1u", 1},
        {CAY_RPC_GRPC, "1000u", 1},
        {CAY_RPC_GRPC, "1001u", 2},
        {CAY_RPC_GRPC, "1n", 1},
        {CAY_RPC_GRPC, "0n", 0},
        {CAY_RPC_GRPC, "99999999n", 100},
        {CAY_RPC_GRPC, "100000000m", -1},
        {CAY_RPC_GRPC, "m", -1},
        {CAY_RPC_GRPC, "", -1},
        {CAY_RPC_GRPC, "1", -1},
        {CAY_RPC_GRPC, "12", -1},
        {CAY_RPC_GRPC, "1s", -1},
        {CAY_RPC_GRPC, "1h", -1},
        {CAY_RPC_GRPC, "-1S", -1},
        {CAY_RPC_GRPC, "1 S", -1},
        {CAY_RPC_GRPC, "1SS", -1},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        uint64_t ms = 77;
        int status = cay_rpc_timeout_parse(cases[i].protocol, cay_str(cases[i].text), &ms);
        assert_int_equal(status, cases[i].ms < 0 ? -EINVAL : 0);
        assert_true(ms == (cases[i].ms < 0 ? 77 : (uint64_t)cases[i].ms));
    }
}

static void compressions_are_identity_and_gzip(void **)
{
    enum cay_rpc_compression compression = CAY_RPC_GZIP;
    assert_true(cay_rpc_compression_parse((struct cay_str){}, &compression));
    assert_int_equal(compression, CAY_RPC_IDENTITY);
    assert_true(cay_rpc_compression_parse(CAY_STR("gzip"), &compression));
    assert_int_equal(compression, CAY_RPC_GZIP);
    assert_true(cay_rpc_compression_parse(CAY_STR("identity"), &compression));
    assert_int_equal(compression, CAY_RPC_IDENTITY);
    assert_false(cay_rpc_compression_parse(CAY_STR("br"), &compression));
    assert_false(cay_rpc_compression_parse(CAY_STR("gzip, gzip"), &compression));
}

static void each_protocol_has_its_header_names(void **)
{
    assert_string_equal(cay_rpc_names(CAY_RPC_CONNECT_UNARY)->encoding, "content-encoding");
    assert_string_equal(cay_rpc_names(CAY_RPC_CONNECT_STREAM)->accept_encoding,
                        "connect-accept-encoding");
    assert_string_equal(cay_rpc_names(CAY_RPC_CONNECT_STREAM)->timeout, "connect-timeout-ms");
    assert_string_equal(cay_rpc_names(CAY_RPC_GRPC)->encoding, "grpc-encoding");
    assert_string_equal(cay_rpc_names(CAY_RPC_GRPC_WEB)->timeout, "grpc-timeout");
}

static void envelopes_are_cut_whatever_the_pieces(void **)
{
    static const char bytes[] = "\0\0\0\0\5hello"
                                "\1\0\0\0\0"
                                "\2\0\0\0\2{}"
                                "\0\0\0\0\3abc";
    static const struct {
        unsigned char flags;
        const char *payload;
    } expected[] = {{0, "hello"}, {1, ""}, {2, "{}"}, {0, "abc"}};
    size_t total = sizeof(bytes) - 1;
    for (size_t piece = 1; piece <= total; piece++) {
        struct cay_envelope_reader reader = {.message.size_bytes_max = 5};
        size_t count = 0;
        size_t used = 0;
        while (used < total) {
            bool is_complete = false;
            ssize_t got = cay_envelope_feed(&reader, bytes + used, CAY_MIN(piece, total - used),
                                            &is_complete);
            assert_true(got > 0);
            used += (size_t)got;
            assert_false(cay_envelope_reader_is_idle(&reader));
            if (!is_complete)
                continue;
            assert_in_range(count, 0, CAY_COUNT(expected) - 1);
            assert_int_equal(reader.flags, expected[count].flags);
            assert_true(cay_str_is(cay_buf_str(&reader.message), expected[count].payload));
            count++;
            cay_envelope_reader_next(&reader);
            assert_true(cay_envelope_reader_is_idle(&reader));
        }
        assert_int_equal(count, CAY_COUNT(expected));
        cay_envelope_reader_finish(&reader);
    }
}

static void an_envelope_over_the_limit_is_refused_before_it_comes(void **)
{
    struct cay_envelope_reader reader = {.message.size_bytes_max = 5};
    bool is_complete = true;
    assert_int_equal(cay_envelope_feed(&reader, "\0\0\0\0\6", 5, &is_complete), -EMSGSIZE);
    assert_false(is_complete);
    assert_int_equal(reader.message.cap, 0);
    cay_envelope_reader_finish(&reader);
    struct cay_envelope_reader largest = {.message.size_bytes_max = 1 << 20};
    assert_int_equal(cay_envelope_feed(&largest, "\0\xFF\xFF\xFF\xFF", 5, &is_complete), -EMSGSIZE);
    cay_envelope_reader_finish(&largest);
}

static void written_envelopes_have_flags_and_length(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf out;
    cay_buf_init(&out, 1 << 20);
    cay_buf_append_text(&out, "x");
    size_t begin = cay_envelope_begin(&out);
    cay_buf_append_text(&out, "hello");
    cay_envelope_end(&out, begin, CAY_ENVELOPE_COMPRESSED);
    begin = cay_envelope_begin(&out);
    cay_envelope_end(&out, begin, CAY_ENVELOPE_GRPC_WEB_TRAILER);
    assert_true(cay_str_equal(cay_buf_str(&out), CAY_STR("x\1\0\0\0\5hello\x80\0\0\0\0")));
    begin = cay_envelope_begin(&out);
    for (int i = 0; i < 0x10203; i++)
        cay_buf_append_byte(&out, 'a');
    cay_envelope_end(&out, begin, 0);
    assert_memory_equal(out.data + begin, "\0\0\1\2\3a", 6);
}

static void a_full_buffer_stays_failed(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf out;
    cay_buf_init(&out, 8);
    size_t begin = cay_envelope_begin(&out);
    cay_buf_append_text(&out, "hello");
    cay_envelope_end(&out, begin, 0);
    assert_true(out.failed);
}

static const struct cay_error sample = {.reason = CAY_R_SESSION_PAUSED,
                                        .text = "session 'a\"b' is paused \xE2\x82\xAC 100%"};

/* CgEK... is ErrorInfo{reason: "session_paused"}. */
#define INFO_BASE64 "Cg5zZXNzaW9uX3BhdXNlZA"

static void connect_errors_are_json(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf out;
    cay_buf_init(&out, 4096);
    cay_rpc_error_json(&out, &sample);
    assert_true(cay_str_is(cay_buf_str(&out),
                           "{\"code\":\"failed_precondition\","
                           "\"message\":\"session 'a\\\"b' is paused \xE2\x82\xAC 100%\","
                           "\"details\":[{\"type\":\"cay.v1.ErrorInfo\",\"value\":\"" INFO_BASE64
                           "\","
                           "\"debug\":{\"reason\":\"session_paused\"}}]}"));
    cay_buf_clear(&out, 0);
    cay_rpc_end_json(&out, NULL);
    assert_true(cay_str_is(cay_buf_str(&out), "{}"));
    cay_buf_clear(&out, 0);
    cay_rpc_end_json(&out, &sample);
    assert_true(cay_str_starts(cay_buf_str(&out), "{\"error\":{\"code\":\"failed_precondition\","));
    assert_memory_equal(out.data + out.len - 5, "}}]}}", 5);
}

static void grpc_messages_are_percent_encoded(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf out;
    cay_buf_init(&out, 4096);
    cay_rpc_grpc_message(&out, CAY_STR(" a~\x7F%\n\xE2\x82\xAC"));
    assert_true(cay_str_is(cay_buf_str(&out), " a~%7F%25%0A%E2%82%AC"));
}

/* google.rpc.Status{code: 9, message: "no", details: [Any{…ErrorInfo}]}, made with protoc. */
static void grpc_details_are_a_status(void **)
{
    const struct cay_error err = {.reason = CAY_R_SESSION_PAUSED, .text = "no"};
    cay_auto(cay_buf_finish) struct cay_buf out;
    cay_buf_init(&out, 4096);
    cay_rpc_grpc_details(&out, &err);
    assert_true(cay_str_is(cay_buf_str(&out),
                           "CAkSAm5vGjgKJHR5cGUuZ29vZ2xlYXBpcy5jb20vY2F5LnYxLkVycm9ySW5mbxIQCg5z"
                           "ZXNzaW9uX3BhdXNlZA"));
}

static void the_longest_error_fits_its_details(void **)
{
    struct cay_error err = {.reason = CAY_R_SNAPSHOTS_NOT_AVAILABLE};
    memset(err.text, 0xFF, sizeof(err.text) - 1);
    cay_auto(cay_buf_finish) struct cay_buf out;
    cay_buf_init(&out, 2048);
    cay_rpc_grpc_details(&out, &err);
    assert_false(out.failed);
    assert_true(out.len > 300 && out.len < 600);
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, 1024);
    cay_rpc_grpc_message(&text, cay_str(err.text));
    assert_int_equal(text.len, 3 * (sizeof(err.text) - 1));
    cay_auto(cay_buf_finish) struct cay_buf json;
    cay_buf_init(&json, 4096);
    cay_rpc_error_json(&json, &err);
    assert_false(json.failed);
}

static void grpc_web_trailers_are_lines(void **)
{
    const struct cay_error err = {.reason = CAY_R_NOT_FOUND, .text = "no \xC3\xA9"};
    cay_auto(cay_buf_finish) struct cay_buf out;
    cay_buf_init(&out, 4096);
    cay_rpc_grpc_web_trailer(&out, NULL);
    assert_true(cay_str_is(cay_buf_str(&out), "grpc-status: 0\r\n"));
    cay_buf_clear(&out, 0);
    cay_rpc_grpc_web_trailer(&out, &err);
    assert_true(cay_str_starts(cay_buf_str(&out), "grpc-status: 5\r\n"
                                                  "grpc-message: no %C3%A9\r\n"
                                                  "grpc-status-details-bin: CAUSB"));
    assert_memory_equal(out.data + out.len - 2, "\r\n", 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_types_say_protocol_and_codec),
        cmocka_unit_test(timeouts_are_milliseconds_rounded_up),
        cmocka_unit_test(compressions_are_identity_and_gzip),
        cmocka_unit_test(each_protocol_has_its_header_names),
        cmocka_unit_test(envelopes_are_cut_whatever_the_pieces),
        cmocka_unit_test(an_envelope_over_the_limit_is_refused_before_it_comes),
        cmocka_unit_test(written_envelopes_have_flags_and_length),
        cmocka_unit_test(a_full_buffer_stays_failed),
        cmocka_unit_test(connect_errors_are_json),
        cmocka_unit_test(grpc_messages_are_percent_encoded),
        cmocka_unit_test(grpc_details_are_a_status),
        cmocka_unit_test(the_longest_error_fits_its_details),
        cmocka_unit_test(grpc_web_trailers_are_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

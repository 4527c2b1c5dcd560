/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/http1.h"

enum { FIELDS_MAX = 8, HEAD_BYTES_MAX = 32 * 1024 };

struct parsed {
    ssize_t len;
    struct cay_http1_head head;
    struct cay_http1_fault fault;
    struct cay_http_header fields[FIELDS_MAX];
};

static struct parsed *parse(struct cay_str bytes)
{
    static struct parsed parsed;
    parsed = (struct parsed){};
    parsed.len = cay_http1_parse_head(bytes, parsed.fields, FIELDS_MAX, HEAD_BYTES_MAX,
                                      &parsed.head, &parsed.fault);
    return &parsed;
}

static void a_plain_request_is_taken_apart(void **)
{
    static const char bytes[] = "POST /a/b?c=d&e HTTP/1.1\r\n"
                                "Host: example:80\r\n"
                                "Content-Length: 5\r\n"
                                "X-Blank: \t two words\t \r\n"
                                "X-Empty:\r\n"
                                "\r\n"
                                "hello";
    const struct parsed *got = parse(CAY_STR("POST /a/b?c=d&e HTTP/1.1\r\n"
                                             "Host: example:80\r\n"
                                             "Content-Length: 5\r\n"
                                             "X-Blank: \t two words\t \r\n"
                                             "X-Empty:\r\n"
                                             "\r\n"
                                             "hello"));
    assert_int_equal(got->len, sizeof(bytes) - 1 - 5);
    assert_true(cay_str_is(got->head.method, "POST"));
    assert_true(cay_str_is(got->head.path, "/a/b"));
    assert_true(cay_str_is(got->head.query, "c=d&e"));
    assert_true(cay_str_is(got->head.host, "example:80"));
    assert_int_equal(got->head.content_length, 5);
    assert_true(got->head.has_body);
    assert_true(got->head.keep_alive);
    assert_false(got->head.is_chunked || got->head.expects_continue || got->head.is_version_1_0);
    assert_int_equal(got->head.headers.count, 4);
    assert_true(cay_str_is(got->head.headers.items[2].value, "two words"));
    assert_true(cay_str_is(got->head.headers.items[3].value, ""));
}

/* The head between "GET / HTTP/1.1\r\nHost: a\r\n" and the empty line, and what becomes of it. */
static const struct {
    const char *fields;
    bool keep_alive;
    bool is_chunked;
    bool expects_continue;
    uint64_t content_length;
} good_fields[] = {
    {"", .keep_alive = true},
    {"Content-Length: 0\r\n", .keep_alive = true},
    {"Content-Length: 007\r\n", .keep_alive = true, .content_length = 7},
    {"Content-Length: 9223372036854775807\r\n", .keep_alive = true,
     .content_length = UINT64_C(9223372036854775807)},
    {"content-LENGTH:3\r\n", .keep_alive = true, .content_length = 3},
    {"Transfer-Encoding: chunked\r\n", .keep_alive = true, .is_chunked = true},
    {"transfer-encoding:CHUNKED  \r\n", .keep_alive = true, .is_chunked = true},
    {"Connection: close\r\n", .keep_alive = false},
    {"Connection: keep-alive, Close\r\n", .keep_alive = false},
    {"Connection: close\r\nConnection: keep-alive\r\n", .keep_alive = false},
    {"Connection: closed\r\n", .keep_alive = true},
    {"Connection: upgrade\r\nUpgrade: h2c\r\n", .keep_alive = true},
    {"Expect: 100-Continue\r\nContent-Length: 1\r\n", .keep_alive = true, .expects_continue = true,
     .content_length = 1},
    {"X-High: \xFF\x80\r\n", .keep_alive = true},
};

static void fields_that_frame_the_body_are_understood(void **)
{
    for (size_t i = 0; i < CAY_COUNT(good_fields); i++) {
        char bytes[512];
        int len = snprintf(bytes, sizeof(bytes), "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n",
                           good_fields[i].fields);
        const struct parsed *got = parse((struct cay_str){bytes, (size_t)len});
        assert_int_equal(got->len, len);
        assert_int_equal(got->head.keep_alive, good_fields[i].keep_alive);
        assert_int_equal(got->head.is_chunked, good_fields[i].is_chunked);
        assert_int_equal(got->head.expects_continue, good_fields[i].expects_continue);
        assert_true(got->head.content_length == good_fields[i].content_length);
        assert_int_equal(got->head.has_body,
                         good_fields[i].is_chunked || good_fields[i].content_length);
    }
}

static const struct {
    const char *target;
    const char *path;
    const char *query;
} good_targets[] = {
    {"/", "/", ""},
    {"/a?", "/a", ""},
    {"/a?b?c", "/a", "b?c"},
    {"//a", "//a", ""},
    {"/%00;x", "/%00;x", ""},
    {"http://a/", "/", ""},
    {"http://a:1/b?c", "/b", "c"},
    {"https://[::1]:8/b", "/b", ""},
};

static void targets_are_paths_or_absolute(void **)
{
    for (size_t i = 0; i < CAY_COUNT(good_targets); i++) {
        char bytes[512];
        int len = snprintf(bytes, sizeof(bytes), "GET %s HTTP/1.1\r\nHost: a\r\n\r\n",
                           good_targets[i].target);
        const struct parsed *got = parse((struct cay_str){bytes, (size_t)len});
        assert_int_equal(got->len, len);
        assert_true(cay_str_is(got->head.path, good_targets[i].path));
        assert_true(cay_str_is(got->head.query, good_targets[i].query));
    }
}

#define H "GET / HTTP/1.1\r\nHost: a\r\n"
#define BAD(status, literal)                   \
    {                                          \
        {literal, sizeof(literal) - 1}, status \
    }

/* Every one of these has been somebody's security hole. */
static const struct {
    struct cay_str bytes;
    int status;
} bad_heads[] = {
    /* bare CR hiding a field, bare LF as a line end */
    BAD(400, H "X: a\rTransfer-Encoding: chunked\r\n\r\n"),
    BAD(400, H "X: a\nTransfer-Encoding: chunked\r\n\r\n"),
    BAD(400, H "X: a\r\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\nHost: a\n\n"),
    BAD(400, "GET / HTTP/1.1\r\nHost: a\n\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\r\nHost: a\r\n\r\n"),
    /* blanks where none belong, folding */
    BAD(400, "GET / HTTP/1.1\r\nHost : a\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\n Host: a\r\n\r\n"),
    BAD(400, "GET / HTTP/1.1\r\n\tHost: a\r\n\r\n"),
    BAD(400, H "X: a\r\n folded: b\r\n\r\n"),
    BAD(400, H "Transfer-Encoding : chunked\r\n\r\n"),
    BAD(400, H "Content Length: 1\r\n\r\n"),
    /* where the body ends, said twice or unclearly */
    BAD(400, H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
    BAD(400, H "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n"),
    BAD(400, H "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"),
    BAD(400, H "Content-Length: 5\r\nContent-Length: 6\r\n\r\n"),
    BAD(400, H "Content-Length: 5, 5\r\n\r\n"),
    BAD(400, H "Content-Length: +5\r\n\r\n"),
    BAD(400, H "Content-Length: -5\r\n\r\n"),
    BAD(400, H "Content-Length: 0x5\r\n\r\n"),
    BAD(400, H "Content-Length: 5 5\r\n\r\n"),
    BAD(400, H "Content-Length: 5;\r\n\r\n"),
    BAD(400, H "Content-Length:\r\n\r\n"),
    BAD(400, H "Content-Length: 9223372036854775808\r\n\r\n"),
    BAD(400, H "Content-Length: 99999999999999999999\r\n\r\n"),
    BAD(400, H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
    BAD(501, H "Transfer-Encoding: identity\r\n\r\n"),
    BAD(501, H "Transfer-Encoding: gzip, chunked\r\n\r\n"),
    BAD(501, H "Transfer-Encoding: chunked, chunked\r\n\r\n"),
    BAD(501, H "Transfer-Encoding: chunked;x\r\n\r\n"),
    BAD(400, H "Transfer-Encoding: \x0B"
               "chunked\r\n\r\n"),
    BAD(501, H "Transfer-Encoding: xchunked\r\n\r\n"),
    BAD(501, H "Transfer-Encoding:\r\n\r\n"),
    BAD(501, H "Transfer-Encoding: chunked\t\r\n\r\n"),
    BAD(501, H "Transfer-Encoding:\tchunked\r\n\r\n"),
    BAD(400, H "Content-Length: 5 \t\r\n\r\n"),
    BAD(400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    /* the host */
    BAD(400, "GET / HTTP/1.1\r\n\r\n"),
    BAD(400, H "Host: b\r\n\r\n"),
    BAD(400, H "host: a\r\n\r\n"),
    /* field names and values */
    BAD(400, H "no colon\r\n\r\n"),
    BAD(400, H ": nameless\r\n\r\n"),
    BAD(400, H "X\0Y: a\r\n\r\n"),
    BAD(400, H "X: a\0b\r\n\r\n"),
    BAD(400, H "X: a\x1F\r\n\r\n"),
    BAD(400, H "X: a\x7F\r\n\r\n"),
    BAD(400, H "X(: a\r\n\r\n"),
    BAD(400, H "\xC3\xA9: a\r\n\r\n"),
    BAD(400, H "X\": a\r\n\r\n"),
    /* the request line; HTTP/0.9 */
    BAD(400, "GET /x\nHost: a\r\n\r\n"),
    BAD(400, "GET /x\r\n"),
    BAD(400, "GET /x\r\nHost: a\r\n\r\n"),
    BAD(400, "GET\r\n\r\n"),
    BAD(400, " GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "GET /  HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(505, "GET / HTTP/1.1 \r\nHost: a\r\n\r\n"),
    BAD(400, "G\x01T / HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "ABCDEFGHIJKLMNOPQ / HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "GET / http/1.1\r\nHost: a\r\n\r\n"),
    BAD(505, "GET / HTTP/1.2\r\nHost: a\r\n\r\n"),
    BAD(505, "GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
    BAD(505, "GET / HTTP/01.1\r\nHost: a\r\n\r\n"),
    BAD(505, "GET / HTTP/0.9\r\nHost: a\r\n\r\n"),
    BAD(400, "GET / ICE/1.0\r\nHost: a\r\n\r\n"),
    BAD(400, "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    /* targets */
    BAD(400, "GET * HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "GET a HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "GET /\xC3\xA9 HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "GET /\x7F HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "GET http://a HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "GET http:///b HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "GET http://a?b/c HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "GET http://u@a/b HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "GET http://a\\b/c HTTP/1.1\r\nHost: a\r\n\r\n"),
    BAD(400, "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    /* expectations */
    BAD(417, H "Expect: 200-ok\r\n\r\n"),
    BAD(417, H "Expect: 100-continue, x\r\n\r\n"),
};

static void what_is_not_in_the_grammar_is_refused(void **)
{
    for (size_t i = 0; i < CAY_COUNT(bad_heads); i++) {
        const struct parsed *got = parse(bad_heads[i].bytes);
        if (got->len >= 0 || got->fault.status != bad_heads[i].status)
            print_error("case %zu: %.*s\n", i, (int)bad_heads[i].bytes.len, bad_heads[i].bytes.ptr);
        assert_true(got->len < 0);
        assert_int_equal(got->fault.status, bad_heads[i].status);
        assert_non_null(got->fault.text);
        assert_true(strlen(got->fault.text) > 10);
        assert_null(strpbrk(got->fault.text, "\"\\"));
    }
}

/* Each prefix must say "more" or refuse; what a prefix refuses must not be accepted later. */
static void byte_by_byte_ends_as_the_whole_does(void **)
{
    for (size_t i = 0; i < CAY_COUNT(bad_heads); i++) {
        bool refused = false;
        for (size_t len = 0; len <= bad_heads[i].bytes.len; len++) {
            /* A copy of that very size, so that the sanitizer sees a look past the end. */
            cay_autofree char *copy = cay_alloc(len ? len : 1);
            memcpy(copy, bad_heads[i].bytes.ptr, len);
            const struct parsed *got = parse((struct cay_str){copy, len});
            assert_true(got->len <= 0);
            assert_false(refused && got->len == 0);
            refused = got->len < 0;
        }
        assert_true(refused);
    }
    for (size_t i = 0; i < CAY_COUNT(good_fields); i++) {
        char bytes[512];
        size_t total = (size_t)snprintf(bytes, sizeof(bytes), "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n",
                                        good_fields[i].fields);
        for (size_t len = 0; len < total; len++) {
            cay_autofree char *copy = cay_alloc(len ? len : 1);
            memcpy(copy, bytes, len);
            assert_int_equal(parse((struct cay_str){copy, len})->len, 0);
        }
        assert_int_equal(parse((struct cay_str){bytes, total})->len, total);
    }
}

static void one_empty_line_before_a_request_is_forgiven(void **)
{
    const struct parsed *got = parse(CAY_STR("\r\n" H "\r\nrest"));
    assert_int_equal(got->len, sizeof("\r\n" H "\r\n") - 1);
    assert_int_equal(parse(CAY_STR("\r"))->len, 0);
    assert_int_equal(parse(CAY_STR("\r\n"))->len, 0);
}

static void version_1_0_closes_unless_asked(void **)
{
    assert_true(parse(CAY_STR("GET / HTTP/1.0\r\n\r\n"))->len > 0);
    assert_false(parse(CAY_STR("GET / HTTP/1.0\r\n\r\n"))->head.keep_alive);
    assert_true(
        parse(CAY_STR("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"))->head.keep_alive);
    assert_false(
        parse(CAY_STR("GET / HTTP/1.0\r\nConnection: close\r\nConnection: keep-alive\r\n\r\n"))
            ->head.keep_alive);
    assert_false(
        parse(CAY_STR("GET / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"))
            ->head.expects_continue);
}

static void the_number_of_fields_is_bounded(void **)
{
    char bytes[1024] = "GET / HTTP/1.1\r\nHost: a\r\n";
    size_t len = strlen(bytes);
    for (size_t count = 1; count <= FIELDS_MAX + 1; count++) {
        memcpy(bytes + len, "\r\n", 2);
        const struct parsed *got = parse((struct cay_str){bytes, len + 2});
        assert_int_equal(got->len<0, count> FIELDS_MAX);
        assert_true(got->len > 0 || got->fault.status == 431);
        memcpy(bytes + len, "X: y\r\n", 6);
        len += 6;
    }
}

static void the_size_of_the_head_is_bounded_to_the_byte(void **)
{
    for (size_t total = HEAD_BYTES_MAX - 1; total <= HEAD_BYTES_MAX + 1; total++) {
        cay_autofree char *bytes = cay_alloc(total);
        memset(bytes, 'x', total);
        memcpy(bytes, H "X:", sizeof(H "X:") - 1);
        bool is_too_long = total > HEAD_BYTES_MAX;
        const struct parsed *got = parse((struct cay_str){bytes, total});
        assert_int_equal(got->len, is_too_long ? -1 : 0);
        memcpy(bytes + total - 4, "\r\n\r\n", 4);
        got = parse((struct cay_str){bytes, total});
        assert_int_equal(got->len, is_too_long ? -1 : (ssize_t)total);
        if (is_too_long)
            assert_int_equal(got->fault.status, 431);
    }
}

static void the_size_of_the_target_is_bounded_to_the_byte(void **)
{
    static const char tail[] = " HTTP/1.1\r\nHost: a\r\n\r\n";
    for (size_t target = 8191; target <= 8193; target++) {
        size_t total = 4 + target + sizeof(tail) - 1;
        cay_autofree char *bytes = cay_alloc(total);
        memset(bytes, '/', total);
        memcpy(bytes, "GET ", 4);
        memcpy(bytes + 4 + target, tail, sizeof(tail) - 1);
        const struct parsed *got = parse((struct cay_str){bytes, total});
        assert_int_equal(got->len, target > 8192 ? -1 : (ssize_t)total);
        if (target > 8192)
            assert_int_equal(got->fault.status, 414);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_request_is_taken_apart),
        cmocka_unit_test(fields_that_frame_the_body_are_understood),
        cmocka_unit_test(targets_are_paths_or_absolute),
        cmocka_unit_test(what_is_not_in_the_grammar_is_refused),
        cmocka_unit_test(byte_by_byte_ends_as_the_whole_does),
        cmocka_unit_test(one_empty_line_before_a_request_is_forgiven),
        cmocka_unit_test(version_1_0_closes_unless_asked),
        cmocka_unit_test(the_number_of_fields_is_bounded),
        cmocka_unit_test(the_size_of_the_head_is_bounded_to_the_byte),
        cmocka_unit_test(the_size_of_the_target_is_bounded_to_the_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "wire/http1.h"

/* Feeds `bytes` in pieces of `piece`; how many were used up to the end of the body, 0 when it is
 * not over, -EBADMSG. The body goes to `out`. */
static ssize_t decode(struct cay_str bytes, size_t piece, struct cay_buf *out)
{
    struct cay_http1_chunks chunks = {};
    size_t used = 0;
    while (used < bytes.len) {
        size_t len = CAY_MIN(piece, bytes.len - used);
        cay_autofree char *copy = cay_alloc(len);
        memcpy(copy, bytes.ptr + used, len);
        struct cay_str data;
        bool is_end = false;
        ssize_t got = cay_http1_chunks_feed(&chunks, copy, len, &data, &is_end);
        if (got < 0)
            return got;
        assert_true(got >= 1 && (size_t)got <= len);
        assert_true(!data.len || (data.ptr >= copy && data.ptr + data.len <= copy + got));
        cay_buf_append_str(out, data);
        used += (size_t)got;
        if (is_end)
            return (ssize_t)used;
    }
    return 0;
}

#define EXTENSION_32 "abcdefghijklmnopqrstuvwxyz012345"
#define EXTENSION_255                                                                          \
    EXTENSION_32 EXTENSION_32 EXTENSION_32 EXTENSION_32 EXTENSION_32 EXTENSION_32 EXTENSION_32 \
        "abcdefghijklmnopqrstuvwxyz01234"

static const struct {
    const char *bytes;
    const char *body;
    size_t left; /* bytes behind the body's end */
} good[] = {
    {"0\r\n\r\n", "", 0},
    {"0\r\n\r\nGET /", "", 5},
    {"5\r\nhello\r\n0\r\n\r\n", "hello", 0},
    {"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world", 0},
    {"00005\r\nhello\r\n000\r\n\r\n", "hello", 0},
    {"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789", 0},
    {"5;a=b;c=\"d e\"\r\nhello\r\n0;z\r\n\r\n", "hello", 0},
    {"2\r\n\r\n\r\n0\r\n\r\n", "\r\n", 0},
    {"5\r\nhello\r\n0\r\nTrailer: x\r\nOther:\r\n\r\nmore", "hello", 4},
    {"1;" EXTENSION_255 "\r\nx\r\n0\r\n\r\n", "x", 0},
    {"000000000000001\r\nx\r\n0\r\n\r\n", "x", 0},
};

static void bodies_come_out_whatever_the_pieces(void **)
{
    for (size_t i = 0; i < CAY_COUNT(good); i++) {
        struct cay_str bytes = cay_str(good[i].bytes);
        for (size_t piece = 1; piece <= bytes.len; piece++) {
            cay_auto(cay_buf_finish) struct cay_buf out;
            cay_buf_init(&out, 4096);
            assert_int_equal(decode(bytes, piece, &out), bytes.len - good[i].left);
            assert_true(cay_str_is(cay_buf_str(&out), good[i].body));
        }
    }
}

#define BAD(literal)                 \
    {                                \
        literal, sizeof(literal) - 1 \
    }

static const struct cay_str bad[] = {
    BAD("\r\n"),
    BAD("g\r\n"),
    BAD("-1\r\n"),
    BAD("+1\r\n"),
    BAD("0x1\r\n"),
    BAD(" 1\r\n"),
    BAD("1 \r\n"),
    BAD("1 ;a\r\n"),
    BAD("1\nx"),
    BAD("1\rx"),
    BAD(";a\r\n"),
    BAD("1;a\nx\r\n0\r\n\r\n"),
    BAD("1;a\rb\r\n"),
    BAD("1;a\0\r\n"),
    BAD("1\r\nxy\r\n"),
    BAD("1\r\nx\n0\r\n\r\n"),
    BAD("1\r\nx\r0\r\n\r\n"),
    BAD("1\r\nx0\r\n\r\n"),
    BAD("0000000000000001\r\n"),
    BAD("ffffffffffffffff\r\n"),
    BAD("10000000000000000\r\n"),
    BAD("1;" EXTENSION_255 "xy\r\n"),
    BAD("0\r\n\n"),
    BAD("0\r\n\rx"),
    BAD("0\n\r\n"),
    BAD("0\r\nX: a\n\r\n"),
    BAD("0\r\nX: a\rb\r\n"),
    BAD("0\r\nX: a\0\r\n"),
    BAD("0\r\nno colon\r\n\r\n"),
    BAD("0\r\nX : a\r\n\r\n"),
    BAD("0\r\n X: a\r\n\r\n"),
    BAD("0\r\n: a\r\n\r\n"),
    BAD("0\r\nX\r\n\r\n"),
};

static void what_is_not_chunked_is_refused_whatever_the_pieces(void **)
{
    for (size_t i = 0; i < CAY_COUNT(bad); i++) {
        for (size_t piece = 1; piece <= bad[i].len; piece++) {
            cay_auto(cay_buf_finish) struct cay_buf out;
            cay_buf_init(&out, 4096);
            ssize_t got = decode(bad[i], piece, &out);
            if (got != -EBADMSG)
                print_error("case %zu in pieces of %zu: %.*s\n", i, piece, (int)bad[i].len,
                            bad[i].ptr);
            assert_int_equal(got, -EBADMSG);
        }
    }
}

static void prefixes_are_never_over(void **)
{
    for (size_t i = 0; i < CAY_COUNT(good); i++) {
        struct cay_str bytes = cay_str(good[i].bytes);
        for (bytes.len -= good[i].left; bytes.len > 1;) {
            bytes.len--;
            cay_auto(cay_buf_finish) struct cay_buf out;
            cay_buf_init(&out, 4096);
            assert_int_equal(decode(bytes, bytes.len, &out), 0);
        }
    }
}

static void the_trailer_section_is_bounded(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf bytes;
    cay_auto(cay_buf_finish) struct cay_buf out;
    cay_buf_init(&bytes, 1 << 20);
    cay_buf_init(&out, 16);
    cay_buf_append_text(&bytes, "0\r\n");
    for (int i = 0; i < 2000; i++)
        cay_buf_append_text(&bytes, "X: abcdefg\r\n");
    cay_buf_append_text(&bytes, "\r\n");
    assert_int_equal(decode(cay_buf_str(&bytes), bytes.len, &out), -EBADMSG);
}

static void the_largest_chunk_is_counted_right(void **)
{
    struct cay_http1_chunks chunks = {};
    struct cay_str data;
    bool is_end = true;
    assert_int_equal(cay_http1_chunks_feed(&chunks, "fffffffffffffff\r\nab", 19, &data, &is_end),
                     19);
    assert_true(cay_str_is(data, "ab"));
    assert_false(is_end);
    assert_true(chunks.left == UINT64_C(0xfffffffffffffff) - 2);
}

static void nothing_fed_changes_nothing(void **)
{
    struct cay_http1_chunks chunks = {};
    struct cay_str data = CAY_STR("x");
    bool is_end = true;
    assert_int_equal(cay_http1_chunks_feed(&chunks, "", 0, &data, &is_end), 0);
    assert_int_equal(data.len, 0);
    assert_false(is_end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_come_out_whatever_the_pieces),
        cmocka_unit_test(what_is_not_chunked_is_refused_whatever_the_pieces),
        cmocka_unit_test(prefixes_are_never_over),
        cmocka_unit_test(the_trailer_section_is_bounded),
        cmocka_unit_test(the_largest_chunk_is_counted_right),
        cmocka_unit_test(nothing_fed_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <string.h>

#include "base/base64.h"

static const struct {
    struct cay_str bytes;
    const char *padded;
    const char *unpadded;
} pairs[] = {
    {CAY_STR(""), "", ""},
    {CAY_STR("f"), "Zg==", "Zg"},
    {CAY_STR("fo"), "Zm8=", "Zm8"},
    {CAY_STR("foo"), "Zm9v", "Zm9v"},
    {CAY_STR("foob"), "Zm9vYg==", "Zm9vYg"},
    {CAY_STR("fooba"), "Zm9vYmE=", "Zm9vYmE"},
    {CAY_STR("foobar"), "Zm9vYmFy", "Zm9vYmFy"},
    {CAY_STR("\0\xFF\xFE\xFB"), "AP/++w==", "AP/++w"},
};

static void known_pairs_go_both_ways(void **)
{
    for (size_t i = 0; i < CAY_COUNT(pairs); i++) {
        cay_auto(cay_buf_finish) struct cay_buf buf;
        char out[32];
        size_t len = 99;
        cay_buf_init(&buf, 100);
        cay_base64_append(&buf, pairs[i].bytes, true);
        assert_true(cay_str_is(cay_buf_str(&buf), pairs[i].padded));
        cay_buf_clear(&buf, 100);
        cay_base64_append(&buf, pairs[i].bytes, false);
        assert_true(cay_str_is(cay_buf_str(&buf), pairs[i].unpadded));
        assert_int_equal(cay_base64_decode(cay_str(pairs[i].padded), out, &len), 0);
        assert_true(cay_str_equal((struct cay_str){out, len}, pairs[i].bytes));
        assert_int_equal(cay_base64_decode(cay_str(pairs[i].unpadded), out, &len), 0);
        assert_true(cay_str_equal((struct cay_str){out, len}, pairs[i].bytes));
    }
}

static void the_url_safe_alphabet_is_read_too(void **)
{
    char out[8];
    size_t len = 0;
    assert_int_equal(cay_base64_decode(CAY_STR("AP_--w"), out, &len), 0);
    assert_int_equal(len, 4);
    assert_memory_equal(out, "\0\xFF\xFE\xFB", 4);
}

static void junk_is_refused(void **)
{
    static const char *const junk[] = {
        "A",     "AAAAA", "Zg=",    "Zg===", "=",  "==",  "====",       "Z===",  "Zg==Zg==",
        "Zm9v=", "Zm 9v", "Zm9v\n", "Zm9*",  "Zh", "Zm9", "\xC3\xA9ZZ", "Zg==x", "Z=g=",
    };
    for (size_t i = 0; i < CAY_COUNT(junk); i++) {
        char out[32];
        size_t len = 99;
        if (cay_base64_decode(cay_str(junk[i]), out, &len) != -EINVAL)
            fail_msg("'%s' was accepted", junk[i]);
        assert_int_equal(len, 99);
    }
}

static void every_length_survives_and_stays_in_bounds(void **)
{
    char bytes[70];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 37 + 11);
    for (size_t len = 0; len <= sizeof(bytes); len++) {
        char text[100];
        char back[100];
        size_t back_len = 0;
        size_t text_len = cay_base64_encoded_len(len, len % 2);
        memset(text, '#', sizeof(text));
        cay_base64_encode((struct cay_str){bytes, len}, len % 2, text);
        assert_int_equal(text[text_len], '#');
        assert_int_equal(cay_base64_decode((struct cay_str){text, text_len}, back, &back_len), 0);
        assert_int_equal(back_len, len);
        assert_true(back_len <= cay_base64_decoded_len_max(text_len));
        assert_memory_equal(back, bytes, len);
    }
}

static void a_full_buffer_says_so(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, 3);
    cay_base64_append(&buf, CAY_STR("f"), true);
    assert_true(buf.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_pairs_go_both_ways),
        cmocka_unit_test(the_url_safe_alphabet_is_read_too),
        cmocka_unit_test(junk_is_refused),
        cmocka_unit_test(every_length_survives_and_stays_in_bounds),
        cmocka_unit_test(a_full_buffer_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

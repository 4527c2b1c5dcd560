/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <string.h>

#include "base/utf8.h"

static const struct cay_str good[] = {
    CAY_STR(""),
    CAY_STR("plain"),
    CAY_STR("with a \0 byte"),
    CAY_STR("\x7F"),
    CAY_STR("\xC2\x80"),
    CAY_STR("\xDF\xBF"),
    CAY_STR("\xE0\xA0\x80"),
    CAY_STR("\xED\x9F\xBF"),
    CAY_STR("\xEE\x80\x80"),
    CAY_STR("\xEF\xBF\xBF"),
    CAY_STR("\xF0\x90\x80\x80"),
    CAY_STR("\xF4\x8F\xBF\xBF"),
    CAY_STR("sixteen and more characters, then \xE2\x82\xAC and more of them again"),
};

/* With what one U+FFFD for each maximal bad part makes of it. */
static const struct {
    struct cay_str text;
    struct cay_str repaired;
} bad[] = {
    {CAY_STR("\x80"), CAY_STR("\xEF\xBF\xBD")},
    {CAY_STR("\xBF"), CAY_STR("\xEF\xBF\xBD")},
    {CAY_STR("\xC0\x80"), CAY_STR("\xEF\xBF\xBD\xEF\xBF\xBD")},
    {CAY_STR("\xC1\xBF"), CAY_STR("\xEF\xBF\xBD\xEF\xBF\xBD")},
    {CAY_STR("a\xC2"), CAY_STR("a\xEF\xBF\xBD")},
    {CAY_STR("\xC2z"), CAY_STR("\xEF\xBF\xBDz")},
    {CAY_STR("\xE0\x9F\xBF"), CAY_STR("\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD")},
    {CAY_STR("\xED\xA0\x80"), CAY_STR("\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD")},
    {CAY_STR("\xE2\x82"), CAY_STR("\xEF\xBF\xBD")},
    {CAY_STR("\xE2\x82z"), CAY_STR("\xEF\xBF\xBDz")},
    {CAY_STR("\xF0\x8F\xBF\xBF"), CAY_STR("\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD")},
    {CAY_STR("\xF4\x90\x80\x80"), CAY_STR("\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD")},
    {CAY_STR("\xF0\x9F\x98"), CAY_STR("\xEF\xBF\xBD")},
    {CAY_STR("\xF5\x80"), CAY_STR("\xEF\xBF\xBD\xEF\xBF\xBD")},
    {CAY_STR("\xFF"), CAY_STR("\xEF\xBF\xBD")},
    {CAY_STR("a long plain start, then \xFE and a long plain end as well"),
     CAY_STR("a long plain start, then \xEF\xBF\xBD and a long plain end as well")},
};

static void what_is_well_formed_is_valid(void **)
{
    for (size_t i = 0; i < CAY_COUNT(good); i++) {
        assert_true(cay_utf8_valid(good[i]));
        assert_int_equal(cay_utf8_repaired_len(good[i]), good[i].len);
    }
}

static void what_is_not_is_refused_and_can_be_repaired(void **)
{
    for (size_t i = 0; i < CAY_COUNT(bad); i++) {
        char out[128];
        assert_false(cay_utf8_valid(bad[i].text));
        size_t len = cay_utf8_repaired_len(bad[i].text);
        assert_int_equal(len, bad[i].repaired.len);
        cay_utf8_repair(bad[i].text, out);
        assert_memory_equal(out, bad[i].repaired.ptr, len);
        assert_true(cay_utf8_valid((struct cay_str){out, len}));
    }
}

static void a_bad_byte_is_found_at_every_place(void **)
{
    char text[64];
    for (size_t len = 1; len <= sizeof(text); len++) {
        for (size_t at = 0; at < len; at++) {
            memset(text, 'x', sizeof(text));
            text[at] = '\x80';
            assert_false(cay_utf8_valid((struct cay_str){text, len}));
            assert_int_equal(cay_utf8_ascii_prefix((struct cay_str){text, len}), at);
        }
    }
}

static void every_character_is_put_as_one_that_is_valid(void **)
{
    for (uint32_t code = 0; code <= 0x10FFFF; code++) {
        if (code == 0xD800)
            code = 0xE000;
        char out[4];
        size_t len = cay_utf8_put(code, out);
        if (cay_utf8_step(out, len) != (int)len)
            fail_msg("U+%04X", code);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_well_formed_is_valid),
        cmocka_unit_test(what_is_not_is_refused_and_can_be_repaired),
        cmocka_unit_test(a_bad_byte_is_found_at_every_place),
        cmocka_unit_test(every_character_is_put_as_one_that_is_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

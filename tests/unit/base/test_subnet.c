/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges of addresses. */
#include "tests/unit/test.h"

#include "base/subnet.h"

static void test_subnet_texts(void **)
{
    static const char *const good[] = {"10.0.0.0/8", "0.0.0.0/0", "192.0.2.1/32", "fd00::/8",
                                       "::/0",       "::1/128",   "2000::/3"};
    static const char *const bad[] = {
        "",         "10.0.0.1/8", "10.0.0.0/33", "fd00::1/8", "10.0.0.0/",      "10.0.0.0/-1",
        "10.0.0/8", "fd00::/129", "10.0.0.0/8x", "host",      "::ffff:1.2.3/96"};
    for (size_t i = 0; i < CAY_COUNT(good); i++) {
        struct cay_subnet subnet;
        char text[CAY_SUBNET_TEXT_SIZE];
        assert_true(cay_subnet_parse(good[i], &subnet));
        cay_subnet_format(&subnet, text);
        assert_string_equal(text, good[i]);
    }
    for (size_t i = 0; i < CAY_COUNT(bad); i++) {
        struct cay_subnet subnet;
        if (cay_subnet_parse(bad[i], &subnet))
            fail_msg("taken: %s", bad[i]);
    }
    struct cay_subnet one;
    assert_true(cay_subnet_parse("192.0.2.1", &one));
    assert_int_equal(one.bits, 32);
}

static bool covers(const char *outer_text, const char *inner_text)
{
    struct cay_subnet outer;
    struct cay_subnet inner;
    assert_true(cay_subnet_parse(outer_text, &outer));
    assert_true(cay_subnet_parse(inner_text, &inner));
    return cay_subnet_covers(&outer, &inner);
}

static void test_subnet_covers(void **)
{
    assert_true(covers("10.0.0.0/8", "10.0.0.0/8"));
    assert_true(covers("10.0.0.0/8", "10.255.0.0/16"));
    assert_true(covers("0.0.0.0/0", "224.0.0.0/3"));
    assert_true(covers("fd00::/8", "fd12::/32"));
    assert_false(covers("10.0.0.0/8", "10.0.0.0/7"));
    assert_false(covers("10.0.0.0/9", "10.128.0.0/9"));
    assert_false(covers("::/0", "10.0.0.0/8"));
    assert_false(covers("10.0.0.0/8", "11.0.0.0/8"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_subnet_texts),
        cmocka_unit_test(test_subnet_covers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <ctype.h>
#include <errno.h>

#include "base/id.h"

static void made_ids_are_valid_long_enough_and_differ(void **)
{
    char last[32] = "";
    unsigned counts[256] = {};
    for (unsigned i = 0; i < 2000; i++) {
        char id[3 + CAY_ID_RANDOM_CHARS + 1];
        cay_id_make(id, sizeof(id), "sb-");
        assert_int_equal(strlen(id), 3 + CAY_ID_RANDOM_CHARS);
        assert_memory_equal(id, "sb-", 3);
        assert_true(cay_id_valid(cay_str(id)));
        assert_string_not_equal(id, last);
        for (const char *c = id + 3; *c; c++) {
            assert_true(islower((unsigned char)*c) || isdigit((unsigned char)*c));
            counts[(unsigned char)*c]++;
        }
        memcpy(last, id, sizeof(id));
    }
    /* 32000 draws over 36 letters: 889 each. A biased or missing letter falls far outside. */
    for (const char *c = "abcdefghijklmnopqrstuvwxyz0123456789"; *c; c++)
        assert_in_range(counts[(unsigned char)*c], 650, 1150);
}

static void the_rule_for_ids(void **)
{
    static const char *const good[] = {"a", "Z", "0", "turn-0001", "a.b_c-D", "a.", "a-", "1.2.3"};
    static const char *const bad[] = {"",         ".",   "..",  "-a",  "_a",   ".a",
                                      "a..b",     "a..", "a/b", "a b", "a\n",  "a\x1b[",
                                      "\xC3\xA4", "a:b", "a%",  "a\\", "a\"b", "a,"};
    for (size_t i = 0; i < CAY_COUNT(good); i++)
        assert_true(cay_id_valid(cay_str(good[i])));
    for (size_t i = 0; i < CAY_COUNT(bad); i++)
        assert_false(cay_id_valid(cay_str(bad[i])));
    assert_false(cay_id_valid((struct cay_str){"a\0b", 3}));
    char text[129];
    memset(text, 'a', sizeof(text));
    assert_true(cay_id_valid((struct cay_str){text, 128}));
    assert_false(cay_id_valid((struct cay_str){text, 129}));
}

static void random_bytes_fill_all_of_it(void **)
{
    unsigned char bytes[1000];
    unsigned char seen[sizeof(bytes)] = {};
    for (unsigned round = 0; round < 16; round++) {
        cay_random_bytes(bytes, sizeof(bytes));
        for (size_t i = 0; i < sizeof(bytes); i++)
            seen[i] |= bytes[i];
    }
    for (size_t i = 0; i < sizeof(bytes); i++)
        assert_int_not_equal(seen[i], 0);
    cay_random_bytes(bytes, 0);
}

static void hex_goes_both_ways(void **)
{
    char text[9];
    cay_hex_encode("\x00\x7f\xff\xa5", 4, text, sizeof(text));
    assert_string_equal(text, "007fffa5");
    unsigned char bytes[4];
    assert_int_equal(cay_hex_decode(CAY_STR("007FffA5"), bytes, sizeof(bytes)), 4);
    assert_memory_equal(bytes, "\x00\x7f\xff\xa5", 4);
    assert_int_equal(cay_hex_decode(CAY_STR(""), bytes, sizeof(bytes)), 0);
    assert_int_equal(cay_hex_decode(CAY_STR("0"), bytes, sizeof(bytes)), -EINVAL);
    assert_int_equal(cay_hex_decode(CAY_STR("0g"), bytes, sizeof(bytes)), -EINVAL);
    assert_int_equal(cay_hex_decode(CAY_STR("0x00"), bytes, sizeof(bytes)), -EINVAL);
    assert_int_equal(cay_hex_decode(CAY_STR("0011223344"), bytes, sizeof(bytes)), -ENOBUFS);
    cay_hex_encode("", 0, text, 1);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_ids_are_valid_long_enough_and_differ),
        cmocka_unit_test(the_rule_for_ids),
        cmocka_unit_test(random_bytes_fill_all_of_it),
        cmocka_unit_test(hex_goes_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

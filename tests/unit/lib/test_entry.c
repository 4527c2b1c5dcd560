/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/entry.h"
#include "tests/unit/test.h"

static void text_is_there_and_utf8(void **)
{
    struct cay_error err = {};
    const struct cay_pair pairs[] = {{"a", NULL}, {"b", "\xff"}};
    assert_true(cay_entry_text("x", "text", &err) && cay_entry_word(NULL, "text", &err) &&
                cay_entry_word("", "text", &err) && cay_entry_pairs(NULL, 0, "pairs", &err) &&
                cay_entry_pairs(pairs, 1, "pairs", &err));
    assert_false(
        cay_entry_text(NULL, "text", &err) || cay_entry_text("", "text", &err) ||
        cay_entry_text("\xff", "text", &err) || cay_entry_word("a\xc0\x80", "text", &err) ||
        cay_entry_pairs(NULL, 1, "pairs", &err) || cay_entry_pairs(pairs, 2, "pairs", &err));
    assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "number 2"));
}

static void ids_differ(void **)
{
    struct cay_error err = {};
    char one[64];
    char two[64];
    assert_true(cay_entry_id(one, sizeof(one), "x-", &err) &&
                cay_entry_id(two, sizeof(two), "x-", &err));
    assert_int_equal(strlen(one), 18);
    assert_string_not_equal(one, two);
    struct cay_error spare;
    assert_ptr_equal(cay_entry_error(NULL, &spare), &spare);
    assert_ptr_equal(cay_entry_error(&err, &spare), &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_there_and_utf8),
        cmocka_unit_test(ids_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

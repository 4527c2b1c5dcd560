/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <stdlib.h>

#include "cli/commands/diff.h"

static void assert_stat(int64_t added, int64_t removed, const char *expected)
{
    struct cay_v1_diff_entry entry = {
        .kind = CAY_V1_DIFF_KIND_MODIFIED,
        .path = CAY_STR("/a"),
        .lines_added = added,
        .lines_removed = removed,
    };
    char *text = NULL;
    size_t len = 0;
    struct cay_output out = {.file = open_memstream(&text, &len)};
    assert_non_null(out.file);
    cay_diff_print_stat(&out, &entry);
    fclose(out.file);
    assert_string_equal(text, expected);
    free(text);
}

#define TEN(sign) sign sign sign sign sign sign sign sign sign sign

static void a_stat_has_a_bar_of_forty_signs_at_most(void **)
{
    assert_stat(0, 0, "M\t/a\n");
    assert_stat(1, 2, "M\t/a | 3 +--\n");
    assert_stat(0, 2, "M\t/a | 2 --\n");
    assert_stat(300, 100, "M\t/a | 400 " TEN("+") TEN("+") TEN("+") TEN("-") "\n");
    assert_stat(1, 1000, "M\t/a | 1001 +" TEN("-") TEN("-") TEN("-") "---------\n");
}

static void numbers_that_no_file_has_do_no_harm(void **)
{
    const char *const whole = TEN("+") TEN("+") TEN("+") TEN("+");
    char expected[128];
    snprintf(expected, sizeof(expected), "M\t/a | 100 %s\n", whole);
    assert_stat(100, -60, expected);
    assert_stat(-100, -1, "M\t/a\n");
    assert_stat(-60, 2, "M\t/a | 2 --\n");
    snprintf(expected, sizeof(expected), "M\t/a | 281474976710656 %s\n", whole);
    assert_stat(INT64_MAX, INT64_MIN, expected);
    assert_stat(INT64_MAX, INT64_MAX,
                "M\t/a | 562949953421312 " TEN("+") TEN("+") TEN("-") TEN("-") "\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stat_has_a_bar_of_forty_signs_at_most),
        cmocka_unit_test(numbers_that_no_file_has_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

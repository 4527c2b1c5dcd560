/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "base/nearest.h"

static const char *const names[] = {"listen",   "data", "run",    "max_sessions",
                                    "rollback", "rm",   "resume", "ls"};

static void assert_nearest(const char *word, const char *want)
{
    const char *got = cay_nearest(cay_str(word), names, CAY_COUNT(names));
    if (want)
        assert_string_equal(got, want);
    else
        assert_null(got);
}

static void one_slip_of_each_kind_is_understood(void **)
{
    assert_nearest("lisen", "listen");
    assert_nearest("listten", "listen");
    assert_nearest("lizten", "listen");
    assert_nearest("lsiten", "listen");
    assert_nearest("rn", "run");
    assert_nearest("rollbakc", "rollback");
}

static void dashes_and_case_do_not_count(void **)
{
    assert_nearest("max-sessions", "max_sessions");
    assert_nearest("MAX_SESSION", "max_sessions");
    assert_nearest("LISTEN", "listen");
}

static void what_is_far_from_everything_has_no_neighbour(void **)
{
    assert_nearest("", NULL);
    assert_nearest("zzz", NULL);
    assert_nearest("ps", "ls");
    assert_nearest("xy", NULL);
    assert_nearest("frobnicate", NULL);
    char text[300];
    memset(text, 'l', sizeof(text));
    assert_null(cay_nearest((struct cay_str){text, sizeof(text)}, names, CAY_COUNT(names)));
    assert_null(cay_nearest(CAY_STR("listen"), names, 0));
}

static void an_exact_name_beats_a_near_one(void **)
{
    static const char *const close[] = {"reset", "resets", "rest"};
    assert_string_equal(cay_nearest(CAY_STR("resets"), close, 3), "resets");
    assert_string_equal(cay_nearest(CAY_STR("rest"), close, 3), "rest");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_slip_of_each_kind_is_understood),
        cmocka_unit_test(dashes_and_case_do_not_count),
        cmocka_unit_test(what_is_far_from_everything_has_no_neighbour),
        cmocka_unit_test(an_exact_name_beats_a_near_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

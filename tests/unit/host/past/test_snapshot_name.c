/* SPDX-License-Identifier: Apache-2.0 */
#include "host/past/snapshot_name.h"
#include "tests/unit/test.h"

#include <stdio.h>

#include "host/session/session.h"

static bool is_refused(const char *name, const char *why)
{
    struct cay_error err = {};
    if (cay_snapshot_name_check(cay_str(name), &err))
        return false;
    assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, why));
    return true;
}

static void numbers_that_are_taken_are_passed_over(void **)
{
    struct cay_session session = {};
    struct cay_snapshot taken = {};
    char name[CAY_ID_SIZE];
    cay_map_init(&session.snapshots_by_name);
    assert_int_equal(cay_snapshot_name_next(&session, "turn", 0, name), 1);
    assert_string_equal(name, "turn-0001");
    cay_map_put(&session.snapshots_by_name, CAY_STR("step-0008"), &taken);
    cay_map_put(&session.snapshots_by_name, CAY_STR("step-0009"), &taken);
    assert_int_equal(cay_snapshot_name_next(&session, "step", 7, name), 10);
    assert_string_equal(name, "step-0010");
    assert_int_equal(cay_snapshot_name_next(&session, CAY_SNAPSHOT_BRANCH, 9999, name), 10000);
    assert_string_equal(name, "branch-10000");
    cay_map_finish(&session.snapshots_by_name);
}

static void tool_calls_give_their_ids(void **)
{
    const int64_t when_ns = INT64_C(1798761599) * 1000000000 + 123456789;
    char name[CAY_ID_SIZE];
    char longest[200];
    cay_snapshot_name_after_tool(CAY_STR(""), when_ns, name);
    assert_string_equal(name, "tool-20261231T235959.123456Z");
    cay_snapshot_name_after_tool(CAY_STR("call/1 ..x"), when_ns, name);
    assert_string_equal(name, "tool-call_1_._x-20261231T235959.123456Z");
    assert_true(cay_snapshot_name_valid(cay_str(name)));
    memset(longest, 'x', sizeof(longest));
    cay_snapshot_name_after_tool((struct cay_str){longest, sizeof(longest)}, when_ns, name);
    assert_true(cay_snapshot_name_valid(cay_str(name)));
    assert_non_null(strstr(name, "-20261231T235959.123456Z"));
}

static void who_gives_no_name_gets_one(void **)
{
    char name[CAY_ID_SIZE];
    cay_snapshot_name_choose(CAY_STR("mine"), name);
    assert_string_equal(name, "mine");
    cay_snapshot_name_choose(CAY_STR(""), name);
    assert_ptr_equal(strstr(name, "snapshot"), name);
    assert_true(cay_snapshot_name_valid(cay_str(name)));
}

static void callers_may_not_take_names_of_the_host(void **)
{
    assert_false(is_refused("good", ""));
    assert_false(is_refused("turn", ""));
    assert_false(is_refused("baseline", ""));
    assert_true(is_refused("turn-0001", "reserved"));
    assert_true(is_refused("tool-x", "reserved"));
    assert_true(is_refused("branch-", "reserved"));
    assert_true(is_refused("base", "reserved"));
    assert_true(is_refused("", "1 to 128"));
    assert_true(is_refused("a/b", "1 to 128"));
    assert_true(is_refused("a..b", "1 to 128"));
}

static void the_base_is_no_snapshot(void **)
{
    assert_true(cay_snapshot_name_valid(CAY_STR("turn-0001")));
    assert_false(cay_snapshot_name_valid(CAY_STR("base")));
    assert_false(cay_snapshot_name_valid(CAY_STR("..")));
    assert_true(cay_snapshot_name_is_base(CAY_STR("base")));
    assert_false(cay_snapshot_name_is_base(CAY_STR("bas")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_that_are_taken_are_passed_over),
        cmocka_unit_test(tool_calls_give_their_ids),
        cmocka_unit_test(who_gives_no_name_gets_one),
        cmocka_unit_test(callers_may_not_take_names_of_the_host),
        cmocka_unit_test(the_base_is_no_snapshot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

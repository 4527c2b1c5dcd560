/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/gone.h"
#include "tests/unit/test.h"

#include <stdio.h>

static bool is_known(const struct cay_gone_table *table, const char *owner, const char *id)
{
    struct cay_caller caller = {.role = CAY_ROLE_USER};
    struct cay_error err = {};
    snprintf(caller.owner, sizeof(caller.owner), "%s", owner);
    assert_false(cay_gone_fail(table, &caller, cay_str(id), &err));
    assert_int_equal(err.reason, CAY_R_SESSION_NOT_FOUND);
    return strstr(err.text, "was destroyed") != NULL;
}

static void who_destroys_many_forgets_its_own(void **)
{
    struct cay_gone_table table = {};
    char id[16];
    cay_gone_add(&table, "mine", "few", false, "requested");
    for (int i = 0; i < 2 * CAY_GONE_MAX; i++) {
        snprintf(id, sizeof(id), "s%d", i);
        cay_gone_add(&table, id, "many", false, "requested");
    }
    assert_true(is_known(&table, "few", "mine"));
    assert_false(is_known(&table, "many", "mine"));
    assert_true(is_known(&table, "many", id));
    assert_false(is_known(&table, "many", "s0"));
    assert_int_equal(table.count, CAY_GONE_MAX);
    /* As many of two who have many. */
    for (int i = 0; i < 2 * CAY_GONE_MAX; i++)
        cay_gone_add(&table, id, i % 2 ? "one" : "other", false, "expired");
    assert_true(is_known(&table, "few", "mine"));
    assert_true(is_known(&table, "many", id));
    cay_gone_finish(&table);
}

static void an_empty_one_knows_nothing(void **)
{
    struct cay_gone_table table = {};
    assert_false(is_known(&table, "few", "mine"));
    cay_gone_finish(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_destroys_many_forgets_its_own),
        cmocka_unit_test(an_empty_one_knows_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

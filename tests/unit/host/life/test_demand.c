/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "host/life/demand.h"

enum { MIN = 1, MAX = 8 };

static size_t wanted(const struct cay_demand *demand)
{
    return cay_demand_wanted(demand, MIN, MAX);
}

static void ask(struct cay_demand *demand, size_t times)
{
    for (size_t i = 0; i < times; i++)
        cay_demand_ask(demand);
}

static void one_after_the_other_needs_one(void **)
{
    struct cay_demand demand = {};
    assert_int_equal(wanted(&demand), MIN);
    for (int i = 0; i < 100; i++) {
        cay_demand_ask(&demand);
        assert_int_equal(wanted(&demand), 1);
        cay_demand_met(&demand);
    }
}

static void as_many_are_wanted_as_came_at_once(void **)
{
    struct cay_demand demand = {};
    ask(&demand, 3);
    assert_int_equal(wanted(&demand), 3);
    cay_demand_met(&demand);
    ask(&demand, 2);
    assert_int_equal(wanted(&demand), 3);
}

static void never_more_than_allowed(void **)
{
    struct cay_demand demand = {};
    ask(&demand, 1000);
    assert_int_equal(wanted(&demand), MAX);
    assert_int_equal(cay_demand_wanted(&demand, 1, 0), 0);
    assert_int_equal(cay_demand_wanted(&(struct cay_demand){}, 1, 0), 0);
}

static void what_nobody_asks_for_is_forgotten(void **)
{
    struct cay_demand demand = {};
    ask(&demand, 8);
    cay_demand_met(&demand);
    cay_demand_look(&demand); /* it was in this while */
    assert_int_equal(wanted(&demand), 8);
    cay_demand_look(&demand);
    assert_int_equal(wanted(&demand), 6);
    for (int i = 0; i < 20; i++)
        cay_demand_look(&demand);
    assert_int_equal(demand.level, 0);
    assert_int_equal(wanted(&demand), MIN);
}

static void what_is_asked_for_again_is_not(void **)
{
    struct cay_demand demand = {};
    for (int i = 0; i < 10; i++) {
        ask(&demand, 5);
        cay_demand_met(&demand);
        cay_demand_look(&demand);
        assert_int_equal(wanted(&demand), 5);
    }
}

static void a_machine_short_of_memory_spares_none(void **)
{
    assert_true(cay_demand_is_affordable(1000, 8000));
    assert_true(cay_demand_is_affordable(500, 8000));
    assert_false(cay_demand_is_affordable(499, 8000));
    assert_true(cay_demand_is_affordable(0, 0)); /* it does not tell */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_after_the_other_needs_one),
        cmocka_unit_test(as_many_are_wanted_as_came_at_once),
        cmocka_unit_test(never_more_than_allowed),
        cmocka_unit_test(what_nobody_asks_for_is_forgotten),
        cmocka_unit_test(what_is_asked_for_again_is_not),
        cmocka_unit_test(a_machine_short_of_memory_spares_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

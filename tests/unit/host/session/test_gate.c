/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/gate.h"
#include "tests/unit/test.h"

struct visitor {
    struct cay_gate_ticket ticket; /* first */
    int place;                     /* in the order of passing, from 1; 0: not yet */
    struct cay_gate *leaves;       /* at once, in `passed`; NULL: it stays */
};

static int passed_count;

static void passed(struct cay_gate_ticket *ticket)
{
    struct visitor *self = (struct visitor *)ticket;
    self->place = ++passed_count;
    if (self->leaves)
        cay_gate_leave(self->leaves, ticket);
}

static int setup(void **state)
{
    static struct cay_gate gate;
    cay_gate_init(&gate);
    passed_count = 0;
    *state = &gate;
    return 0;
}

static void enter(struct cay_gate *gate, struct visitor *visitor, bool is_alone)
{
    cay_gate_enter(gate, &visitor->ticket, is_alone, passed);
}

static void those_who_like_company_pass_together(void **state)
{
    struct cay_gate *gate = *state;
    struct visitor a = {}, b = {};
    enter(gate, &a, false);
    enter(gate, &b, false);
    assert_int_equal(a.place, 1);
    assert_int_equal(b.place, 2);
    cay_gate_leave(gate, &b.ticket);
    cay_gate_leave(gate, &a.ticket);
    assert_int_equal(gate->inside, 0);
}

static void who_wants_to_be_alone_is(void **state)
{
    struct cay_gate *gate = *state;
    struct visitor a = {}, b = {}, alone = {}, later = {};
    enter(gate, &a, false);
    enter(gate, &b, false);
    enter(gate, &alone, true);
    enter(gate, &later, false);
    cay_gate_leave(gate, &a.ticket);
    assert_int_equal(alone.place, 0);
    cay_gate_leave(gate, &b.ticket);
    assert_int_equal(alone.place, 3);
    assert_int_equal(later.place, 0);
    cay_gate_leave(gate, &alone.ticket);
    assert_int_equal(later.place, 4);
}

static void nobody_overtakes_one_who_waits(void **state)
{
    struct cay_gate *gate = *state;
    struct visitor inside = {}, first = {}, second = {}, third = {};
    enter(gate, &inside, false);
    enter(gate, &first, true);
    enter(gate, &second, false); /* who could have joined the one inside */
    enter(gate, &third, true);
    assert_int_equal(passed_count, 1);
    cay_gate_leave(gate, &inside.ticket);
    assert_int_equal(first.place, 2);
    cay_gate_leave(gate, &first.ticket);
    assert_int_equal(second.place, 3);
    assert_int_equal(third.place, 0);
    cay_gate_leave(gate, &second.ticket);
    assert_int_equal(third.place, 4);
}

static void who_gives_up_lets_those_behind_pass(void **state)
{
    struct cay_gate *gate = *state;
    struct visitor inside = {}, first = {}, second = {};
    enter(gate, &inside, false);
    enter(gate, &first, true);
    enter(gate, &second, false);
    cay_gate_quit(gate, &first.ticket);
    assert_int_equal(first.place, 0);
    assert_int_equal(second.place, 2);
    cay_gate_leave(gate, &inside.ticket);
    cay_gate_leave(gate, &second.ticket);
    assert_int_equal(gate->inside, 0);
}

static void who_leaves_at_once_holds_up_nobody(void **state)
{
    struct cay_gate *gate = *state;
    struct visitor inside = {};
    struct visitor waiting[8] = {};
    enter(gate, &inside, true);
    for (int i = 0; i < 8; i++) {
        waiting[i].leaves = gate;
        enter(gate, &waiting[i], i % 2 == 0);
    }
    cay_gate_leave(gate, &inside.ticket);
    for (int i = 0; i < 8; i++)
        assert_int_equal(waiting[i].place, i + 2);
    assert_int_equal(gate->inside, 0);
    assert_true(cay_list_empty(&gate->queue));
}

#define CASE(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(those_who_like_company_pass_together), CASE(who_wants_to_be_alone_is),
        CASE(nobody_overtakes_one_who_waits),       CASE(who_gives_up_lets_those_behind_pass),
        CASE(who_leaves_at_once_holds_up_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

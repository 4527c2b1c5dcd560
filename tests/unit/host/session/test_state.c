/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "host/session/state.h"

/* Every pair of a state and a verb is a decision that somebody took. */
static void every_cell_is_filled(void **)
{
    for (int state = 1; state < CAY_SESSION_STATES; state++) {
        assert_non_null(cay_session_state_name((enum cay_session_state)state));
        for (int verb = 1; verb < CAY_SESSION_VERBS; verb++) {
            const struct cay_session_cell *cell =
                cay_session_cell((enum cay_session_state)state, (enum cay_session_verb)verb);
            assert_non_null(cay_session_verb_name((enum cay_session_verb)verb));
            assert_in_range(cell->next, 1, CAY_SESSION_STATES - 1);
            if (cell->refusal)
                assert_int_equal(cell->next, state); /* what is refused changes nothing */
        }
    }
}

static void only_what_is_there_can_be_exported(void **)
{
    static const bool allowed[CAY_SESSION_STATES] = {
        [CAY_SESSION_ACTIVE] = true, [CAY_SESSION_PAUSED] = true, [CAY_SESSION_FAILED] = true};
    for (int state = 1; state < CAY_SESSION_STATES; state++) {
        const struct cay_session_cell *cell =
            cay_session_cell((enum cay_session_state)state, CAY_VERB_EXPORT);
        assert_int_equal(!cell->refusal, allowed[state]);
        assert_int_equal(cell->next, state);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cell_is_filled),
        cmocka_unit_test(only_what_is_there_can_be_exported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/op.h"
#include "tests/unit/test.h"

#include <unistd.h>

#include "base/stop.h"
#include "host/session/host.h"
#include "io/loop_internal.h"
#include "io/worker.h"

/* What happened, in order: "b" begin, "r" ready, "w" work, "e" end, with the operation's letter. */
static char trace[128];
static bool is_quiet;
static unsigned kill_count;

struct step {
    struct cay_op op; /* first */
    char letter;
    enum cay_reason refuses_at_begin, refuses_at_work;
    bool kills;
    bool stays; /* end does not leave the gate */
    bool waits_for_stop;
};

static void note(const struct step *self, char what)
{
    size_t len = strlen(trace);
    assert_in_range(len, 0, sizeof(trace) - 5);
    snprintf(trace + len, sizeof(trace) - len, "%s%c%c", len ? " " : "", self->letter, what);
}

static bool begin(struct cay_op *op, struct cay_error *err)
{
    struct step *self = (struct step *)op;
    note(self, 'b');
    op->kills = self->kills;
    return !self->refuses_at_begin || cay_fail(err, self->refuses_at_begin, NULL);
}

static bool ready(struct cay_op *op, struct cay_error *)
{
    note((struct step *)op, 'r');
    return true;
}

static atomic_bool
    may_work; /* workers wait for it: what is asserted before cannot depend on them */

static bool work(struct cay_op *op, struct cay_error *err)
{
    struct step *self = (struct step *)op;
    while (!atomic_load(&may_work))
        usleep(100);
    note(self, 'w');
    if (!self->waits_for_stop)
        return !self->refuses_at_work || cay_fail(err, self->refuses_at_work, NULL);
    cay_op_watch(op);
    while (!cay_stop_asked())
        usleep(1000);
    return cay_op_unwatch(op, cay_fail(err, CAY_R_CANCELED, NULL), err);
}

static void end(struct cay_op *op)
{
    struct step *self = (struct step *)op;
    note(self, 'e');
    if (!self->stays)
        cay_op_leave(op);
}

static const struct cay_op_steps steps = {.begin = begin, .ready = ready, .work = work, .end = end};
static const struct cay_op_steps steps_of_loop = {.begin = begin, .end = end};
static const struct cay_op_steps steps_of_look = {.work = work, .end = end, .ends_with_call = true};

static bool tell_quiet(const struct cay_session *)
{
    return is_quiet;
}

static void count_kill(struct cay_session *, enum cay_v1_end_cause)
{
    kill_count++;
}

static const struct cay_session_part part = {.is_quiet = tell_quiet, .kill = count_kill};
static const struct cay_session_part *const parts[] = {&part, NULL};

static struct cay_session *session;

static int setup(void **state)
{
    static struct cay_v1_resource_limits limits;
    const struct cay_v1_session spec = {.limits = &limits};
    struct cay_host *host = cay_new(struct cay_host);
    assert_int_equal(cay_loop_create(&host->loop), 0);
    host->parts = parts;
    cay_sessions_init(&host->sessions);
    session = cay_session_new(host, "one", "me");
    cay_session_set_spec(session, &spec);
    session->state = CAY_SESSION_ACTIVE;
    trace[0] = '\0';
    atomic_store(&may_work, true);
    is_quiet = true;
    kill_count = 0;
    *state = host;
    return 0;
}

static int teardown(void **state)
{
    struct cay_host *host = *state;
    cay_loop_finish_jobs(host->loop);
    assert_int_equal(session->ref_count, 0);
    assert_int_equal(session->gate.inside, 0);
    cay_sessions_finish(&host->sessions);
    cay_loop_destroy(host->loop);
    free(host);
    return 0;
}

/* Turns of the loop with whatever workers do, and no waiting for timers. */
static void turn(struct cay_host *host)
{
    uv_ref((uv_handle_t *)&host->loop->wake); /* as cay_loop_run does: else it does not look */
    for (int i = 0; i < 8; i++) {
        cay_workers_wait(host->loop->workers);
        uv_run(&host->loop->uv, UV_RUN_NOWAIT);
    }
    uv_unref((uv_handle_t *)&host->loop->wake);
}

/* Until that has happened; timers may be waited for. */
static void run_until(struct cay_host *host, const char *happened)
{
    for (int i = 0; i < 1000 && strcmp(trace, happened) != 0; i++) {
        turn(host);
        usleep(1000);
    }
    assert_string_equal(trace, happened);
}

static void start(struct step *step, enum cay_session_verb verb, bool is_alone)
{
    cay_op_start_on(&step->op, session, NULL, verb, is_alone, &steps);
}

static void steps_come_in_order(void **state)
{
    struct step a = {.letter = 'a'};
    atomic_store(&may_work, false);
    start(&a, CAY_VERB_SNAPSHOT, true);
    assert_string_equal(trace, "ab ar"); /* the rest is a worker's */
    atomic_store(&may_work, true);
    turn(*state);
    assert_string_equal(trace, "ab ar aw ae");
    assert_true(a.op.is_done);
}

static void what_does_not_block_ends_at_once(void **)
{
    struct step a = {.letter = 'a'};
    cay_op_start_on(&a.op, session, NULL, CAY_VERB_UPDATE, true, &steps_of_loop);
    assert_string_equal(trace, "ab ae");
    assert_true(a.op.is_done);
}

static void a_failure_skips_what_comes_after_it(void **state)
{
    struct step a = {.letter = 'a', .refuses_at_begin = CAY_R_NO_SPACE};
    struct step b = {.letter = 'b', .refuses_at_work = CAY_R_STORE_FAILED};
    start(&a, CAY_VERB_SNAPSHOT, true);
    assert_string_equal(trace, "ab ae");
    assert_int_equal(a.op.err.reason, CAY_R_NO_SPACE);
    start(&b, CAY_VERB_SNAPSHOT, true);
    turn(*state);
    assert_string_equal(trace, "ab ae bb br bw be");
    assert_int_equal(b.op.err.reason, CAY_R_STORE_FAILED);
    assert_false(a.op.is_done || b.op.is_done);
}

static void the_state_is_asked_before_the_gate_and_behind_it(void **state)
{
    struct cay_host *host = *state;
    struct cay_call call = {.caller = {.owner = "me", .role = CAY_ROLE_USER}};
    struct step a = {.letter = 'a', .stays = true};
    struct step b = {.letter = 'b'};
    struct step c = {.letter = 'c'};
    cay_op_start_on(&a.op, session, NULL, CAY_VERB_PAUSE, true, &steps_of_loop);
    cay_op_start(&b.op, host, &call, CAY_STR("one"), CAY_VERB_ROLLBACK, true, &steps);
    assert_string_equal(trace, "ab ae"); /* allowed by the table, it waits */
    session->state = CAY_SESSION_PAUSED;
    cay_op_leave(&a.op);
    assert_string_equal(trace, "ab ae be");
    assert_int_equal(b.op.err.reason, CAY_R_SESSION_PAUSED);
    assert_string_equal(b.op.err.facts, "session_id");
    cay_op_start(&c.op, host, &call, CAY_STR("one"), CAY_VERB_ROLLBACK, true, &steps);
    assert_string_equal(trace, "ab ae be ce");
    assert_int_equal(c.op.err.reason, CAY_R_SESSION_PAUSED);
    assert_false(c.op.is_inside);
}

static void what_another_owner_has_is_not_there(void **state)
{
    struct cay_call call = {.caller = {.owner = "you", .role = CAY_ROLE_USER}};
    struct step a = {.letter = 'a'};
    cay_op_start(&a.op, *state, &call, CAY_STR("one"), CAY_VERB_SNAPSHOT, true, &steps);
    assert_string_equal(trace, "ae");
    assert_int_equal(a.op.err.reason, CAY_R_SESSION_NOT_FOUND);
}

static void one_that_is_alone_lets_the_next_in_when_it_leaves(void **state)
{
    struct step a = {.letter = 'a'};
    struct step b = {.letter = 'b'};
    atomic_store(&may_work, false);
    start(&a, CAY_VERB_SNAPSHOT, true);
    start(&b, CAY_VERB_SNAPSHOT, true);
    assert_string_equal(trace, "ab ar");
    atomic_store(&may_work, true);
    turn(*state);
    assert_string_equal(trace, "ab ar aw ae bb br bw be");
}

static void tools_are_waited_for(void **state)
{
    struct step a = {.letter = 'a'};
    a.op.drain = (struct cay_drain){.is_wanted = true, .limit_ms = 60'000};
    session->tools_in_flight = 2;
    start(&a, CAY_VERB_SNAPSHOT, true);
    session->tools_in_flight = 1;
    cay_op_poke(session);
    turn(*state);
    assert_string_equal(trace, "");
    session->tools_in_flight = 0;
    cay_op_poke(session);
    run_until(*state, "ab ar aw ae");
    assert_true(a.op.is_done);
}

static void tools_that_take_too_long_end_the_wait(void **state)
{
    struct step a = {.letter = 'a'};
    struct step b = {.letter = 'b'};
    struct step c = {.letter = 'c'};
    session->tools_in_flight = 1;
    a.op.drain = (struct cay_drain){.is_wanted = true}; /* no time at all */
    start(&a, CAY_VERB_ROLLBACK, true);
    assert_string_equal(trace, "ae");
    assert_int_equal(a.op.err.reason, CAY_R_TOOLS_IN_FLIGHT);
    assert_non_null(strstr(a.op.err.text, "kill_tools"));
    b.op.drain = (struct cay_drain){.is_wanted = true, .limit_ms = 5};
    start(&b, CAY_VERB_SNAPSHOT, true);
    run_until(*state, "ae be");
    assert_int_equal(b.op.err.reason, CAY_R_TOOLS_IN_FLIGHT);
    assert_null(strstr(b.op.err.text, "kill_tools"));
    c.op.drain = (struct cay_drain){.is_wanted = true, .limit_ms = 5, .goes_on = true};
    start(&c, CAY_VERB_SNAPSHOT, true);
    run_until(*state, "ae be cb cr cw ce");
    assert_true(c.op.is_done);
}

static void who_waits_at_the_gate_for_tools_gives_up_there(void **state)
{
    struct step inside = {.letter = 'i', .stays = true};
    struct step a = {.letter = 'a'};
    cay_op_start_on(&inside.op, session, NULL, CAY_VERB_UPDATE, true, &steps_of_loop);
    session->tools_in_flight = 1;
    a.op.drain = (struct cay_drain){.is_wanted = true, .limit_ms = 5};
    start(&a, CAY_VERB_SNAPSHOT, true);
    run_until(*state, "ib ie ae");
    assert_int_equal(a.op.err.reason, CAY_R_TOOLS_IN_FLIGHT);
    cay_op_leave(&inside.op);
}

static void what_runs_is_killed_and_waited_for(void **state)
{
    struct step a = {.letter = 'a', .kills = true};
    is_quiet = false;
    start(&a, CAY_VERB_ROLLBACK, true);
    turn(*state);
    assert_string_equal(trace, "ab");
    assert_int_equal(kill_count, 1);
    is_quiet = true;
    cay_op_poke(session);
    run_until(*state, "ab ar aw ae");
}

static void nobody_waits_for_a_daemon_that_ends(void **state)
{
    struct cay_host *host = *state;
    struct step a = {.letter = 'a'};
    struct step b = {.letter = 'b'};
    a.op.drain = b.op.drain = (struct cay_drain){.is_wanted = true, .limit_ms = 60'000};
    session->tools_in_flight = 1;
    start(&a, CAY_VERB_SNAPSHOT, true);
    atomic_store(&host->is_stopping, true);
    cay_op_wait_no_longer(session);
    assert_string_equal(trace, "ae");
    start(&b, CAY_VERB_SNAPSHOT, true);
    assert_string_equal(trace, "ae be");
    assert_int_equal(a.op.err.reason, CAY_R_UNAVAILABLE);
    assert_int_equal(b.op.err.reason, CAY_R_UNAVAILABLE);
}

static void work_without_effects_is_not_begun_for_who_left(void **state)
{
    struct cay_call call = {.caller = {.owner = "me"}, .is_cancelled = true};
    struct step a = {.letter = 'a'};
    cay_op_start_on(&a.op, session, &call, CAY_VERB_LOOK, false, &steps_of_look);
    turn(*state);
    assert_string_equal(trace, "ae");
    assert_int_equal(a.op.err.reason, CAY_R_CANCELED);
}

static void the_end_of_a_session_cuts_long_work_short(void **state)
{
    struct step a = {.letter = 'a', .waits_for_stop = true};
    struct step b = {.letter = 'b'};
    start(&a, CAY_VERB_SNAPSHOT, true);
    start(&b, CAY_VERB_DESTROY, true); /* it waits at the gate, and yet is heard */
    turn(*state);
    assert_string_equal(trace, "ab ar aw ae bb br bw be");
    assert_int_equal(a.op.err.reason, CAY_R_SESSION_DESTROYING);
    assert_true(b.op.is_done);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(steps_come_in_order),
        CASE(what_does_not_block_ends_at_once),
        CASE(a_failure_skips_what_comes_after_it),
        CASE(the_state_is_asked_before_the_gate_and_behind_it),
        CASE(what_another_owner_has_is_not_there),
        CASE(one_that_is_alone_lets_the_next_in_when_it_leaves),
        CASE(tools_are_waited_for),
        CASE(tools_that_take_too_long_end_the_wait),
        CASE(who_waits_at_the_gate_for_tools_gives_up_there),
        CASE(what_runs_is_killed_and_waited_for),
        CASE(nobody_waits_for_a_daemon_that_ends),
        CASE(work_without_effects_is_not_begun_for_who_left),
        CASE(the_end_of_a_session_cuts_long_work_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

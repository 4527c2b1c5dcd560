/* SPDX-License-Identifier: Apache-2.0 */
/* The exec contract, a test per sentence, over every runtime. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/conform/runtime_fixture.h"

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void the_exit_code_is_the_commands(void **)
{
    struct driver *driver = &fixture.driver;
    const struct driver_call *call =
        driver_run(driver, &(struct driver_exec){.args = ARGS("true")});
    assert_non_null(call);
    assert_int_equal(call->exit.cause, CAY_CAUSE_EXITED);
    assert_int_equal(call->exit.code, 0);
    call = driver_run(driver, &(struct driver_exec){.args = ARGS("false")});
    assert_non_null(call);
    assert_int_equal(call->exit.code, 1);
    if (!cay_runtime_can(fixture.runtime, CAY_RUNTIME_RUNS_PROGRAMS))
        return;
    assert_int_equal(run_script("exit 42")->exit.code, 42);
}

static void output_is_returned_and_the_streams_are_told_apart(void **)
{
    struct driver *driver = &fixture.driver;
    struct driver_call *call =
        driver_run(driver, &(struct driver_exec){.args = ARGS("echo", "hello", "world")});
    assert_non_null(call);
    assert_string_equal(driver_text(&call->out), "hello world\n");
    assert_int_equal(call->exit.end_offset, 12);
    assert_int_equal(call->exit.stdout_bytes, 12);
    if (!cay_runtime_can(fixture.runtime, CAY_RUNTIME_RUNS_PROGRAMS))
        return;
    call = run_script("echo a; sleep 0.03; echo b >&2; sleep 0.03; echo c");
    assert_string_equal(driver_text(&call->out), "a\nc\n");
    assert_string_equal(driver_text(&call->err), "b\n");
    assert_string_equal(driver_text(&call->both), "a\nb\nc\n");
    assert_int_equal(call->exit.stdout_bytes, 4);
}

static void a_command_that_is_not_there_says_so(void **)
{
    const struct driver_call *call = driver_run(
        &fixture.driver, &(struct driver_exec){.args = ARGS("no-such-command-anywhere")});
    assert_non_null(call);
    assert_int_equal(call->exit.cause, CAY_CAUSE_FAILED);
    assert_int_equal(call->exit.stage, CAY_STAGE_EXEC);
    assert_int_equal(call->exit.code, ENOENT);
    if (!cay_runtime_can(fixture.runtime, CAY_RUNTIME_RUNS_PROGRAMS))
        return;
    call = driver_run(&fixture.driver, &(struct driver_exec){.args = ARGS("/etc/passwd")});
    assert_non_null(call);
    assert_int_equal(call->exit.code, EACCES);
}

static void a_wrong_working_directory_says_so(void **)
{
    fixture_needs(CAY_RUNTIME_RUNS_PROGRAMS);
    static const char *const wrong[] = {"/nowhere", "/proc/self/fd/3", "/proc/1/cwd"};
    for (size_t i = 0; i < CAY_COUNT(wrong); i++) {
        const struct driver_call *call = driver_run(
            &fixture.driver, &(struct driver_exec){.args = ARGS("true"), .cwd = wrong[i]});
        assert_non_null(call);
        assert_int_equal(call->exit.cause, CAY_CAUSE_FAILED);
        assert_int_equal(call->exit.stage, CAY_STAGE_CWD);
    }
    struct driver_call *call =
        driver_run(&fixture.driver, &(struct driver_exec){.script = "pwd", .cwd = "/workspace"});
    assert_non_null(call);
    assert_non_null(strstr(driver_text(&call->out), "/workspace\n"));
}

static void the_environment_is_exactly_what_was_given(void **)
{
    fixture_needs(CAY_RUNTIME_RUNS_PROGRAMS);
    struct driver_call *call = driver_run(
        &fixture.driver, &(struct driver_exec){.args = ARGS("/bin/cat", "/proc/self/environ"),
                                               .env = ARGS("A=b", "EMPTY=")});
    assert_non_null(call);
    assert_int_equal(call->out.len, 11);
    assert_memory_equal(call->out.data, "A=b\0EMPTY=", 11);
}

static void the_caller_hears_of_the_end_at_once_even_if_grandchildren_hold_the_pipes(void **)
{
    fixture_needs(CAY_RUNTIME_RUNS_PROGRAMS);
    struct driver *driver = &fixture.driver;
    (void)run_script("true");
    int64_t before_ms = driver_now_ms();
    struct driver_call *call =
        driver_start(driver, &(struct driver_exec){.script = "sleep 60 & echo hi"});
    assert_non_null(call);
    assert_true(driver_until(driver, &call->exited, 5000));
    assert_in_range(driver_now_ms() - before_ms, 0, 50);
    assert_int_equal(call->exit.cause, CAY_CAUSE_EXITED);
    assert_string_equal(driver_text(&call->out), "hi\n");

    /* Leftovers are reported, can be listed and killed. */
    assert_int_equal(call->exit.leftovers, 1);
    assert_true(cay_link_list_procs(driver->link, call->id, &driver->error));
    assert_true(driver_until(driver, &call->has_procs, 2000));
    assert_int_equal(call->procs.count, 1);
    assert_true(cay_link_signal(driver->link, call->id, SIGKILL, CAY_TARGET_TREE, &driver->error));
    assert_true(driver_until(driver, &call->gone, 2000));
    assert_int_equal(call->refused, 0);
}

static void a_grandchild_that_keeps_writing_does_not_hold_the_end(void **)
{
    fixture_needs(CAY_RUNTIME_RUNS_PROGRAMS);
    struct driver *driver = &fixture.driver;
    int64_t before_ms = driver_now_ms();
    struct driver_call *call =
        driver_start(driver, &(struct driver_exec){.script = "yes & sleep 0.05; exit 3"});
    assert_non_null(call);
    assert_true(driver_until(driver, &call->exited, 5000));
    assert_in_range(driver_now_ms() - before_ms, 0, 2000); /* it would write for ever */
    assert_int_equal(call->exit.code, 3);
    assert_int_equal(call->exit.leftovers, 1);
    assert_true(cay_link_signal(driver->link, call->id, SIGKILL, CAY_TARGET_TREE, &driver->error));
    assert_true(driver_until(driver, &call->gone, 5000));
}

static void leftovers_are_killed_with_the_call_by_option(void **)
{
    fixture_needs(CAY_RUNTIME_RUNS_PROGRAMS);
    struct driver_call *call =
        driver_run(&fixture.driver,
                   &(struct driver_exec){.script = "setsid sleep 61 & setsid sleep 61 & echo x",
                                         .flags = CAY_EXEC_KILL_LEFTOVERS});
    assert_non_null(call);
    assert_int_equal(call->exit.leftovers, 0);
    call = run_script("for i in $(seq 100); do ps 2>/dev/null | grep -q '[s]leep 61' || exit 0; "
                      "sleep 0.01; done; exit 1");
    assert_int_equal(call->exit.code, 0);
}

static void leftovers_live_on_after_the_call_is_released(void **)
{
    fixture_needs(CAY_RUNTIME_RUNS_PROGRAMS);
    struct driver *driver = &fixture.driver;
    struct driver_call *call = driver_run(
        driver, &(struct driver_exec){
                    .script = "(while true; do echo noise; sleep 0.001; done) & echo $!"});
    assert_non_null(call);
    assert_int_equal(call->exit.leftovers > 0, true);
    char script[128];
    snprintf(script, sizeof(script), "sleep 0.1; kill -0 %d",
             (int)strtol(driver_text(&call->out), NULL, 10));
    struct driver_call *look = run_script(script);
    assert_int_equal(look->exit.code, 0);
    assert_true(cay_link_signal(driver->link, call->id, SIGKILL, CAY_TARGET_TREE, &driver->error));
    assert_true(driver_until(driver, &call->gone, 2000));
}

static void a_wall_timeout_kills_the_whole_tree_and_returns_the_partial_output(void **)
{
    struct driver *driver = &fixture.driver;
    const struct driver_call *slept =
        driver_run(driver, &(struct driver_exec){.args = ARGS("sleep", "30"), .wall_ms = 50});
    assert_non_null(slept);
    assert_int_equal(slept->exit.cause, CAY_CAUSE_WALL);
    if (!cay_runtime_can(fixture.runtime, CAY_RUNTIME_RUNS_PROGRAMS))
        return;
    int64_t before_ms = driver_now_ms();
    struct driver_call *call = driver_run(
        driver, &(struct driver_exec){
                    .script = "echo partial; setsid sh -c 'sleep 62' & (sleep 62 &) ; sleep 62",
                    .wall_ms = 150});
    assert_non_null(call);
    assert_in_range(driver_now_ms() - before_ms, 150, 1500);
    assert_int_equal(call->exit.cause, CAY_CAUSE_WALL);
    assert_int_equal(call->exit.signal, SIGKILL);
    assert_string_equal(driver_text(&call->out), "partial\n");
    call = run_script("for i in $(seq 100); do ps 2>/dev/null | grep -q '[s]leep 62' || exit 0; "
                      "sleep 0.01; done; exit 1");
    assert_int_equal(call->exit.code, 0);
}

static void a_no_output_timeout_is_told_apart_and_output_puts_it_off(void **)
{
    fixture_needs(CAY_RUNTIME_RUNS_PROGRAMS);
    struct driver_call *call =
        driver_run(&fixture.driver,
                   &(struct driver_exec){
                       .script = "for i in 1 2 3 4 5 6 7; do echo $i; sleep 0.1; done; sleep 30",
                       .quiet_ms = 450}); /* in all it takes longer */
    assert_non_null(call);
    assert_int_equal(call->exit.cause, CAY_CAUSE_QUIET);
    assert_string_equal(driver_text(&call->out), "1\n2\n3\n4\n5\n6\n7\n");
}

static void output_is_streamed_as_it_comes(void **)
{
    fixture_needs(CAY_RUNTIME_RUNS_PROGRAMS);
    struct driver *driver = &fixture.driver;
    struct driver_call *call =
        driver_start(driver, &(struct driver_exec){.script = "echo first; sleep 30"});
    assert_non_null(call);
    int64_t deadline_ms = driver_now_ms() + 2000;
    while (!call->out.len && driver_now_ms() < deadline_ms)
        driver_step(driver, 100);
    assert_string_equal(driver_text(&call->out), "first\n");
    assert_false(call->exited);
    assert_true(cay_link_signal(driver->link, call->id, SIGTERM, CAY_TARGET_GROUP, &driver->error));
    assert_true(driver_until(driver, &call->exited, 2000));
    assert_int_equal(call->exit.cause, CAY_CAUSE_KILLED);
    assert_int_equal(call->exit.signal, SIGTERM);
}

static void output_is_kept_in_a_ring_and_what_was_dropped_is_told(void **)
{
    fixture_needs(CAY_RUNTIME_RUNS_PROGRAMS);
    struct driver *driver = &fixture.driver;
    struct driver_call *call = driver_start(
        driver, &(struct driver_exec){
                    .script = "seq 1 20000; echo the end", .detached = true, .ring_bytes = 8192});
    assert_non_null(call);
    assert_true(driver_until(driver, &call->exited, 10000));
    uint64_t total = call->exit.end_offset;
    assert_int_equal(total, 108894 + 8);
    assert_int_equal(call->exit.kept_offset, total - 8192);
    assert_int_equal(call->next_offset, 0);
    call->exited = false;
    assert_true(cay_link_attach(driver->link, call->id, 0, 8192, &driver->error));
    while (call->next_offset < total && !driver->dead)
        driver_step(driver, 1000);
    assert_int_equal(call->dropped_bytes, total - 8192);
    assert_int_equal(call->out.len, 8192);
    assert_non_null(strstr(driver_text(&call->out), "20000\nthe end\n"));
    assert_true(driver_until(driver, &call->exited, 1000));
}

static void a_reader_that_does_not_read_stops_the_command_and_loses_nothing(void **)
{
    fixture_needs(CAY_RUNTIME_RUNS_PROGRAMS);
    struct driver *driver = &fixture.driver;
    struct driver_call *call = driver_start(
        driver,
        &(struct driver_exec){.script = "seq 1 200000", .ring_bytes = 16384, .holds = true});
    assert_non_null(call);
    for (int i = 0; i < 20; i++)
        driver_step(driver, 10);
    assert_false(call->exited);
    assert_true(call->both.len <= 16384);
    call->holds = false;
    call->acked = call->next_offset;
    assert_true(cay_link_ack(driver->link, call->id, call->acked, &driver->error));
    int64_t deadline_ms = driver_now_ms() + 20000;
    while ((!call->exited || call->next_offset < call->exit.end_offset) &&
           driver_now_ms() < deadline_ms)
        driver_step(driver, 1000);
    assert_true(call->exited);
    assert_int_equal(call->exit.end_offset, 1288895);
    assert_int_equal(call->out.len, 1288895);
    assert_int_equal(call->dropped_bytes, 0);
    assert_non_null(strstr(driver_text(&call->out), "\n199999\n200000\n"));
}

static void much_output_is_complete_and_in_order(void **)
{
    fixture_needs(CAY_RUNTIME_RUNS_PROGRAMS);
    struct driver_call *call = run_script("seq 1 1000000");
    assert_int_equal(call->exit.end_offset, 6888896);
    assert_int_equal(call->out.len, 6888896);
    const char *at = driver_text(&call->out);
    for (unsigned long expected = 1; expected <= 1000000; expected++) {
        char *end = NULL;
        assert_int_equal(strtoul(at, &end, 10), expected);
        at = end + 1;
    }
}

static void signals_of_others_and_our_kills_are_told_apart(void **)
{
    struct driver *driver = &fixture.driver;
    struct driver_call *call = driver_start(
        driver, &(struct driver_exec){.args = ARGS("sleep", "30"), .flags = CAY_EXEC_TELL_START});
    assert_non_null(call);
    assert_true(driver_until(driver, &call->started, 2000));
    assert_true(cay_link_signal(driver->link, call->id, SIGKILL, CAY_TARGET_TREE, &driver->error));
    assert_true(driver_until(driver, &call->exited, 2000));
    assert_int_equal(call->exit.cause, CAY_CAUSE_KILLED);
    if (!cay_runtime_can(fixture.runtime, CAY_RUNTIME_RUNS_PROGRAMS))
        return;
    call = run_script("kill -KILL $$");
    assert_int_equal(call->exit.cause, CAY_CAUSE_SIGNALED);
    assert_int_equal(call->exit.signal, SIGKILL);
    call = run_script("kill -SEGV $$");
    assert_int_equal(call->exit.signal, SIGSEGV);
}

static void zombies_never_accumulate(void **)
{
    fixture_needs(CAY_RUNTIME_RUNS_PROGRAMS);
    (void)run_script("i=0; while [ $i -lt 300 ]; do (true &) ; i=$((i+1)); done; sleep 0.1");
    struct driver_call *call =
        run_script("grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l");
    if (cay_runtime_can(fixture.runtime, CAY_RUNTIME_OWN_PIDS))
        assert_string_equal(driver_text(&call->out), "0\n");
}

static void input_reaches_the_command_and_its_end_too(void **)
{
    struct driver *driver = &fixture.driver;
    struct driver_call *call =
        driver_start(driver, &(struct driver_exec){.args = ARGS("cat"), .flags = CAY_EXEC_STDIN});
    assert_non_null(call);
    static char data[300000];
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (char)('a' + i % 26);
    size_t sent = 0;
    int64_t deadline_ms = driver_now_ms() + 10000;
    while (sent < sizeof(data) && driver_now_ms() < deadline_ms) {
        size_t room = CAY_FRAME_STDIN_WINDOW_BYTES - (sent - call->stdin_taken);
        size_t len = CAY_MIN(room, sizeof(data) - sent);
        assert_true(cay_link_stdin(driver->link, call->id, (struct cay_str){data + sent, len},
                                   &driver->error));
        sent += len;
        driver_step(driver, len ? 0 : 100);
    }
    assert_int_equal(sent, sizeof(data));
    assert_true(cay_link_close_stdin(driver->link, call->id, &driver->error));
    assert_true(driver_until(driver, &call->exited, 5000));
    while (call->next_offset < call->exit.end_offset && !driver->dead)
        driver_step(driver, 100);
    assert_int_equal(call->out.len, sizeof(data));
    assert_memory_equal(call->out.data, data, sizeof(data));
}

static void input_nobody_reads_is_not_waited_for(void **)
{
    struct driver *driver = &fixture.driver;
    fixture_needs(CAY_RUNTIME_RUNS_PROGRAMS);
    struct driver_call *call = driver_start(
        driver, &(struct driver_exec){.script = "exec <&-; sleep 0.2", .flags = CAY_EXEC_STDIN});
    assert_non_null(call);
    static const char data[40000];
    for (int i = 0; i < 4; i++) {
        assert_true(
            cay_link_stdin(driver->link, call->id, (struct cay_str){data, 16000}, &driver->error));
        for (int turn = 0; turn < 100 && call->stdin_taken < (uint64_t)(i + 1) * 16000; turn++)
            driver_step(driver, 20);
    }
    assert_true(driver_until(driver, &call->exited, 5000));
    assert_int_equal(call->exit.code, 0);
    /* And a command without input finds its end at once. */
    call = run_script("cat; echo done");
    assert_string_equal(driver_text(&call->out), "done\n");
}

static void a_disconnect_kills_nothing_and_the_next_link_goes_on(void **)
{
    fixture_needs(CAY_RUNTIME_RUNS_PROGRAMS | CAY_RUNTIME_ADOPTS);
    struct driver *driver = &fixture.driver;
    struct driver_call *call = driver_start(
        driver, &(struct driver_exec){.script = "echo before; sleep 0.3; echo after; exit 9"});
    assert_non_null(call);
    while (!call->out.len && !driver->dead)
        driver_step(driver, 100);
    driver_close(driver);
    assert_true(driver_open(driver, fixture.sandbox));
    call = driver_expect(driver, 1);
    assert_true(cay_link_attach(driver->link, 1, 0, CAY_LINK_RING_BYTES, &driver->error));
    assert_true(driver_until(driver, &call->exited, 5000));
    assert_string_equal(driver_text(&call->out), "before\nafter\n");
    assert_int_equal(call->exit.code, 9);
    assert_int_equal(cay_link_call_max(driver->link), 1);

    /* An end that was not acknowledged is told to whoever comes next, until it is released. */
    driver_close(driver);
    assert_true(driver_open(driver, fixture.sandbox));
    call = driver_expect(driver, 1);
    assert_true(driver_until(driver, &call->exited, 2000));
    assert_int_equal(call->exit.code, 9);
    assert_true(cay_link_release(driver->link, 1, &driver->error));
    assert_true(cay_link_list(driver->link, &driver->error));
    assert_true(driver_until(driver, &driver->list_ended, 2000));
    assert_int_equal(driver->listed, 0);
}

static void a_call_number_cannot_be_used_twice_at_once(void **)
{
    struct driver *driver = &fixture.driver;
    struct driver_call *call =
        driver_start(driver, &(struct driver_exec){.args = ARGS("sleep", "30")});
    assert_non_null(call);
    driver->next_id = call->id;
    call = driver_start(driver, &(struct driver_exec){.args = ARGS("true")});
    assert_non_null(call);
    while (!call->refused && !call->exited && !driver->dead)
        driver_step(driver, 100);
    assert_int_equal(call->refused, EEXIST);
    call->refused = 0;
    assert_true(cay_link_signal(driver->link, 999, SIGKILL, CAY_TARGET_TREE, &driver->error));
    assert_true(cay_link_release(driver->link, call->id, &driver->error));
    while (!call->refused && !driver->dead)
        driver_step(driver, 100);
    assert_int_equal(call->refused, EBUSY);
}

static void many_commands_run_at_once(void **)
{
    struct driver *driver = &fixture.driver;
    struct driver_call *calls[20];
    for (size_t i = 0; i < CAY_COUNT(calls); i++) {
        calls[i] = driver_start(driver, &(struct driver_exec){.args = ARGS("sleep", "1")});
        assert_non_null(calls[i]);
    }
    int64_t before_ms = driver_now_ms();
    for (size_t i = 0; i < CAY_COUNT(calls); i++) {
        assert_true(driver_until(driver, &calls[i]->exited, 10000));
        assert_int_equal(calls[i]->exit.code, 0);
    }
    assert_in_range(driver_now_ms() - before_ms, 0, 8000);
}

static void init_answers_and_lists(void **)
{
    struct driver *driver = &fixture.driver;
    assert_true(cay_link_ping(driver->link, 77, &driver->error));
    while (driver->pong != 77 && !driver->dead)
        driver_step(driver, 1000);
    assert_non_null(driver_start(driver, &(struct driver_exec){.args = ARGS("sleep", "30")}));
    assert_true(cay_link_list(driver->link, &driver->error));
    assert_true(driver_until(driver, &driver->list_ended, 2000));
    assert_int_equal(driver->listed, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(the_exit_code_is_the_commands),
        TEST(output_is_returned_and_the_streams_are_told_apart),
        TEST(a_command_that_is_not_there_says_so),
        TEST(a_wrong_working_directory_says_so),
        TEST(the_environment_is_exactly_what_was_given),
        TEST(the_caller_hears_of_the_end_at_once_even_if_grandchildren_hold_the_pipes),
        TEST(a_grandchild_that_keeps_writing_does_not_hold_the_end),
        TEST(leftovers_are_killed_with_the_call_by_option),
        TEST(leftovers_live_on_after_the_call_is_released),
        TEST(a_wall_timeout_kills_the_whole_tree_and_returns_the_partial_output),
        TEST(a_no_output_timeout_is_told_apart_and_output_puts_it_off),
        TEST(output_is_streamed_as_it_comes),
        TEST(output_is_kept_in_a_ring_and_what_was_dropped_is_told),
        TEST(a_reader_that_does_not_read_stops_the_command_and_loses_nothing),
        TEST(much_output_is_complete_and_in_order),
        TEST(signals_of_others_and_our_kills_are_told_apart),
        TEST(zombies_never_accumulate),
        TEST(input_reaches_the_command_and_its_end_too),
        TEST(input_nobody_reads_is_not_waited_for),
        TEST(a_disconnect_kills_nothing_and_the_next_link_goes_on),
        TEST(a_call_number_cannot_be_used_twice_at_once),
        TEST(many_commands_run_at_once),
        TEST(init_answers_and_lists),
    };
    int result = fixture_begin(argc, argv);
    if (result >= 0)
        return result;
    return fixture_end(cmocka_run_group_tests(tests, NULL, NULL));
}

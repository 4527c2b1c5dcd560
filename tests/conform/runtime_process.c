/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that live longer than the call that started them: what the process plane needs of init.
 */
#include <errno.h>
#include <signal.h>

#include "tests/conform/runtime_fixture.h"

enum { PATIENCE_MS = 20000 };

static struct driver *needs_version_2(void)
{
    fixture_needs(CAY_RUNTIME_RUNS_PROGRAMS);
    assert_true(cay_link_version(fixture.driver.link) >= 2);
    return &fixture.driver;
}

static void read_piece(struct driver *driver, struct driver_call *call, uint64_t offset)
{
    call->has_piece = false;
    assert_true(cay_link_read(driver->link, call->id, offset, 65536, &driver->error));
    assert_true(driver_until(driver, &call->has_piece, PATIENCE_MS));
}

/* Until the pieces hold the text. */
static void read_until(struct driver *driver, struct driver_call *call, const char *text)
{
    while (!strstr(driver_text(&call->pieces), text))
        read_piece(driver, call, call->pieces.len);
}

static void pieces_are_read_from_any_place(void **)
{
    struct driver *driver = needs_version_2();
    struct driver_call *call = driver_start(
        driver, &(struct driver_exec){.script = "printf abcdef; sleep 30", .detached = true});
    assert_non_null(call);
    read_until(driver, call, "abcdef");
    cay_buf_clear(&call->pieces, 0);
    read_piece(driver, call, 4);
    assert_string_equal(driver_text(&call->pieces), "ef");
    assert_int_equal(call->piece_offset, 4);
    /* A second reader takes the place of one that waits. */
    assert_true(cay_link_read(driver->link, call->id, 6, 65536, &driver->error));
    cay_buf_clear(&call->pieces, 0);
    read_piece(driver, call, 0);
    assert_string_equal(driver_text(&call->pieces), "abcdef");
}

static void output_of_a_blocking_command_waits_for_its_reader(void **)
{
    struct driver *driver = needs_version_2();
    struct driver_call *call = driver_start(
        driver, &(struct driver_exec){.script = "head -c 300000 /dev/zero | tr '\\0' x; echo over",
                                      .flags = CAY_EXEC_BLOCK,
                                      .ring_bytes = 4096,
                                      .detached = true});
    assert_non_null(call);
    uint64_t next = 0;
    while (next < 300005) {
        read_piece(driver, call, next);
        assert_int_equal(call->piece_offset, next);
        next = call->pieces.len;
        assert_true(cay_link_ack(driver->link, call->id, next, &driver->error));
    }
    assert_true(driver_until(driver, &call->exited, PATIENCE_MS));
    assert_int_equal(call->exit.end_offset, 300005);
}

static void an_ended_command_runs_again_with_its_output(void **)
{
    struct driver *driver = needs_version_2();
    struct driver_call *call =
        driver_start(driver, &(struct driver_exec){.script = "echo once", .detached = true});
    assert_non_null(call);
    uint64_t id = call->id;
    assert_true(driver_until(driver, &call->exited, PATIENCE_MS));
    call = driver_start(driver, &(struct driver_exec){.script = "echo twice; exit 3",
                                                      .flags = CAY_EXEC_AGAIN,
                                                      .again = id,
                                                      .detached = true});
    assert_non_null(call);
    call->exited = false;
    assert_true(driver_until(driver, &call->exited, PATIENCE_MS));
    assert_int_equal(call->exit.code, 3);
    assert_int_equal(call->exit.end_offset, 11);
    read_until(driver, call, "once\ntwice\n");
    /* One that runs does not, and one that is not there neither. */
    call = driver_start(driver, &(struct driver_exec){.script = "sleep 30", .detached = true});
    id = call->id;
    call = driver_start(driver,
                        &(struct driver_exec){.script = ":", .flags = CAY_EXEC_AGAIN, .again = id});
    while (!call->refused && !driver->dead)
        driver_step(driver, 100);
    assert_int_equal(call->refused, EBUSY);
    call = driver_start(driver, &(struct driver_exec){.script = ":", .flags = CAY_EXEC_AGAIN});
    while (!call->refused && !driver->dead)
        driver_step(driver, 100);
    assert_int_equal(call->refused, ESRCH);
}

static void a_terminal_has_a_size_and_signals(void **)
{
    struct driver *driver = needs_version_2();
    static const char script[] =
        "trap 'echo wound' WINCH; trap 'echo broken' INT; test -t 0 && test -t 1 && echo terminal;"
        "echo me > /dev/tty; : < $(tty) && echo mine; read -r line; echo \"got $line\";"
        "while :; do sleep 1 & wait; done";
    struct driver_call *call =
        driver_start(driver, &(struct driver_exec){.script = script,
                                                   .flags = CAY_EXEC_PTY | CAY_EXEC_TELL_START,
                                                   .uid = 1000,
                                                   .size = {24, 80},
                                                   .detached = true});
    assert_non_null(call);
    read_until(driver, call, "terminal");
    /* gVisor of 2022 opens a terminal by its own name only. */
    bool has_tty = !cay_runtime_can(fixture.runtime, CAY_RUNTIME_OWN_KERNEL);
    read_until(driver, call, has_tty ? "me\r\nmine" : "mine");
    assert_true(cay_link_stdin(driver->link, call->id, CAY_STR("hello\n"), &driver->error));
    read_until(driver, call, "got hello");
    const struct cay_frame_size size = {.rows = 50, .columns = 100};
    assert_true(cay_link_resize(driver->link, call->id, &size, &driver->error));
    read_until(driver, call, "wound");
    assert_true(cay_link_stdin(driver->link, call->id, CAY_STR("\003"), &driver->error));
    read_until(driver, call, "broken");
    assert_true(cay_link_signal(driver->link, call->id, SIGHUP, CAY_TARGET_TREE, &driver->error));
    assert_true(driver_until(driver, &call->exited, PATIENCE_MS));
    assert_int_equal(call->exit.cause, CAY_CAUSE_KILLED);
    assert_int_equal(call->exit.signal, SIGHUP);
    /* A command without one has none. */
    call = driver_start(driver, &(struct driver_exec){.script = "sleep 30", .detached = true});
    assert_true(cay_link_resize(driver->link, call->id, &size, &driver->error));
    while (!call->refused && !driver->dead)
        driver_step(driver, 100);
    assert_int_equal(call->refused, ENOTTY);
}

static void large_arguments_reach_the_command(void **)
{
    struct driver *driver = needs_version_2();
    static char large[8][128 * 1024];
    const char *args[] = {"/bin/sh", "-c",     "echo $# ${#8}", "sh",     large[0], large[1],
                          large[2],  large[3], large[4],        large[5], large[6], large[7],
                          NULL};
    for (size_t i = 0; i < CAY_COUNT(large); i++)
        memset(large[i], 'x', sizeof(large[i]) - 10);
    struct driver_call *call = driver_run(driver, &(struct driver_exec){.args = args});
    assert_non_null(call);
    assert_string_equal(driver_text(&call->out), "8 131062\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(pieces_are_read_from_any_place),
        TEST(output_of_a_blocking_command_waits_for_its_reader),
        TEST(an_ended_command_runs_again_with_its_output),
        TEST(a_terminal_has_a_size_and_signals),
        TEST(large_arguments_reach_the_command),
    };
    int result = fixture_begin(argc, argv);
    if (result >= 0)
        return result;
    return fixture_end(cmocka_run_group_tests(tests, NULL, NULL));
}

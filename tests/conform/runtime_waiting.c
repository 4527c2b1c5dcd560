/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes that are started before there is a session for them. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "host/runtime/runtimes.h"
#include "sys/mount.h"
#include "sys/pidfd.h"
#include "sys/userns.h"
#include "tests/conform/runtime_fixture.h"

static struct cay_sandbox_spec spec_of(const char *id)
{
    return (struct cay_sandbox_spec){
        .id = id, .root_fd = -1, .uid_base = FIXTURE_BASE, .userns_fd = -1, .hostname = "waiting"};
}

static struct cay_sandbox *start_waiting(const char *id)
{
    struct cay_error err = {};
    struct cay_sandbox *sandbox = NULL;
    const struct cay_sandbox_spec spec = spec_of(id);
    if (!cay_runtime_start_waiting(fixture.runtime, &spec, &sandbox, &err))
        fail_msg("%s", err.text);
    return sandbox;
}

static int open_root(void)
{
    cay_autoclose int userns = cay_userns_open(FIXTURE_BASE, CAY_USERNS_COUNT);
    cay_autoclose int root = cay_mount_clone(AT_FDCWD, fixture.root.path, false);
    assert_true(userns >= 0 && root >= 0);
    assert_int_equal(cay_mount_set_idmap(root, userns), 0);
    return cay_take_fd(root);
}

/* As the fixture's own. */
static void hand_out(struct cay_sandbox *sandbox, const struct cay_cgroup_limits *limits)
{
    cay_autoclose int root = open_root();
    struct cay_sandbox_spec spec = spec_of(cay_sandbox_id(sandbox));
    spec.root_fd = root;
    spec.hostname = "handed-out";
    spec.limits = *limits;
    struct cay_error err = {};
    int old = -1;
    if (!cay_sandbox_hand_out(sandbox, &spec, &old, &err))
        fail_msg("%s", err.text);
    if (old >= 0)
        close(old);
    fixture.sandbox = sandbox;
    assert_true(driver_open(&fixture.driver, sandbox));
}

/* As the next daemon does it. */
static void remove_waiting(void)
{
    struct cay_error err = {};
    const struct cay_runtimes all = {
        .run_dir = fixture.run_dir, .open = {fixture.runtime}, .count = 1};
    if (!cay_runtimes_remove_waiting(&all, &err))
        fail_msg("%s", err.text);
}

static int start_empty(void **)
{
    fixture.sandbox = NULL;
    return 0;
}

static void it_becomes_what_a_start_would_have_made(void **)
{
    fixture_needs(CAY_RUNTIME_WAITS);
    bool has_own_kernel = cay_runtime_can(fixture.runtime, CAY_RUNTIME_OWN_KERNEL);
    uint64_t memory_bytes = has_own_kernel ? 128 << 20 : 32 << 20;
    hand_out(start_waiting("one"),
             &(struct cay_cgroup_limits){.memory_bytes = memory_bytes, .pids = 20});
    struct driver_call *call =
        run_script("hostname; ls / | tr '\\n' ' '; ls -d /proc/self /dev/null; "
                   "grep -c ' / ' /proc/mounts; id -u");
    assert_string_equal(driver_text(&call->out),
                        "handed-out\nbin dev etc home proc root sys tmp workspace "
                        "/dev/null\n/proc/self\n1\n0\n");
    assert_true(cay_sandbox_root(fixture.sandbox) >= 0);
    assert_int_equal(faccessat(cay_sandbox_root(fixture.sandbox), "bin/busybox", F_OK, 0), 0);
    if (!cay_runtime_can(fixture.runtime, CAY_RUNTIME_LIMITS))
        return;
    call = driver_run(
        &fixture.driver,
        &(struct driver_exec){.script = "for i in $(seq 64); do sleep 63 & done; echo all",
                              .flags = CAY_EXEC_KILL_LEFTOVERS});
    assert_non_null(call);
    assert_null(strstr(driver_text(&call->out), "all"));
    const struct driver_exec exec = {
        .script = "exec dd if=/dev/zero of=/dev/null bs=256M count=1 2>/dev/null"};
    if (has_own_kernel) { /* which dies of it */
        assert_non_null(driver_start(&fixture.driver, &exec));
        assert_int_equal(cay_pidfd_wait(cay_sandbox_pidfd(fixture.sandbox), 10000), 0);
    } else {
        call = driver_run(&fixture.driver, &exec);
        assert_non_null(call);
        assert_int_equal(call->exit.cause, CAY_CAUSE_OOM);
    }
}

static void it_is_adopted_once_it_is_handed_out(void **)
{
    fixture_needs(CAY_RUNTIME_WAITS | CAY_RUNTIME_ADOPTS);
    hand_out(start_waiting("kept"), &(struct cay_cgroup_limits){});
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, 1024);
    cay_sandbox_describe(fixture.sandbox, &text);
    driver_close(&fixture.driver);
    cay_sandbox_leave(cay_take_ptr(fixture.sandbox));
    struct cay_error err = {};
    remove_waiting(); /* it waits no more */
    if (!cay_runtime_adopt(fixture.runtime, cay_buf_str(&text), &fixture.sandbox, &err))
        fail_msg("%s", err.text);
    assert_true(driver_open(&fixture.driver, fixture.sandbox));
    assert_string_equal(driver_text(&run_script("hostname")->out), "handed-out\n");
}

static void what_waits_is_found_without_its_id(void **)
{
    fixture_needs(CAY_RUNTIME_WAITS);
    struct cay_sandbox *sandbox = start_waiting("orphan");
    int pidfd = fcntl(cay_sandbox_pidfd(sandbox), F_DUPFD_CLOEXEC, 0);
    cay_sandbox_leave(sandbox);
    remove_waiting();
    assert_int_equal(cay_pidfd_wait(pidfd, 2000), 0);
    cay_pidfd_reap(pidfd);
    close(pidfd);
    remove_waiting(); /* nothing is left to do */
}

static void it_can_be_destroyed_while_it_waits(void **)
{
    fixture_needs(CAY_RUNTIME_WAITS);
    struct cay_error err = {};
    struct cay_sandbox *sandbox = start_waiting("unwanted");
    assert_int_equal(cay_sandbox_root(sandbox), -1);
    assert_true(cay_sandbox_destroy(sandbox, &err));
}

static void a_dead_one_is_refused_and_can_be_started_anew(void **)
{
    fixture_needs(CAY_RUNTIME_WAITS);
    struct cay_error err = {};
    struct cay_sandbox *sandbox = start_waiting("dead");
    assert_int_equal(cay_pidfd_signal(cay_sandbox_pidfd(sandbox), SIGKILL), 0);
    assert_int_equal(cay_pidfd_wait(cay_sandbox_pidfd(sandbox), 2000), 0);
    cay_autoclose int root = open_root();
    struct cay_sandbox_spec spec = spec_of("dead");
    spec.root_fd = root;
    int old = -1;
    assert_false(cay_sandbox_hand_out(sandbox, &spec, &old, &err));
    assert_int_equal(err.reason, CAY_R_RUNTIME_FAILED);
    assert_int_equal(old, -1);
    assert_true(cay_sandbox_destroy(sandbox, &err));
    assert_true(fixture_start("dead", FIXTURE_BASE, NULL, &fixture.sandbox));
    assert_true(driver_open(&fixture.driver, fixture.sandbox));
    assert_int_equal(run_script("true")->exit.code, 0);
}

static void wishes_that_come_too_late_are_refused(void **)
{
    fixture_needs(CAY_RUNTIME_WAITS);
    struct cay_error err = {};
    struct cay_sandbox *sandbox = start_waiting("plain");
    cay_autoclose int root = open_root();
    struct cay_sandbox_spec spec = spec_of("plain");
    spec.root_fd = root;
    spec.no_new_privs = true;
    int old = -1;
    assert_false(cay_sandbox_hand_out(sandbox, &spec, &old, &err));
    assert_int_equal(err.reason, CAY_R_NOT_SUPPORTED);
    assert_true(cay_sandbox_destroy(sandbox, &err));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start_empty, fixture_down)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(it_becomes_what_a_start_would_have_made),
        TEST(it_is_adopted_once_it_is_handed_out),
        TEST(what_waits_is_found_without_its_id),
        TEST(it_can_be_destroyed_while_it_waits),
        TEST(a_dead_one_is_refused_and_can_be_started_anew),
        TEST(wishes_that_come_too_late_are_refused),
    };
    int result = fixture_begin(argc, argv);
    if (result >= 0)
        return result;
    return fixture_end(cmocka_run_group_tests(tests, NULL, NULL));
}

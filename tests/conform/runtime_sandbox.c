/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox promises besides running commands: limits, users, pause, survival, isolation. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/mount.h"
#include "sys/pidfd.h"
#include "sys/userns.h"
#include "tests/conform/runtime_fixture.h"

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

enum { SECOND_BASE = FIXTURE_BASE + CAY_USERNS_RANGE_ALIGN };

/* Instead of the fixture's, one with limits. */
static void restart_with(const struct cay_cgroup_limits *limits)
{
    assert_int_equal(fixture_down(NULL), 0);
    assert_true(fixture_start("limited", FIXTURE_BASE, limits, &fixture.sandbox));
    assert_true(driver_open(&fixture.driver, fixture.sandbox));
}

static bool has_own_kernel(void)
{
    return cay_runtime_can(fixture.runtime, CAY_RUNTIME_OWN_KERNEL);
}

/* The host's kernel does not see single processes: it ends all of them. */
static void memory_that_runs_out_ends_the_sandbox(void)
{
    restart_with(&(struct cay_cgroup_limits){.memory_bytes = 128 << 20});
    assert_string_equal(driver_text(&run_script("echo fine")->out), "fine\n");
    struct driver_call *call = driver_start(
        &fixture.driver,
        &(struct driver_exec){.script = "dd if=/dev/zero of=/dev/null bs=512M count=1"});
    assert_non_null(call);
    assert_int_equal(cay_pidfd_wait(cay_sandbox_pidfd(fixture.sandbox), 10000), 0);
    struct cay_sandbox_stats stats;
    cay_sandbox_stats(fixture.sandbox, &stats);
    assert_true(stats.usage.init_oom_kills > 0);
    assert_false(driver_until(&fixture.driver, &call->exited, 2000));
    assert_true(fixture.driver.dead);
}

static void memory_is_limited_and_the_kill_is_told_apart(void **)
{
    fixture_needs(CAY_RUNTIME_LIMITS | CAY_RUNTIME_RUNS_PROGRAMS);
    if (has_own_kernel()) {
        memory_that_runs_out_ends_the_sandbox();
        return;
    }
    restart_with(&(struct cay_cgroup_limits){.memory_bytes = 32 << 20});
    struct driver_call *call =
        run_script("exec dd if=/dev/zero of=/dev/null bs=256M count=1 2>/dev/null");
    assert_int_equal(call->exit.cause, CAY_CAUSE_OOM);
    assert_int_equal(call->exit.oom_kills, 1);
    /* The command itself survives when a child of it is killed, and it is still told. */
    call = run_script("dd if=/dev/zero of=/dev/null bs=256M count=1 2>/dev/null; echo $?");
    assert_int_equal(call->exit.cause, CAY_CAUSE_EXITED);
    assert_string_equal(driver_text(&call->out), "137\n");
    assert_int_equal(call->exit.oom_kills, 1);
    call = run_script("echo fine");
    assert_int_equal(call->exit.cause, CAY_CAUSE_EXITED);
    assert_int_equal(call->exit.oom_kills, 0);
    struct cay_sandbox_stats stats;
    cay_sandbox_stats(fixture.sandbox, &stats);
    assert_true(stats.usage.memory_peak_bytes > 16 << 20);
}

static void processes_are_limited(void **)
{
    fixture_needs(CAY_RUNTIME_LIMITS | CAY_RUNTIME_RUNS_PROGRAMS);
    restart_with(&(struct cay_cgroup_limits){.pids = 16});
    struct driver_call *call = driver_run(
        &fixture.driver,
        &(struct driver_exec){.script = "for i in $(seq 64); do sleep 63 & done; echo all",
                              .flags = CAY_EXEC_KILL_LEFTOVERS});
    assert_non_null(call);
    assert_null(strstr(driver_text(&call->out), "all"));
    if (has_own_kernel()) { /* whose threads the host counts, too */
        assert_true(cay_sandbox_wait_idle(fixture.sandbox, 2000));
        assert_int_equal(run_script("true")->exit.code, 0);
        return;
    }
    struct cay_sandbox_stats stats;
    for (int i = 0; i < 200; i++) {
        cay_sandbox_stats(fixture.sandbox, &stats);
        if (stats.usage.pids <= 1)
            break;
        usleep(5000);
    }
    assert_int_equal(stats.usage.pids, 1);
    assert_int_equal(run_script("true")->exit.code, 0);
}

static void a_fork_bomb_dies_with_its_timeout(void **)
{
    fixture_needs(CAY_RUNTIME_LIMITS | CAY_RUNTIME_RUNS_PROGRAMS);
    restart_with(&(struct cay_cgroup_limits){.pids = 100});
    struct driver_call *call = driver_run(
        &fixture.driver,
        &(struct driver_exec){.script = "b() { b | b & }; b 2>/dev/null; while :; do sleep 1; done",
                              .wall_ms = 300});
    assert_non_null(call);
    assert_true(call->exit.cause == CAY_CAUSE_WALL || call->exit.cause == CAY_CAUSE_EXITED);
    assert_true(cay_link_signal(fixture.driver.link, call->id, SIGKILL, CAY_TARGET_TREE,
                                &fixture.driver.error));
    struct cay_sandbox_stats stats;
    for (int i = 0; i < 400; i++) {
        driver_step(&fixture.driver, 5);
        cay_sandbox_stats(fixture.sandbox, &stats);
        if (has_own_kernel() && cay_sandbox_wait_idle(fixture.sandbox, 0))
            stats.usage.pids = 1;
        if (stats.usage.pids <= 1)
            break;
        (void)cay_link_signal(fixture.driver.link, call->id, SIGKILL, CAY_TARGET_TREE,
                              &fixture.driver.error);
    }
    assert_int_equal(stats.usage.pids, 1);
    assert_int_equal(run_script("true")->exit.code, 0);
}

static void the_processor_is_limited(void **)
{
    fixture_needs(CAY_RUNTIME_LIMITS | CAY_RUNTIME_RUNS_PROGRAMS);
    restart_with(&(struct cay_cgroup_limits){.cpu_millis = 200});
    struct cay_sandbox_stats before;
    cay_sandbox_stats(fixture.sandbox, &before);
    const struct driver_call *call = driver_run(
        &fixture.driver, &(struct driver_exec){.script = "while :; do :; done", .wall_ms = 1000});
    assert_non_null(call);
    uint64_t used_usec = call->exit.user_usec + call->exit.system_usec;
    if (has_own_kernel()) { /* which does not see when it does not run */
        struct cay_sandbox_stats stats;
        cay_sandbox_stats(fixture.sandbox, &stats);
        used_usec = stats.usage.cpu_usec - before.usage.cpu_usec;
    }
    assert_in_range(used_usec, 20000, 450000);
}

static void user_and_root_are_who_they_say_and_can_what_they_may(void **)
{
    fixture_needs(CAY_RUNTIME_OWN_IDS);
    struct driver_call *call = run_as(1000, "id -u; id -g; touch /workspace/mine && echo yes; "
                                            "touch /etc/not 2>/dev/null || echo no");
    assert_string_equal(driver_text(&call->out), "1000\n1000\nyes\nno\n");
    call = run_as(
        0, "id -u; touch /etc/mine && echo yes; chown 1000 /etc/mine && stat -c %u /etc/mine");
    assert_string_equal(driver_text(&call->out), "0\nyes\n1000\n");
    call = run_as(1000, "grep CapEff /proc/self/status; grep CapPrm /proc/self/status");
    assert_string_equal(driver_text(&call->out),
                        "CapEff:\t0000000000000000\nCapPrm:\t0000000000000000\n");
    call = run_as(0, "grep CapBnd /proc/self/status");
    assert_null(strstr(driver_text(&call->out), "ffffff"));
}

/* Whose the process with these two arguments is, seen from the host. */
static uid_t host_uid_of(const char *name, const char *arg)
{
    uid_t uid = (uid_t)-1;
    char wanted[64] = {};
    size_t wanted_len = strlen(name) + 1 + strlen(arg) + 1;
    memcpy(wanted, name, strlen(name));
    memcpy(wanted + strlen(name) + 1, arg, strlen(arg));
    for (int turn = 0; turn < 100 && uid == (uid_t)-1; turn++) {
        for (int pid = 2; pid < 32768 && uid == (uid_t)-1; pid++) {
            char path[64];
            char text[64];
            struct stat info;
            snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
            cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
            if (fd < 0 || read(fd, text, sizeof(text)) != (ssize_t)wanted_len ||
                memcmp(text, wanted, wanted_len) != 0)
                continue;
            snprintf(path, sizeof(path), "/proc/%d", pid);
            if (stat(path, &info) == 0)
                uid = info.st_uid;
        }
    }
    return uid;
}

/* Whose the sandbox's first process is, seen from the host. */
static uid_t first_uid(void)
{
    struct cay_buf text;
    char path[64];
    struct stat info = {};
    cay_buf_init(&text, 4096);
    cay_sandbox_describe(fixture.sandbox, &text);
    const char *pid = strstr(driver_text(&text), "\npid=");
    assert_non_null(pid);
    snprintf(path, sizeof(path), "/proc/%d", (int)strtol(pid + 5, NULL, 10));
    assert_int_equal(stat(path, &info), 0);
    cay_buf_finish(&text);
    return info.st_uid;
}

static void root_of_the_sandbox_is_nobody_on_the_host(void **)
{
    fixture_needs(CAY_RUNTIME_OWN_IDS);
    (void)run_script("touch /workspace/by-root");
    (void)run_as(1000, "touch /workspace/by-user");
    char path[ROOT_PATH_BYTES + 32];
    struct stat info;
    /* On disk the ids are the sandbox's own; the processes are of the range. */
    snprintf(path, sizeof(path), "%s/workspace/by-user", fixture.root.path);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_uid, 1000);
    if (has_own_kernel()) {
        assert_int_equal(first_uid(), FIXTURE_BASE);
        return;
    }
    struct driver_call *call =
        driver_start(&fixture.driver, &(struct driver_exec){.args = ARGS("sleep", "7777"),
                                                            .flags = CAY_EXEC_TELL_START});
    assert_non_null(call);
    assert_true(driver_until(&fixture.driver, &call->started, 2000));
    assert_int_equal(host_uid_of("sleep", "7777"), FIXTURE_BASE);
}

static void frozen_means_frozen_and_the_pause_does_not_count(void **)
{
    fixture_needs(CAY_RUNTIME_FREEZES | CAY_RUNTIME_RUNS_PROGRAMS);
    struct driver *driver = &fixture.driver;
    struct driver_call *call = driver_start(
        driver, &(struct driver_exec){
                    .script = "i=0; while [ $i -lt 20 ]; do echo $i; i=$((i+1)); sleep 0.02; done",
                    .wall_ms = 1500});
    assert_non_null(call);
    while (call->out.len < 4 && !driver->dead)
        driver_step(driver, 1000);
    struct cay_error err = {};
    assert_true(cay_sandbox_freeze(fixture.sandbox, 2000, &err));
    assert_true(cay_sandbox_freeze(fixture.sandbox, 2000, &err));
    driver_step(driver, 0);
    size_t len = call->out.len;
    int64_t until_ms = driver_now_ms() + 2000;
    while (driver_now_ms() < until_ms)
        driver_step(driver, 100);
    assert_int_equal(call->out.len, len);
    assert_true(cay_link_skip_clock(driver->link, 2000, &err));
    assert_true(cay_sandbox_thaw(fixture.sandbox, &err));
    assert_true(driver_until(driver, &call->exited, 5000));
    assert_int_equal(call->exit.cause, CAY_CAUSE_EXITED);
    assert_non_null(strstr(driver_text(&call->out), "\n19\n"));
    for (int i = 0; i < 50; i++) {
        assert_true(cay_sandbox_freeze(fixture.sandbox, 2000, &err));
        assert_true(cay_sandbox_thaw(fixture.sandbox, &err));
    }
    assert_string_equal(driver_text(&run_script("echo alive")->out), "alive\n");
}

static void a_frozen_sandbox_can_be_destroyed(void **)
{
    fixture_needs(CAY_RUNTIME_FREEZES | CAY_RUNTIME_RUNS_PROGRAMS);
    assert_non_null(
        driver_start(&fixture.driver, &(struct driver_exec){.args = ARGS("sleep", "66")}));
    struct cay_error err = {};
    assert_true(cay_sandbox_freeze(fixture.sandbox, 2000, &err));
    int64_t before_ms = driver_now_ms();
    assert_int_equal(fixture_down(NULL), 0);
    assert_in_range(driver_now_ms() - before_ms, 0, 1000);
}

/* A daemon that starts a sandbox and a command, writes the description down and is killed. */
static void daemon_main(int pipe_fd)
{
    struct cay_sandbox *sandbox = NULL;
    struct driver driver;
    struct cay_buf text;
    cay_buf_init(&text, 4096);
    if (!fixture_start("orphan", SECOND_BASE, NULL, &sandbox) || !driver_open(&driver, sandbox))
        _exit(1);
    struct driver_call *call = driver_start(
        &driver,
        &(struct driver_exec){
            .script = "echo one; while [ ! -e /tmp/go ]; do sleep 0.01; done; echo two; exit 5",
            .flags = CAY_EXEC_TELL_START});
    if (!call || !driver_until(&driver, &call->started, 2000))
        _exit(2);
    cay_sandbox_describe(sandbox, &text);
    if (write(pipe_fd, text.data, text.len) < 0)
        _exit(3);
    close(pipe_fd);
    for (;;)
        pause();
}

static void a_sandbox_outlives_its_daemon_and_is_adopted(void **)
{
    fixture_needs(CAY_RUNTIME_ADOPTS | CAY_RUNTIME_RUNS_PROGRAMS);
    bool isolates = cay_runtime_can(fixture.runtime, CAY_RUNTIME_ISOLATES);
    if (!isolates)
        unlink("/tmp/go");
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        daemon_main(ends[1]);
    close(ends[1]);
    char text[2048] = {};
    size_t len = 0;
    ssize_t got;
    while ((got = read(ends[0], text + len, sizeof(text) - 1 - len)) > 0)
        len += (size_t)got;
    close(ends[0]);
    assert_true(len > 0);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);

    struct cay_error err = {};
    struct cay_sandbox *sandbox = NULL;
    assert_true(cay_runtime_adopt(fixture.runtime, cay_str(text), &sandbox, &err));
    assert_string_equal(cay_sandbox_id(sandbox), "orphan");
    struct driver driver;
    assert_true(driver_open(&driver, sandbox));
    struct driver_call *call = driver_expect(&driver, 1);
    assert_true(cay_link_attach(driver.link, 1, 0, CAY_LINK_RING_BYTES, &err));
    while (!call->out.len && !driver.dead)
        driver_step(&driver, 1000);
    assert_int_equal(cay_link_call_max(driver.link), 1);
    struct driver_call *second =
        driver_run(&driver, &(struct driver_exec){.script = "touch /tmp/go"});
    assert_non_null(second);
    assert_true(driver_until(&driver, &call->exited, 5000));
    assert_string_equal(driver_text(&call->out), "one\ntwo\n");
    assert_int_equal(call->exit.code, 5);
    driver_close(&driver);
    assert_true(cay_sandbox_destroy(sandbox, &err));
    if (!isolates)
        unlink("/tmp/go");

    /* Once it is gone it is not found, whoever has its number now. */
    assert_false(cay_runtime_adopt(fixture.runtime, cay_str(text), &sandbox, &err));
    assert_int_equal(err.reason, CAY_R_NOT_FOUND);
    assert_false(cay_runtime_adopt(fixture.runtime, CAY_STR("nonsense"), &sandbox, &err));
    assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
}

static void what_is_left_of_a_dead_daemons_sandbox_goes_by_its_id(void **)
{
    fixture_needs(CAY_RUNTIME_OWN_PIDS | CAY_RUNTIME_LIMITS);
    struct cay_error err = {};
    struct cay_sandbox *sandbox = NULL;
    assert_true(fixture_start("stray", SECOND_BASE, NULL, &sandbox));
    int pidfd = fcntl(cay_sandbox_pidfd(sandbox), F_DUPFD_CLOEXEC, 0);
    cay_sandbox_leave(sandbox);
    assert_true(cay_runtime_remove(fixture.runtime, "stray", &err));
    assert_true(cay_runtime_remove(fixture.runtime, "stray", &err));
    assert_int_equal(cay_pidfd_wait(pidfd, 5000), 0);
    cay_pidfd_reap(pidfd);
    close(pidfd);
    /* And a name that is still taken by such leftovers can be used at once. */
    assert_true(fixture_start("stray", SECOND_BASE, NULL, &sandbox));
    cay_sandbox_leave(sandbox);
    assert_true(fixture_start("stray", SECOND_BASE, NULL, &sandbox));
    assert_true(cay_sandbox_destroy(sandbox, &err));
    while (waitpid(-1, NULL, __WALL | WNOHANG) > 0)
        ;
}

static void two_sandboxes_do_not_see_each_other(void **)
{
    fixture_needs(CAY_RUNTIME_OWN_PIDS | CAY_RUNTIME_OWN_NETWORK);
    struct cay_sandbox *other = NULL;
    assert_true(fixture_start("two", SECOND_BASE, NULL, &other));
    struct driver driver;
    assert_true(driver_open(&driver, other));
    struct driver_call *call =
        driver_start(&driver, &(struct driver_exec){.script = "nc -l -p 4000 >/dev/null & sleep 67",
                                                    .flags = CAY_EXEC_TELL_START});
    assert_non_null(call);
    assert_true(driver_until(&driver, &call->started, 2000));
    struct driver_call *mine =
        run_script("ls -d /proc/[0-9]* | wc -l; ps | grep -c '[s]leep 67'; kill -9 -1");
    assert_non_null(strstr(driver_text(&mine->out), "\n0\n"));
    mine = run_script("echo x | nc -w 1 127.0.0.1 4000 || echo refused");
    assert_string_equal(driver_text(&mine->out), "refused\n");
    driver_step(&driver, 50);
    assert_false(call->exited);
    struct cay_error err = {};
    driver_close(&driver);
    assert_true(cay_sandbox_destroy(other, &err));
}

static void the_loopback_is_up_and_low_ports_can_be_bound(void **)
{
    fixture_needs(CAY_RUNTIME_OWN_NETWORK);
    struct driver_call *call =
        run_as(1000, "(echo hello | nc -l -p 80) & i=0; while [ $i -lt 100 ]; do i=$((i+1)); "
                     "nc -w 1 127.0.0.1 80 && break; sleep 0.05; done");
    assert_string_equal(driver_text(&call->out), "hello\n");
    call = run_script("hostname; ls /sys | wc -l; grep -c . /proc/self/cgroup; "
                      "grep -v ':/$' /proc/self/cgroup | grep -v ':/s0$' | wc -l");
    assert_non_null(strstr(driver_text(&call->out), "cay\n"));
}

static int open_overlay(struct root *scratch, int userns_fd)
{
    snprintf(scratch->path, sizeof(scratch->path), "/var/tmp/cay-scratch-XXXXXX");
    assert_non_null(mkdtemp(scratch->path));
    return root_overlay(&fixture.root, scratch, userns_fd, SECOND_BASE);
}

/* On an overlay, as sessions are: some probes are about it. */
static void hostile_code_gets_nowhere(void **)
{
    fixture_needs(CAY_RUNTIME_ISOLATES);
    struct root scratch;
    cay_autoclose int userns = cay_userns_open(SECOND_BASE, CAY_USERNS_COUNT);
    cay_autoclose int root = open_overlay(&scratch, userns);
    assert_true(root >= 0);
    struct cay_sandbox_spec spec = {.id = "hostile",
                                    .root_fd = root,
                                    .uid_base = SECOND_BASE,
                                    .userns_fd = userns,
                                    .hostname = "hostile"};
    struct cay_error err = {};
    struct cay_sandbox *sandbox = NULL;
    assert_true(cay_runtime_start(fixture.runtime, &spec, &sandbox, &err));
    struct driver driver;
    assert_true(driver_open(&driver, sandbox));
    for (int as_user = 0; as_user < 2; as_user++) {
        struct driver_call *call = driver_run(
            &driver, &(struct driver_exec){.args = ARGS("/bin/probe"), .uid = as_user ? 1000 : 0});
        assert_non_null(call);
        assert_int_equal(call->exit.cause, CAY_CAUSE_EXITED);
        assert_string_equal(driver_text(&call->out), "0 reached\n");
    }
    /* The filter counts also for those who would come in by another door. */
    struct driver_call *call = driver_run(
        &driver,
        &(struct driver_exec){.script = "grep Seccomp: /proc/self/status; readlink /proc/1/exe"});
    assert_non_null(call);
    assert_string_equal(driver_text(&call->out), "Seccomp:\t2\n");
    driver_close(&driver);
    assert_true(cay_sandbox_destroy(sandbox, &err));
    root_remove(&scratch);
}

static void a_tree_with_links_for_dev_and_proc_is_refused(void **)
{
    fixture_needs(CAY_RUNTIME_ISOLATES);
    struct root evil;
    assert_true(root_make(&evil, NULL));
    char path[ROOT_PATH_BYTES + 16];
    snprintf(path, sizeof(path), "%s/dev", evil.path);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink("/etc", path), 0);
    struct cay_sandbox_spec spec = {.id = "evil",
                                    .root_fd = -1,
                                    .root_path = evil.path,
                                    .uid_base = SECOND_BASE,
                                    .userns_fd = -1,
                                    .hostname = "evil"};
    struct cay_error err = {};
    struct cay_sandbox *sandbox = NULL;
    assert_false(cay_runtime_start(fixture.runtime, &spec, &sandbox, &err));
    assert_int_equal(err.reason, CAY_R_RUNTIME_FAILED);
    assert_non_null(strstr(err.text, "'dev'"));
    root_remove(&evil);
}

static void ids_that_are_no_file_names_are_refused(void **)
{
    static const char *const wrong[] = {
        "", "..", "a/b", "a b", ".x", "-x", "a..b", "\xf0\x9f\x98\x80", "a\nb"};
    for (size_t i = 0; i < CAY_COUNT(wrong); i++) {
        struct cay_sandbox_spec spec = {.id = wrong[i],
                                        .root_fd = -1,
                                        .root_path = fixture.root.path,
                                        .uid_base = SECOND_BASE,
                                        .userns_fd = -1,
                                        .hostname = "x"};
        struct cay_error err = {};
        struct cay_sandbox *sandbox = NULL;
        assert_false(cay_runtime_start(fixture.runtime, &spec, &sandbox, &err));
        assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
    }
}

static void the_root_is_switched_under_a_living_sandbox(void **)
{
    fixture_needs(CAY_RUNTIME_ISOLATES | CAY_RUNTIME_SWITCHES);
    struct root scratch[3];
    int userns = cay_userns_open(SECOND_BASE, CAY_USERNS_COUNT);
    assert_true(userns >= 0);
    int first = open_overlay(&scratch[0], userns);
    assert_true(first >= 0);
    struct cay_sandbox_spec spec = {.id = "switch",
                                    .root_fd = first,
                                    .uid_base = SECOND_BASE,
                                    .userns_fd = userns,
                                    .hostname = "switch"};
    struct cay_error err = {};
    struct cay_sandbox *sandbox = NULL;
    if (!cay_runtime_start(fixture.runtime, &spec, &sandbox, &err))
        fail_msg("%s", err.text);
    struct driver driver;
    assert_true(driver_open(&driver, sandbox));
    struct driver_call *call = driver_run(
        &driver, &(struct driver_exec){.script = "echo one > /workspace/file; cat /workspace/file",
                                       .uid = 1000});
    assert_non_null(call);
    assert_string_equal(driver_text(&call->out), "one\n");

    for (int i = 1; i < 3; i++) {
        cay_autoclose int next = open_overlay(&scratch[i], userns);
        assert_true(next >= 0);
        int old = -1;
        call = driver_start(&driver, &(struct driver_exec){.args = ARGS("sleep", "68")});
        assert_non_null(call);
        assert_true(cay_link_ping(driver.link, (uint64_t)i, &err));
        while (driver.pong != (uint64_t)i && !driver.dead)
            driver_step(&driver, 100);
        assert_false(cay_sandbox_switch_root(sandbox, next, &old, &err));
        assert_int_equal(err.reason, CAY_R_TOOLS_IN_FLIGHT);
        assert_true(cay_link_signal(driver.link, call->id, SIGKILL, CAY_TARGET_TREE, &err));
        assert_true(driver_until(&driver, &call->exited, 2000));
        if (!cay_sandbox_switch_root(sandbox, next, &old, &err))
            fail_msg("%s", err.text);
        assert_true(old >= 0);
        close(old);
        call = driver_run(&driver, &(struct driver_exec){
                                       .script = "test -e /workspace/file || echo fresh; cat "
                                                 "/proc/self/comm; echo x > /dev/null && echo dev; "
                                                 "echo two > /etc/two; ls /.. | tr '\\n' ' '; "
                                                 "cat /proc/mounts | grep -c ' / '"});
        assert_non_null(call);
        assert_string_equal(driver_text(&call->out),
                            "fresh\ncat\ndev\nbin dev etc home proc root sys tmp workspace 1\n");
    }
    driver_close(&driver);
    assert_true(cay_sandbox_destroy(sandbox, &err));
    close(first);
    close(userns);
    char path[ROOT_PATH_BYTES + 32];
    snprintf(path, sizeof(path), "%s/upper/workspace/file", scratch[0].path);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_uid, 1000);
    snprintf(path, sizeof(path), "%s/upper/etc/two", scratch[1].path);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_uid, 0);
    for (int i = 0; i < 3; i++)
        root_remove(&scratch[i]);
}

static int count_lines(const char *path)
{
    FILE *file = fopen(path, "re");
    int count = 0;
    for (int c = 0; file && (c = fgetc(file)) != EOF;)
        count += c == '\n';
    if (file)
        fclose(file);
    return count;
}

static int count_fds(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void cycle(int count)
{
    for (int i = 0; i < count; i++) {
        struct cay_sandbox *sandbox = NULL;
        assert_true(fixture_start("cycle", SECOND_BASE, NULL, &sandbox));
        struct driver driver;
        assert_true(driver_open(&driver, sandbox));
        assert_non_null(driver_run(&driver, &(struct driver_exec){.script = "sleep 69 & true"}));
        driver_close(&driver);
        struct cay_error err = {};
        assert_true(cay_sandbox_destroy(sandbox, &err));
    }
}

static void nothing_is_left_behind(void **)
{
    fixture_needs(CAY_RUNTIME_RUNS_PROGRAMS);
    bool is_dear = has_own_kernel();
    cycle(is_dear ? 2 : 10); /* what was made ready ahead is used up */
    int mounts = count_lines("/proc/self/mountinfo");
    int fds = count_fds();
    cycle(is_dear ? 4 : 20);
    assert_int_equal(count_lines("/proc/self/mountinfo"), mounts);
    assert_int_equal(count_fds(), fds);
    char name[128];
    snprintf(name, sizeof(name), "%s/cycle", fixture.cgroup_parent);
    struct cay_cgroup_host host;
    struct cay_cgroup group;
    if (cay_cgroup_detect(&host) == 0)
        assert_int_equal(cay_cgroup_open(&host, name, 0, &group), -ENOENT);
}

static unsigned long number_in(const char *path, const char *label)
{
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    char line[256];
    unsigned long number = 0;
    while (!number && fgets(line, sizeof(line), file))
        number =
            strncmp(line, label, strlen(label)) == 0 ? strtoul(line + strlen(label), NULL, 10) : 0;
    assert_int_equal(fclose(file), 0);
    return number;
}

/* The kernel would give each init a table as large as ours. */
static void init_has_no_room_for_our_descriptors(void **)
{
    fixture_needs(CAY_RUNTIME_RUNS_PROGRAMS);
    if (has_own_kernel())
        return; /* runsc starts it, and is large itself */
    cay_autoclose int high_fd = fcntl(0, F_DUPFD_CLOEXEC, 1000);
    assert_true(high_fd >= 1000);
    struct cay_sandbox *sandbox = NULL;
    struct cay_error err = {};
    char path[64];
    assert_true(fixture_start("small", SECOND_BASE, NULL, &sandbox));
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", cay_sandbox_pidfd(sandbox));
    unsigned long pid = number_in(path, "Pid:");
    snprintf(path, sizeof(path), "/proc/%lu/status", pid);
    assert_in_range(number_in(path, "FDSize:"), 1, 256);
    assert_true(cay_sandbox_destroy(sandbox, &err));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(memory_is_limited_and_the_kill_is_told_apart),
        TEST(processes_are_limited),
        TEST(a_fork_bomb_dies_with_its_timeout),
        TEST(the_processor_is_limited),
        TEST(user_and_root_are_who_they_say_and_can_what_they_may),
        TEST(root_of_the_sandbox_is_nobody_on_the_host),
        TEST(frozen_means_frozen_and_the_pause_does_not_count),
        TEST(a_frozen_sandbox_can_be_destroyed),
        TEST(a_sandbox_outlives_its_daemon_and_is_adopted),
        TEST(what_is_left_of_a_dead_daemons_sandbox_goes_by_its_id),
        TEST(two_sandboxes_do_not_see_each_other),
        TEST(the_loopback_is_up_and_low_ports_can_be_bound),
        TEST(hostile_code_gets_nowhere),
        TEST(a_tree_with_links_for_dev_and_proc_is_refused),
        TEST(ids_that_are_no_file_names_are_refused),
        TEST(the_root_is_switched_under_a_living_sandbox),
        TEST(nothing_is_left_behind),
        TEST(init_has_no_room_for_our_descriptors),
    };
    int result = fixture_begin(argc, argv);
    if (result >= 0)
        return result;
    return fixture_end(cmocka_run_group_tests(tests, NULL, NULL));
}

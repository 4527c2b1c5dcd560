/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/child.h"

enum { OUTPUT_BYTES_MAX = 4096 };

struct fixture {
    struct cay_loop *loop;
    struct cay_timer guard;
    struct cay_child child;
    int exited_count;
    int pipe[2];
    char output[OUTPUT_BYTES_MAX];
};

static void give_up(struct cay_timer *)
{
    fail_msg("nothing happened for ten seconds");
}

static int setup(void **state)
{
    struct fixture *self = cay_new(struct fixture);
    assert_int_equal(cay_loop_create(&self->loop), 0);
    cay_timer_open(&self->guard, self->loop, give_up);
    cay_timer_start(&self->guard, 10000, 0);
    assert_int_equal(pipe2(self->pipe, O_CLOEXEC), 0);
    *state = self;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *self = *state;
    cay_child_close(&self->child);
    cay_child_close(&self->child);
    cay_timer_close(&self->guard);
    cay_loop_destroy(self->loop);
    for (int i = 0; i < 2; i++) {
        if (self->pipe[i] >= 0)
            close(self->pipe[i]);
    }
    free(self);
    /* No child is left, not even a dead one. */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    return 0;
}

static void on_exited(struct cay_child *child)
{
    struct fixture *self = CAY_CONTAINER_OF(child, struct fixture, child);
    self->exited_count++;
    cay_loop_stop(self->loop);
}

static int spawn(struct fixture *self, const char *script, const struct cay_child_spec *more)
{
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    const int fds[] = {-1, self->pipe[1], self->pipe[1]};
    struct cay_child_spec spec = more ? *more : (struct cay_child_spec){};
    spec.argv = argv;
    if (!spec.fds) {
        spec.fds = fds;
        spec.fd_count = CAY_COUNT(fds);
    }
    return cay_child_spawn(&self->child, self->loop, &spec, on_exited);
}

/* What it wrote until everybody who holds the pipe has ended. */
static const char *output(struct fixture *self)
{
    size_t len = 0;
    ssize_t got = 0;
    close(cay_take_fd(self->pipe[1]));
    while ((got = read(self->pipe[0], self->output + len, OUTPUT_BYTES_MAX - 1 - len)) > 0)
        len += (size_t)got;
    self->output[len] = '\0';
    return self->output;
}

static void exit_codes_come_back(void **state)
{
    struct fixture *self = *state;
    assert_int_equal(spawn(self, "exit 7", NULL), 0);
    cay_loop_run(self->loop);
    assert_int_equal(self->exited_count, 1);
    assert_int_equal(self->child.exit_code, 7);
    assert_int_equal(self->child.exit_signal, 0);
}

static void signals_come_back(void **state)
{
    struct fixture *self = *state;
    assert_int_equal(spawn(self, "kill -TERM $$", NULL), 0);
    cay_loop_run(self->loop);
    assert_int_equal(self->child.exit_signal, SIGTERM);
    assert_int_equal(self->child.exit_code, 0);
}

static void it_gets_what_it_is_given_and_nothing_else(void **state)
{
    struct fixture *self = *state;
    static const char *const env[] = {"A=b", "PATH=/usr/bin:/bin", NULL};
    int leak = dup(0); /* as if our parent had left it open */
    signal(SIGPIPE, SIG_IGN);
    static const char script[] = "env | grep -v '^_=\\|^PWD=\\|^SHLVL=' | sort; pwd;"
                                 "ls /proc/self/fd | tr '\\n' ' ';"
                                 "grep 'SigIgn\\|SigBlk' /proc/self/status | tail -c 8";
    assert_int_equal(spawn(self, script, &(struct cay_child_spec){.env = env, .cwd = "/usr"}), 0);
    cay_loop_run(self->loop);
    signal(SIGPIPE, SIG_DFL);
    close(leak);
    /* ls has opened the directory it lists as 3. The signals above the named ones are libc's. */
    assert_string_equal(output(self), "A=b\nPATH=/usr/bin:/bin\n/usr\n0 1 2 3 0000000\n");
}

static void the_environment_is_empty_unless_given(void **state)
{
    struct fixture *self = *state;
    setenv("CAY_CHILD_TEST", "inherited", 1);
    assert_int_equal(spawn(self, "echo \"[$CAY_CHILD_TEST]\"", NULL), 0);
    cay_loop_run(self->loop);
    unsetenv("CAY_CHILD_TEST");
    assert_string_equal(output(self), "[]\n");
}

static void descriptors_may_stand_in_each_others_places(void **state)
{
    struct fixture *self = *state;
    int one[2];
    int two[2];
    assert_int_equal(pipe2(one, O_CLOEXEC), 0);
    assert_int_equal(pipe2(two, O_CLOEXEC), 0);
    /* In the child 3 to 6 are these pipes' ends in an order that overlaps their numbers here. */
    const int fds[] = {-1, self->pipe[1], -1, two[1], one[1], two[0], one[0], self->pipe[1]};
    assert_int_equal(spawn(self, "echo a >&4; echo b >&3; read x <&6; read y <&5; echo $x$y >&7",
                           &(struct cay_child_spec){.fds = fds, .fd_count = CAY_COUNT(fds)}),
                     0);
    cay_loop_run(self->loop);
    for (int i = 0; i < 2; i++) {
        close(one[i]);
        close(two[i]);
    }
    assert_int_equal(self->child.exit_code, 0);
    assert_string_equal(output(self), "ab\n");
}

static void standard_descriptors_are_never_missing(void **state)
{
    struct fixture *self = *state;
    const int none[] = {-1};
    assert_int_equal(spawn(self,
                           "[ /dev/null -ef /proc/self/fd/0 ] && [ /dev/null -ef "
                           "/proc/self/fd/1 ] && [ /dev/null -ef /proc/self/fd/2 ]",
                           &(struct cay_child_spec){.fds = none, .fd_count = 1}),
                     0);
    cay_loop_run(self->loop);
    assert_int_equal(self->child.exit_code, 0);
}

static size_t count_fds(void)
{
    size_t count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void what_cannot_be_run_is_told_at_once(void **state)
{
    struct fixture *self = *state;
    static const char *const missing[] = {"/nonexistent/program", NULL};
    static const char *const unknown[] = {"no-such-program-anywhere", NULL};
    static const char *const directory[] = {"/tmp", NULL};
    static const char *const nothing[] = {NULL};
    static const char *const shell[] = {"sh", "-c", "exit 0", NULL};
    static const int bad_fds[] = {-1, 250};
    const struct {
        struct cay_child_spec spec;
        int status;
    } cases[] = {
        {{.argv = missing}, -ENOENT},
        {{.argv = unknown}, -ENOENT},
        {{.argv = directory}, -EACCES},
        {{.argv = nothing}, -EINVAL},
        {{.argv = shell, .cwd = "/nonexistent"}, -ENOENT},
        {{.argv = shell, .path = "/nonexistent/sh"}, -ENOENT},
        {{.argv = shell, .fds = bad_fds, .fd_count = 2}, -EBADF},
    };
    size_t before = count_fds();
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        assert_int_equal(cay_child_spawn(&self->child, self->loop, &cases[i].spec, on_exited),
                         cases[i].status);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        cay_child_close(&self->child);
    }
    assert_int_equal(count_fds(), before);
    const struct cay_child_spec good = {.argv = shell};
    assert_int_equal(cay_child_spawn(&self->child, self->loop, &good, on_exited), 0);
    cay_loop_run(self->loop);
    assert_int_equal(self->child.exit_code, 0);
}

static void what_a_child_leaves_behind_lives_or_dies_as_asked(void **state)
{
    struct fixture *self = *state;
    static const char script[] = "sleep 1000 & echo $!";
    assert_int_equal(spawn(self, script, NULL), 0);
    cay_loop_run(self->loop);
    assert_int_equal(self->child.exit_code, 0);
    ssize_t len = read(self->pipe[0], self->output, 32);
    uint64_t pid = 0;
    assert_true(len > 1);
    assert_int_equal(
        cay_str_to_u64((struct cay_str){self->output, (size_t)len - 1}, INT32_MAX, &pid), 0);
    assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
    assert_int_equal(spawn(self, script, &(struct cay_child_spec){.kills_leftovers = true}), 0);
    cay_loop_run(self->loop);
    assert_int_equal(self->child.exit_code, 0);
    assert_true(strlen(output(self)) > 1); /* ends only when nobody holds the pipe */
}

static void closing_a_child_that_runs_kills_it_quietly(void **state)
{
    struct fixture *self = *state;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(spawn(self, "sleep 1000 & sleep 1000", NULL), 0);
        assert_int_equal(getpgid(self->child.pid), self->child.pid);
        cay_child_close(&self->child);
    }
    cay_loop_finish_jobs(self->loop);
    assert_int_equal(self->exited_count, 0);
    assert_string_equal(output(self), "");
}

struct heap_child {
    struct cay_child child;
    struct cay_loop *loop;
    int *left;
};

static void free_owner(struct cay_child *child)
{
    struct heap_child *self = CAY_CONTAINER_OF(child, struct heap_child, child);
    struct cay_loop *loop = self->loop;
    assert_int_equal(child->exit_code, 3);
    bool is_last = --*self->left == 0;
    cay_child_close(child);
    free(self);
    if (is_last)
        cay_loop_stop(loop);
}

static void many_children_end_and_free_their_owners(void **state)
{
    struct fixture *self = *state;
    static const char *const argv[] = {"/bin/sh", "-c", "exit 3", NULL};
    const struct cay_child_spec spec = {.argv = argv};
    int left = 100;
    size_t before = count_fds();
    for (int i = 0; i < 100; i++) {
        struct heap_child *child = cay_new(struct heap_child);
        child->loop = self->loop;
        child->left = &left;
        assert_int_equal(cay_child_spawn(&child->child, self->loop, &spec, free_owner), 0);
        assert_true(fcntl(child->child.pid_fd, F_GETFD) & FD_CLOEXEC);
    }
    cay_loop_run(self->loop);
    assert_int_equal(left, 0);
    assert_int_equal(count_fds(), before);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(exit_codes_come_back),
        CASE(signals_come_back),
        CASE(it_gets_what_it_is_given_and_nothing_else),
        CASE(the_environment_is_empty_unless_given),
        CASE(descriptors_may_stand_in_each_others_places),
        CASE(standard_descriptors_are_never_missing),
        CASE(what_cannot_be_run_is_told_at_once),
        CASE(what_a_child_leaves_behind_lives_or_dies_as_asked),
        CASE(closing_a_child_that_runs_kills_it_quietly),
        CASE(many_children_end_and_free_their_owners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

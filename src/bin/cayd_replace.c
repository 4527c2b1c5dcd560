/* SPDX-License-Identifier: Apache-2.0 */
#include "bin/cayd_replace.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

void cayd_replace_init(struct cayd_replace *replace, const char *const *argv)
{
    char self[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[CAY_MAX(len, 0)] = '\0';
    *replace = (struct cayd_replace){.program = cay_strdup(self), .argv = argv};
}

void cayd_replace_finish(struct cayd_replace *replace)
{
    cay_child_close(&replace->child);
    free(cay_take_ptr(replace->program));
}

static void on_checked(struct cay_child *child)
{
    struct cayd_replace *replace = CAY_CONTAINER_OF(child, struct cayd_replace, child);
    bool is_good = child->exit_code == 0 && child->exit_signal == 0;
    cay_child_close(child);
    replace->checked(replace, is_good);
}

bool cayd_replace_check(struct cayd_replace *replace, struct cay_loop *loop,
                        void (*checked)(struct cayd_replace *replace, bool is_good),
                        struct cay_error *err)
{
    size_t count = 0;
    while (replace->argv[count])
        count++;
    cay_autofree const char **argv = cay_alloc((count + 2) * sizeof(*argv));
    memcpy(argv, replace->argv, count * sizeof(*argv));
    argv[count] = "--print-config";
    const int fds[] = {-1, -1, STDERR_FILENO}; /* what is wrong goes where our log goes */
    const struct cay_child_spec spec = {
        .path = replace->program,
        .argv = argv,
        .env = (const char *const *)environ,
        .fds = fds,
        .fd_count = CAY_COUNT(fds),
    };
    replace->checked = checked;
    cay_child_close(&replace->child);
    int status = cay_child_spawn(&replace->child, loop, &spec, on_checked);
    return status == 0 ||
           cay_fail_errno(err, CAY_R_INTERNAL, status, "cannot run '%s'", replace->program);
}

static void all_of_ours(sigset_t *out_signals)
{
    sigemptyset(out_signals);
    sigaddset(out_signals, SIGTERM);
    sigaddset(out_signals, SIGINT);
    sigaddset(out_signals, SIGHUP);
    sigaddset(out_signals, SIGUSR2);
}

void cayd_replace_hold_signals(void)
{
    sigset_t signals;
    all_of_ours(&signals);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
}

void cayd_replace_exec(struct cayd_replace *replace, struct cay_heirs *heirs, struct cay_error *err)
{
    sigset_t signals;
    int status = cay_heirs_pass(heirs);
    if (status < 0) {
        cay_fail_errno(err, CAY_R_INTERNAL, status, "cannot pass the sockets on");
        return;
    }
    /* Until the program has handlers for them, these two would end it. It is about to do what they
     * ask for. */
    signal(SIGHUP, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    all_of_ours(&signals);
    (void)sigprocmask(SIG_UNBLOCK, &signals, NULL);
    (void)execv(replace->program, (char *const *)(uintptr_t)replace->argv);
    cay_fail_errno(err, CAY_R_INTERNAL, -errno, "cannot run '%s'", replace->program);
}

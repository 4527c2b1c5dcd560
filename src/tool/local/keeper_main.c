/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/local/keeper_main.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "sys/clone.h"
#include "sys/program.h"
#include "sys/raw.h"
#include "tool/outcome.h"

/*
 * Raw system calls and own memory only. Until the command has started the caller's thread waits, so
 * that what is the thread's (its canary, for one) is there; from then on it may be gone, and with
 * it the memory that the compiler's checks look at: the functions after that have none.
 */
#define KEEPER [[gnu::no_stack_protector, gnu::no_sanitize("address", "undefined", "thread")]]

enum {
    EXIT_NOT_STARTED = 127,
    SIGNALS = 64,
    KILL_ROUND_MS = 10,
};

/* What the kernel takes for sigaction: all zero is the default. */
struct kernel_action {
    uint64_t words[4];
};

struct keeper {
    const struct cay_keeper_main *main;
    int control_fd; /* -1: nobody is there any more */
    int signal_fd;
    int children_fd; /* -1: this kernel does not say */
    int output[2];   /* -1: not drained, or over */
    long command;    /* its pid */
    bool has_ended;
    bool is_dying;
};

/* --- the command, until it is one --- */

static int set_stdio(const struct cay_keeper_spec *spec)
{
    long fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = spec->stdio[i];
        if (fds[i] < 3)
            fds[i] = cay_raw3(SYS_fcntl, fds[i], F_DUPFD_CLOEXEC, 3);
        if (fds[i] < 0)
            return (int)fds[i];
    }
    for (int i = 0; i < 3; i++) {
        long result = cay_raw3(SYS_dup3, fds[i], i, 0);
        if (result < 0)
            return (int)result;
    }
    return 0;
}

/* All that is open is close-on-exec. */
static int become(const struct cay_keeper_main *main, uint32_t *step)
{
    uint64_t none = 0;
    cay_raw0(SYS_setsid);
    /* A keeper that somebody kills takes the command with it. */
    cay_raw5(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    cay_raw1(SYS_umask, 022);
    *step = CAY_STEP_OTHER;
    int result = set_stdio(&main->spec);
    if (result < 0)
        return result;
    *step = CAY_STEP_CWD;
    result = (int)cay_raw1(SYS_fchdir, main->spec.cwd_fd);
    if (result < 0)
        return result;
    *step = CAY_STEP_EXEC;
    cay_raw4(SYS_rt_sigprocmask, SIG_SETMASK, &none, 0, sizeof(none));
    return cay_program_exec(main->spec.argv, main->spec.env);
}

static int child_main(void *arg)
{
    const struct cay_keeper_main *main = arg;
    struct cay_keeper_report report = {.kind = CAY_KEEPER_FAILED};
    report.error = -become(main, &report.step);
    cay_raw3(SYS_write, main->report_fd, &report, sizeof(report));
    return EXIT_NOT_STARTED;
}

/* Returns once it has become the command, or has said why not. */
static long start_command(const struct cay_keeper_main *main)
{
    const struct cay_clone how = {.flags = CAY_CLONE_SHARED,
                                  .exit_signal = SIGCHLD,
                                  .cgroup_fd = -1,
                                  .stack = main->child_stack};
    union {
        const struct cay_keeper_main *main;
        void *arg;
    } arg = {.main = main};
    long pid = cay_clone_call(&how, child_main, arg.arg);
    if (pid == -ENOSYS) {
        pid = cay_raw5(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
        if (pid == 0)
            cay_raw1(SYS_exit_group, child_main(arg.arg));
    }
    return pid;
}

/* --- the keeper --- */

/* Ours is a copy of the caller's table: what is not needed is let go at once. */
static void close_others(const struct cay_keeper_main *main)
{
    int kept[] = {main->control_fd,     main->report_fd,     main->spec.cwd_fd,
                  main->spec.stdio[0],  main->spec.stdio[1], main->spec.stdio[2],
                  main->spec.output[0], main->spec.output[1]};
    unsigned from = 0;
    for (;;) {
        unsigned next = UINT_MAX;
        for (size_t i = 0; i < CAY_COUNT(kept); i++) {
            if (kept[i] >= 0 && (unsigned)kept[i] >= from && (unsigned)kept[i] < next)
                next = (unsigned)kept[i];
        }
        if (next > from)
            cay_raw3(SYS_close_range, from, next == UINT_MAX ? UINT_MAX : next - 1, 0);
        if (next == UINT_MAX)
            return;
        from = next + 1;
    }
}

static void reset_signals(void)
{
    const struct kernel_action as_usual = {};
    for (int signal = 1; signal <= SIGNALS; signal++)
        cay_raw4(SYS_rt_sigaction, signal, &as_usual, 0, sizeof(uint64_t));
}

KEEPER static void report(const struct keeper *keeper, const struct cay_keeper_report *report)
{
    cay_raw3(SYS_write, keeper->main->report_fd, report, sizeof(*report));
}

KEEPER static void tell_end(struct keeper *keeper, int status, const struct rusage *usage,
                            bool has_left)
{
    const struct cay_keeper_report end = {
        .kind = CAY_KEEPER_ENDED,
        .pid = (int32_t)keeper->command,
        .status = status,
        .has_left = has_left,
        .user_usec = (uint64_t)usage->ru_utime.tv_sec * 1000000 + (uint64_t)usage->ru_utime.tv_usec,
        .system_usec =
            (uint64_t)usage->ru_stime.tv_sec * 1000000 + (uint64_t)usage->ru_stime.tv_usec,
        .peak_bytes = (uint64_t)usage->ru_maxrss * 1024,
    };
    report(keeper, &end);
}

/* Waits for who has ended. True when nobody is left: then there is no descendant either, since an
 * orphan is ours before its parent can be waited for. */
KEEPER static bool reap(struct keeper *keeper)
{
    struct rusage usage;
    struct rusage command_usage;
    int status = 0;
    int command_status = 0;
    bool has_just_ended = false;
    long pid;
    while ((pid = cay_raw4(SYS_wait4, -1, &status, WNOHANG | __WALL, &usage)) > 0) {
        if (pid != keeper->command || keeper->has_ended)
            continue;
        keeper->has_ended = has_just_ended = true;
        command_status = status;
        command_usage = usage;
    }
    if (has_just_ended)
        tell_end(keeper, command_status, &command_usage, pid == 0);
    return pid < 0;
}

/* The children of a killed process come to us, and are killed the next time. */
KEEPER static void kill_children(const struct keeper *keeper)
{
    char text[512];
    long pid = 0;
    long len;
    if (!keeper->has_ended)
        cay_raw2(SYS_kill, -keeper->command, SIGKILL);
    if (keeper->children_fd < 0 || cay_raw3(SYS_lseek, keeper->children_fd, 0, 0) < 0)
        return;
    while ((len = cay_raw3(SYS_read, keeper->children_fd, text, sizeof(text))) > 0) {
        for (long i = 0; i < len; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (text[i] - '0');
                continue;
            }
            if (pid > 0)
                cay_raw2(SYS_kill, pid, SIGKILL);
            pid = 0;
        }
    }
}

KEEPER static void obey(struct keeper *keeper)
{
    uint8_t orders[16];
    long len = cay_raw3(SYS_read, keeper->control_fd, orders, sizeof(orders));
    if (len == 0) { /* the caller is gone */
        keeper->is_dying = true;
        keeper->control_fd = -1;
    }
    for (long i = 0; i < len; i++) {
        if (orders[i] == CAY_KEEPER_KILL) {
            keeper->is_dying = true;
        } else if (orders[i] == CAY_KEEPER_DRAIN) {
            keeper->output[0] = keeper->main->spec.output[0];
            keeper->output[1] = keeper->main->spec.output[1];
        } else if (!keeper->has_ended) {
            cay_raw2(SYS_kill, -keeper->command, orders[i]);
        }
    }
}

KEEPER static void throw_away(int *fd)
{
    char block[4096];
    long got = cay_raw3(SYS_read, *fd, block, sizeof(block));
    if (got == 0 || (got < 0 && got != -EAGAIN && got != -EINTR))
        *fd = -1; /* a closed one is readable for ever */
}

KEEPER static void wait_for_news(struct keeper *keeper)
{
    struct pollfd waits[4];
    const int fds[4] = {keeper->signal_fd, keeper->control_fd, keeper->output[0],
                        keeper->output[1]};
    for (int i = 0; i < 4; i++) {
        waits[i].fd = fds[i];
        waits[i].events = POLLIN;
        waits[i].revents = 0;
    }
    struct timespec soon = {.tv_nsec = KILL_ROUND_MS * 1000000L};
    if (cay_raw5(SYS_ppoll, waits, 4, keeper->is_dying ? &soon : 0, 0, 0) <= 0)
        return;
    char ignored[512];
    if (waits[0].revents)
        cay_raw3(SYS_read, keeper->signal_fd, ignored, sizeof(ignored));
    if (waits[1].revents)
        obey(keeper);
    if (waits[2].revents)
        throw_away(&keeper->output[0]);
    if (waits[3].revents)
        throw_away(&keeper->output[1]);
}

KEEPER static int keep(struct keeper *keeper)
{
    while (!reap(keeper)) {
        if (keeper->is_dying)
            kill_children(keeper);
        wait_for_news(keeper);
    }
    return 0;
}

static int keep_up(const struct cay_keeper_main *main, struct keeper *keeper)
{
    uint64_t child_signal = UINT64_C(1) << (SIGCHLD - 1);
    cay_raw0(SYS_setsid);
    cay_raw5(SYS_prctl, PR_SET_NAME, "cay-keeper", 0, 0, 0);
    close_others(main);
    reset_signals();
    long result = cay_raw5(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    keeper->children_fd =
        (int)cay_raw4(SYS_openat, AT_FDCWD, "/proc/thread-self/children", O_RDONLY | O_CLOEXEC, 0);
    keeper->signal_fd = (int)cay_raw4(SYS_signalfd4, -1, &child_signal, sizeof(child_signal),
                                      O_CLOEXEC | O_NONBLOCK);
    if (result == 0)
        result = keeper->signal_fd < 0 ? keeper->signal_fd : start_command(main);
    return (int)result;
}

KEEPER int cay_keeper_main(void *arg)
{
    const struct cay_keeper_main *main = arg;
    struct keeper keeper = {.main = main, .control_fd = main->control_fd, .output = {-1, -1}};
    int pid = keep_up(main, &keeper);
    struct cay_keeper_report first = {.kind = CAY_KEEPER_STARTED, .pid = pid};
    if (pid < 0)
        first = (struct cay_keeper_report){
            .kind = CAY_KEEPER_FAILED, .step = CAY_STEP_FORK, .error = -pid};
    keeper.command = pid;
    for (int i = 0; i < 3; i++)
        cay_raw1(SYS_close, main->spec.stdio[i]);
    cay_raw1(SYS_close, main->spec.cwd_fd);
    report(&keeper, &first);
    return pid < 0 ? 0 : keep(&keeper);
}

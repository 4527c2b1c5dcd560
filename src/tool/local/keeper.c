/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/local/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/clone.h"
#include "sys/pidfd.h"
#include "sys/raw.h"
#include "tool/local/keeper_main.h"
#include "tool/local/pipe.h"

enum { CLOSE_WAIT_MS = 10'000 };

/* Once it is up nothing of the caller's is used, which goes on and may free what it likes. */
struct memory {
    _Alignas(16) char stack[CAY_CLONE_STACK_BYTES];
    _Alignas(16) char child_stack[CAY_CLONE_STACK_BYTES];
    struct cay_keeper_main main;
};

void cay_keeper_init(struct cay_keeper *keeper)
{
    *keeper = (struct cay_keeper){.pidfd = -1, .control_fd = -1, .report_fd = -1};
}

/* With every signal blocked, also those that the C library keeps for itself: no handler of the
 * caller's may run in the keeper, whose memory is the caller's. */
static int start_blocked(struct memory *memory, int *out_pidfd)
{
    const struct cay_clone how = {
        .flags = CLONE_VM, .cgroup_fd = -1, .out_pidfd = out_pidfd, .stack = memory->stack};
    uint64_t all = UINT64_MAX;
    uint64_t before = 0;
    (void)cay_raw4(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
    int pid = cay_clone_call(&how, cay_keeper_main, &memory->main);
    if (pid == -ENOSYS) {
        /* The memory is a copy then, and so is the stack. */
        pid = (int)cay_raw5(SYS_clone, CLONE_PIDFD, 0, out_pidfd, 0, 0);
        if (pid == 0)
            cay_raw1(SYS_exit_group, cay_keeper_main(&memory->main));
    }
    (void)cay_raw4(SYS_rt_sigprocmask, SIG_SETMASK, &before, 0, sizeof(before));
    return pid;
}

static int open_pipes(struct cay_keeper *keeper, struct cay_keeper_main *main)
{
    int control[2];
    int report[2];
    if (pipe2(control, O_CLOEXEC) < 0)
        return -errno;
    keeper->control_fd = control[1];
    main->control_fd = control[0];
    if (pipe2(report, O_CLOEXEC) < 0)
        return -errno;
    keeper->report_fd = report[0];
    main->report_fd = report[1];
    /* A keeper that is stopped does not hold its caller up. */
    if (fcntl(keeper->report_fd, F_SETFL, O_NONBLOCK) < 0 ||
        fcntl(keeper->control_fd, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    return 0;
}

/* Until the command has become what it is, or has said why not, it uses what the spec holds. */
static int read_first(struct cay_keeper *keeper, struct cay_keeper_report *out_report)
{
    for (;;) {
        struct pollfd waits = {.fd = keeper->report_fd, .events = POLLIN};
        (void)poll(&waits, 1, -1);
        int got = cay_keeper_read(keeper, out_report);
        if (got != 0)
            return got < 0 ? got : 0;
    }
}

int cay_keeper_start(struct cay_keeper *keeper, const struct cay_keeper_spec *spec,
                     struct cay_keeper_report *out_report)
{
    cay_keeper_init(keeper);
    struct memory *memory = mmap(NULL, sizeof(*memory), PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    keeper->memory = memory;
    memory->main = (struct cay_keeper_main){
        .spec = *spec, .control_fd = -1, .report_fd = -1, .child_stack = memory->child_stack};
    int result = open_pipes(keeper, &memory->main);
    int theirs[2] = {memory->main.control_fd, memory->main.report_fd};
    if (result == 0)
        result = start_blocked(memory, &keeper->pidfd);
    for (size_t i = 0; i < CAY_COUNT(theirs); i++) {
        if (theirs[i] >= 0)
            close(theirs[i]);
    }
    if (result > 0) {
        keeper->pid = result;
        result = keeper->pidfd < 0 ? keeper->pidfd : read_first(keeper, out_report);
    }
    if (result < 0)
        cay_keeper_close(keeper);
    return result;
}

int cay_keeper_read(struct cay_keeper *keeper, struct cay_keeper_report *out_report)
{
    /* Written at once, and shorter than a pipe takes at once (pipe(7)). */
    ssize_t got = read(keeper->report_fd, out_report, sizeof(*out_report));
    if (got == (ssize_t)sizeof(*out_report))
        return 1;
    return got < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -EPIPE;
}

static int tell(const struct cay_keeper *keeper, uint8_t what)
{
    if (keeper->control_fd < 0)
        return -EPIPE;
    ssize_t put = cay_pipe_write(keeper->control_fd, &what, 1);
    return put < 0 ? (int)put : 0;
}

int cay_keeper_signal(const struct cay_keeper *keeper, int signal)
{
    return signal > 0 && signal < CAY_KEEPER_DRAIN ? tell(keeper, (uint8_t)signal) : -EINVAL;
}

int cay_keeper_drain(const struct cay_keeper *keeper)
{
    return tell(keeper, CAY_KEEPER_DRAIN);
}

int cay_keeper_kill(const struct cay_keeper *keeper)
{
    return tell(keeper, CAY_KEEPER_KILL);
}

bool cay_keeper_is_gone(const struct cay_keeper *keeper)
{
    return keeper->pidfd < 0 || cay_pidfd_wait(keeper->pidfd, 0) == 0;
}

void cay_keeper_close(struct cay_keeper *keeper)
{
    /* The end of the pipe says that there is nobody any more. */
    if (keeper->control_fd >= 0)
        close(keeper->control_fd);
    /* Who waits for a dead disk dies when that answers. Its keeper stays then, and its memory. */
    bool is_gone = keeper->pidfd < 0 || cay_pidfd_wait(keeper->pidfd, CLOSE_WAIT_MS) == 0;
    if (keeper->pidfd >= 0) {
        cay_pidfd_reap(keeper->pidfd);
        close(keeper->pidfd);
    }
    if (keeper->report_fd >= 0)
        close(keeper->report_fd);
    if (keeper->memory && is_gone)
        munmap(keeper->memory, sizeof(struct memory));
    cay_keeper_init(keeper);
}

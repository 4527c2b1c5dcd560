/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/local/command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "sys/pidfd.h"
#include "tool/local/pipe.h"

enum {
    BLOCK_BYTES = 65536,
    STDIN_STEP_BYTES = 65536,
    /* For what was killed to be gone. Longer takes who waits for a disk; nobody waits for that. */
    KILLED_WAIT_MS = 2000,
};

/* --- its start --- */

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Our end never blocks; the command's does, as it expects. */
static int open_pipe(int *out_ours, int *out_theirs, bool reads)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    *out_ours = fds[reads ? 0 : 1];
    *out_theirs = fds[reads ? 1 : 0];
    return fcntl(*out_ours, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static int open_stdio(struct cay_local_command *command, int ends[3])
{
    int result = open_pipe(&command->output_fd[0], &ends[1], true);
    if (result == 0)
        result = open_pipe(&command->output_fd[1], &ends[2], true);
    if (result == 0 && command->spec.stdin_data.len) {
        result = open_pipe(&command->stdin_fd, &ends[0], false);
    } else if (result == 0) {
        ends[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        result = ends[0] < 0 ? -errno : 0;
    }
    if (result == 0)
        command->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return result == 0 && command->wake_fd < 0 ? -errno : result;
}

static int start(struct cay_local_command *command)
{
    int ends[3] = {-1, -1, -1};
    struct rusage own;
    command->block = malloc(BLOCK_BYTES);
    int result = command->block ? open_stdio(command, ends) : -ENOMEM;
    const struct cay_keeper_spec spec = {
        .argv = command->spec.argv,
        .env = command->spec.env,
        .cwd_fd = command->spec.cwd_fd,
        .stdio = {ends[0], ends[1], ends[2]},
        .output = {command->output_fd[0], command->output_fd[1]},
    };
    struct cay_keeper_report first = {};
    if (getrusage(RUSAGE_SELF, &own) == 0)
        command->own_peak_bytes = (uint64_t)own.ru_maxrss * 1024;
    command->started_ns = cay_clock_wall_ns();
    command->begun_ns = command->heard_ns = cay_clock_ns();
    if (result == 0)
        result = cay_keeper_start(&command->keeper, &spec, &first);
    for (size_t i = 0; i < CAY_COUNT(ends); i++)
        close_fd(&ends[i]);
    if (result < 0)
        return result;
    command->pid = first.pid;
    if (first.kind == CAY_KEEPER_FAILED) {
        command->failed_step = (enum cay_outcome_step)first.step;
        command->failed_error = first.error;
    }
    return 0;
}

bool cay_local_command_start(struct cay_local_command *command, const struct cay_local_spec *spec,
                             struct cay_error *err)
{
    *command = (struct cay_local_command){
        .spec = *spec, .output_fd = {-1, -1}, .stdin_fd = -1, .wake_fd = -1};
    cay_keeper_init(&command->keeper);
    int result = start(command);
    if (result == 0)
        return true;
    cay_local_command_finish(command);
    if (result == -EMFILE || result == -ENFILE)
        return cay_fail_errno(err, CAY_R_TOO_MANY_OPEN_FILES, result, "start a command");
    return cay_outcome_fail_start(CAY_STEP_FORK, -result, err);
}

/* --- its output and input --- */

/* On a clock that stands still while it is paused. */
static int64_t now_ns(struct cay_local_command *command)
{
    int64_t since = atomic_load(&command->paused_since_ns);
    return (since ? since : cay_clock_ns()) - atomic_load(&command->paused_ns);
}

/* What was read; 0 when there is nothing now, or nobody writes any more. */
static size_t take_output(struct cay_local_command *command, int which, size_t len_max)
{
    ssize_t got =
        read(command->output_fd[which], command->block, CAY_MIN(len_max, (size_t)BLOCK_BYTES));
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        close_fd(&command->output_fd[which]);
    if (got <= 0)
        return 0;
    const struct cay_str data = {command->block, (size_t)got};
    command->spec.output(command->spec.context, which == 1, command->output_bytes, data);
    command->output_bytes += data.len;
    command->stdout_bytes += which ? 0 : data.len;
    command->heard_ns = now_ns(command);
    return data.len;
}

/* What lies in the pipes at its end, and no more: somebody who goes on writing cannot hold us. */
static void drain(struct cay_local_command *command)
{
    for (int which = 0; which < 2; which++) {
        int waiting = 0;
        if (command->output_fd[which] < 0 ||
            ioctl(command->output_fd[which], FIONREAD, &waiting) < 0)
            continue;
        size_t left = (size_t)CAY_MAX(waiting, 0);
        while (left > 0 && command->output_fd[which] >= 0) {
            size_t got = take_output(command, which, left);
            if (!got)
                break;
            left -= got;
        }
    }
}

static void give_input(struct cay_local_command *command)
{
    const struct cay_str data = command->spec.stdin_data;
    size_t len = CAY_MIN(data.len - command->stdin_at, (size_t)STDIN_STEP_BYTES);
    ssize_t put = cay_pipe_write(command->stdin_fd, data.ptr + command->stdin_at, len);
    if (put > 0)
        command->stdin_at += (size_t)put;
    bool is_refused = put < 0 && put != -EAGAIN && put != -EINTR;
    if (is_refused || command->stdin_at == data.len)
        close_fd(&command->stdin_fd);
}

/* --- time, and being killed --- */

/* Nearest deadline, and what it means; INT64_MAX when there is none. */
static int64_t deadline_ns(const struct cay_local_command *command, enum cay_v1_end_cause *out_why)
{
    const struct cay_local_spec *spec = &command->spec;
    int64_t wall = spec->wall_ms ? command->begun_ns + spec->wall_ms * CAY_NS_PER_MS : INT64_MAX;
    int64_t quiet = spec->quiet_ms ? command->heard_ns + spec->quiet_ms * CAY_NS_PER_MS : INT64_MAX;
    *out_why = wall <= quiet ? CAY_V1_END_CAUSE_TIMEOUT_WALL : CAY_V1_END_CAUSE_TIMEOUT_NO_OUTPUT;
    return CAY_MIN(wall, quiet);
}

static int timeout_ms(struct cay_local_command *command)
{
    enum cay_v1_end_cause ignored;
    int64_t deadline = deadline_ns(command, &ignored);
    if (deadline == INT64_MAX || command->is_killed || atomic_load(&command->paused_since_ns))
        return -1;
    int64_t left_ms = (deadline - now_ns(command) + CAY_NS_PER_MS - 1) / CAY_NS_PER_MS;
    return (int)CAY_MAX(CAY_MIN(left_ms, (int64_t)INT_MAX), (int64_t)0);
}

static void note_who(struct cay_local_command *command, bool are_killed)
{
    if (command->who)
        return;
    struct cay_family *who = malloc(sizeof(*who));
    if (who && cay_family_look(command->keeper.pid, command->pid, who) == 0 && who->total) {
        command->who = cay_take_ptr(who);
        command->are_killed = are_killed;
    }
    free(who);
}

static void check_deadlines(struct cay_local_command *command)
{
    enum cay_v1_end_cause why;
    int none = 0;
    if (!atomic_load(&command->paused_since_ns) && now_ns(command) >= deadline_ns(command, &why))
        (void)atomic_compare_exchange_strong(&command->kill_cause, &none, (int)why);
    int cause = atomic_load(&command->kill_cause);
    if (!cause || command->is_killed)
        return;
    if (cause != CAY_V1_END_CAUSE_KILLED)
        note_who(command, true);
    command->is_killed = true;
    (void)cay_keeper_kill(&command->keeper);
}

/* --- its end --- */

static void ended(struct cay_local_command *command)
{
    command->is_over = true;
    command->wall_ns = cay_clock_ns() - command->begun_ns;
    drain(command);
    close_fd(&command->stdin_fd);
    bool is_doomed = command->is_killed || command->spec.kills_leftovers;
    if (command->end.has_left && !command->is_killed)
        note_who(command, is_doomed);
    if (is_doomed)
        (void)cay_keeper_kill(&command->keeper);
    else if (command->end.has_left)
        (void)cay_keeper_drain(&command->keeper);
    close_fd(&command->output_fd[0]);
    close_fd(&command->output_fd[1]);
    if (is_doomed || !command->end.has_left)
        (void)cay_pidfd_wait(command->keeper.pidfd, KILLED_WAIT_MS);
}

/* True once it has ended. */
static bool read_report(struct cay_local_command *command)
{
    struct cay_keeper_report report = {};
    int got = cay_keeper_read(&command->keeper, &report);
    if (got == 0 || (got > 0 && report.kind != CAY_KEEPER_ENDED))
        return false;
    /* Killed itself, the keeper says nothing. */
    if (got > 0)
        command->end = report;
    else
        command->end.kind = 0;
    return true;
}

void cay_local_command_follow(struct cay_local_command *command)
{
    enum { REPORT, WAKE, CANCEL, STDOUT, STDERR, STDIN, WAITS };
    bool is_ended = command->failed_error != 0;
    while (!is_ended) {
        struct pollfd waits[WAITS] = {
            [REPORT] = {command->keeper.report_fd, POLLIN, 0},
            [WAKE] = {command->wake_fd, POLLIN, 0},
            [CANCEL] = {command->is_canceled ? -1 : command->spec.cancel_fd, POLLIN, 0},
            [STDOUT] = {command->output_fd[0], POLLIN, 0},
            [STDERR] = {command->output_fd[1], POLLIN, 0},
            [STDIN] = {command->stdin_fd, POLLOUT, 0},
        };
        int ready = poll(waits, WAITS, timeout_ms(command));
        eventfd_t ignored;
        if (ready > 0 && waits[WAKE].revents)
            (void)eventfd_read(command->wake_fd, &ignored);
        if (ready > 0 && waits[CANCEL].revents) {
            command->is_canceled = true;
            cay_local_command_kill(command, CAY_V1_END_CAUSE_KILLED);
        }
        if (ready > 0 && waits[STDOUT].revents)
            (void)take_output(command, 0, BLOCK_BYTES);
        if (ready > 0 && waits[STDERR].revents)
            (void)take_output(command, 1, BLOCK_BYTES);
        if (ready > 0 && waits[STDIN].revents)
            give_input(command);
        if (ready > 0 && waits[REPORT].revents)
            is_ended = read_report(command);
        if (!is_ended)
            check_deadlines(command);
    }
    ended(command);
}

bool cay_local_command_has_left(const struct cay_local_command *command)
{
    return !cay_keeper_is_gone(&command->keeper);
}

void cay_local_command_finish(struct cay_local_command *command)
{
    if (!command->block && !command->keeper.memory)
        return; /* zeroed, or half started: nothing is open */
    cay_keeper_close(&command->keeper);
    close_fd(&command->output_fd[0]);
    close_fd(&command->output_fd[1]);
    close_fd(&command->stdin_fd);
    close_fd(&command->wake_fd);
    free(cay_take_ptr(command->block));
    free(cay_take_ptr(command->who));
}

/* --- by others --- */

static void wake(struct cay_local_command *command)
{
    (void)eventfd_write(command->wake_fd, 1);
}

void cay_local_command_kill(struct cay_local_command *command, enum cay_v1_end_cause cause)
{
    int none = 0;
    (void)atomic_compare_exchange_strong(&command->kill_cause, &none, (int)cause);
    wake(command);
}

void cay_local_command_signal(struct cay_local_command *command, int signal)
{
    atomic_fetch_or(&command->signals, UINT64_C(1) << (signal - 1));
    (void)cay_keeper_signal(&command->keeper, signal);
}

int cay_local_command_pause(struct cay_local_command *command)
{
    int64_t none = 0;
    (void)atomic_compare_exchange_strong(&command->paused_since_ns, &none, cay_clock_ns());
    wake(command);
    return cay_family_stop(command->keeper.pid);
}

int cay_local_command_resume(struct cay_local_command *command)
{
    int64_t since = atomic_load(&command->paused_since_ns);
    if (since)
        atomic_fetch_add(&command->paused_ns, cay_clock_ns() - since);
    atomic_store(&command->paused_since_ns, 0);
    wake(command);
    int result = cay_family_continue(command->keeper.pid);
    return result == -EBUSY ? 0 : result; /* who stops itself */
}

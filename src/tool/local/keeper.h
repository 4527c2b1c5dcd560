/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A command of ours in somebody else's process. Between that process and the command stands a small
 * one, the keeper, for four reasons:
 *
 * - The caller may ignore SIGCHLD, or wait for all of its children. A keeper never execs and ends
 *   without a signal, so that waitpid(-1) does not see it (wait(2), __WCLONE), nothing of it comes
 *   to the caller's handlers, and the command's status is nobody's but ours.
 * - It is a subreaper, which the caller's process must not become: whoever the command leaves
 * behind becomes its child, in whatever group or session. So "is anybody left" is one question, and
 *   killing its children until it has none kills all.
 * - Signals go through it, who has not waited for the command yet: they cannot hit a stranger.
 * - It holds the end of a pipe of the caller. When the caller is gone, also by a crash, it kills
 *   what there is.
 *
 * The keeper shares the caller's memory, so that its start costs the same in a large process; it
 * has its own stacks, descriptors and signal table, all signals blocked, and makes raw system calls
 * only. Where there is no clone3 it is a copy instead.
 *
 * Order: start -> read, signal, drain, kill -> close. One thread reads; the others may be called by
 * any. Functions give 0 or -errno.
 */

#include "base/base.h"
#include "tool/local/keeper_main.h"

struct cay_keeper {
    int pidfd;      /* readable when it has ended; -1: there is none */
    pid_t pid;      /* ours to wait for, so it stays its own */
    int control_fd; /* to it */
    int report_fd;  /* from it; does not block */
    void *memory;   /* it lives in */
};

/* The first report is read, too: STARTED or FAILED. */
[[nodiscard]] int cay_keeper_start(struct cay_keeper *keeper, const struct cay_keeper_spec *spec,
                                   struct cay_keeper_report *out_report);

/* 1: a report; 0: none yet; -EPIPE: it is gone. */
[[nodiscard]] int cay_keeper_read(struct cay_keeper *keeper, struct cay_keeper_report *out_report);

/* To the command's group; nothing happens once the command has ended. */
int cay_keeper_signal(const struct cay_keeper *keeper, int signal);
/* From here on it takes the output of who is left, and throws it away: nobody dies of SIGPIPE. */
int cay_keeper_drain(const struct cay_keeper *keeper);
/* Kills the command and all that it started. */
int cay_keeper_kill(const struct cay_keeper *keeper);

/* False while it is there. */
[[nodiscard]] bool cay_keeper_is_gone(const struct cay_keeper *keeper);
/* One that was never started, which close accepts. */
void cay_keeper_init(struct cay_keeper *keeper);
/* Kills what there is and waits for its end. */
void cay_keeper_close(struct cay_keeper *keeper);

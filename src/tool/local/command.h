/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One command from its start to its end, in the caller's process and as the caller, with the
 * meaning that the daemon's init gives to the words: it has ended when its direct child has, what
 * lies in the pipes at that moment is its output, a timeout kills all that it started, and who is
 * left otherwise is counted and goes on.
 *
 * Order: start -> follow -> (finish | keep the leftovers: drain them, finish later). The thread
 * that follows takes the output; kill, signal, pause and resume may be called by any other, from
 * start until finish.
 *
 * What is not promised: a process that is killed from outside may have been the keeper of others
 * (keeper.h); programs that change their user are killed and stopped only if the kernel lets the
 * caller do so.
 */

#include <stdatomic.h>

#include "api/cay_v1.h"
#include "base/arena.h"
#include "base/error.h"
#include "tool/local/family.h"
#include "tool/local/keeper.h"
#include "tool/outcome.h"

struct cay_local_spec {
    const char *const *argv; /* both end with NULL */
    const char *const *env;
    int cwd_fd;
    struct cay_str stdin_data; /* empty: /dev/null */
    int64_t wall_ms;           /* 0: none */
    int64_t quiet_ms;          /* the same without output */
    bool kills_leftovers;
    int cancel_fd; /* readable: whoever asked is gone; -1: none */
    /* A piece of output, on the thread that follows. `offset` counts both streams. */
    void (*output)(void *context, bool is_stderr, uint64_t offset, struct cay_str data);
    void *context;
};

struct cay_local_command {
    struct cay_keeper keeper;
    struct cay_local_spec spec;
    pid_t pid;
    int output_fd[2];
    int stdin_fd;
    int wake_fd; /* written to by others */
    size_t stdin_at;
    int64_t started_ns; /* wall clock */
    int64_t begun_ns;   /* monotonic */
    int64_t heard_ns;   /* the last output, the same */
    uint64_t stdout_bytes;
    uint64_t output_bytes;   /* of both */
    uint64_t own_peak_bytes; /* of the caller at the start */
    bool is_canceled;
    bool is_killed;                  /* the keeper was told */
    bool is_over;                    /* the command has ended */
    _Atomic int kill_cause;          /* enum cay_v1_end_cause; 0: nobody kills it */
    _Atomic uint64_t signals;        /* sent to it by others, bit n - 1 for signal n */
    _Atomic int64_t paused_since_ns; /* monotonic; 0: it goes on */
    _Atomic int64_t paused_ns;       /* in all, before */
    struct cay_keeper_report end;
    enum cay_outcome_step failed_step;
    int failed_error; /* errno; 0: it began */
    int64_t wall_ns;
    struct cay_family *who; /* left behind, or killed with it; NULL: nobody */
    bool are_killed;
    char *block; /* that output is read into */
};

/* False: there is no process; CANCELED is none of the reasons. True with failed_error: it could not
 * become the command, and follow tells. Reason: RESOURCE_EXHAUSTED. */
[[nodiscard]] bool cay_local_command_start(struct cay_local_command *command,
                                           const struct cay_local_spec *spec,
                                           struct cay_error *err);

/* Until its end. */
void cay_local_command_follow(struct cay_local_command *command);

/* After that: how it ended. `process_id` is what its leftovers are known as. False when the arena
 * is full. */
[[nodiscard]] bool cay_local_command_result(const struct cay_local_command *command,
                                            const char *process_id, struct cay_arena *arena,
                                            struct cay_v1_exec_result *out_result,
                                            struct cay_error *err);

/* Somebody of it is still there, and nobody is to kill them. */
[[nodiscard]] bool cay_local_command_has_left(const struct cay_local_command *command);

/* By others. */
void cay_local_command_kill(struct cay_local_command *command, enum cay_v1_end_cause cause);
void cay_local_command_signal(struct cay_local_command *command, int signal);
/* 0 or -errno. */
[[nodiscard]] int cay_local_command_pause(struct cay_local_command *command);
[[nodiscard]] int cay_local_command_resume(struct cay_local_command *command);

/* Whoever is left is killed. Accepts a zeroed one. */
void cay_local_command_finish(struct cay_local_command *command);

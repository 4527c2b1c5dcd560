/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A command in a session, followed live: its standard output to ours, its standard error to ours,
 * its exit status ours (124 after a timeout, 128+n after a signal). Used by exec and run,
 * which share the flags below. The command dies with us.
 */

#include "api/cay_v1.h"
#include "cli/command.h"

/* clang-format off */
#define CAY_FLAGS_EXEC                                                                            \
    {.name = "timeout", .value = "DURATION", .help = "kill it after this time, e.g. 30s, 5m"},    \
    {.name = "quiet-timeout", .value = "DURATION", .help = "kill it after this time without output"}, \
    {.name = "user", .letter = 'u', .value = "USER", .help = "run it as this user of the sandbox; the session's otherwise"}, \
    {.name = "cwd", .value = "DIR", .help = "start it in this directory"},                        \
    {.name = "env", .letter = 'e', .value = "NAME=VALUE", .help = "set a variable; may be given again"}, \
    {.name = "kill-leftovers", .help = "kill what it leaves running when it ends"},               \
    {.name = "interactive", .letter = 'i', .help = "give it cay's own standard input"},                    \
    {.name = "tty", .letter = 't', .help = "give it a terminal, and every key that is typed"}
/* clang-format on */

/* The user's shell, or what there is. */
#define CAY_LOGIN_SHELL                                                                       \
    {                                                                                         \
        "/bin/sh", "-c", "if [ -x \"$SHELL\" ]; then exec \"$SHELL\" -l; fi; exec /bin/sh -l" \
    }

/* A process to be started, or one that exists, and how it is followed. */
struct cay_follow {
    struct cay_str session_id;
    struct cay_v1_process_spec *launch; /* or */
    struct cay_str process_id;
    bool has_terminal; /* give what is launched one */
    bool gives_input;
    bool is_detachable;
    bool is_log;      /* output alone: how it ended is not our status */
    bool is_followed; /* a log that waits for more */
    bool has_offset;
    int64_t offset;
    int64_t tail_bytes;
};

[[nodiscard]] bool cay_exec_stream(struct cay_cli *cli, const struct cay_follow *follow,
                                   struct cay_error *err);

/* Sets cli->exit_status. `limits` are of this command alone; NULL: the session's. False when there
 * was no command to have a status: it could not be asked for, or the connection broke. */
[[nodiscard]] bool cay_exec_follow(struct cay_cli *cli, struct cay_str session_id,
                                   const char *const *argv, size_t argc, struct cay_str tag,
                                   struct cay_v1_resource_limits *limits, struct cay_error *err);

/* Was it interrupted (SIGINT, SIGTERM, SIGHUP)? The signal, or 0. Before, cay_exec_catch. */
void cay_exec_catch(void);
[[nodiscard]] int cay_exec_caught(void);

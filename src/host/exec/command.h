/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A command of a client, as the frame that init gets: checked, with the environment and the user of
 * the session filled in. Everything lives in the call's arena.
 */

#include "host/session/session.h"
#include "tool/tree/user.h"
#include "wire/frame/frame.h"

struct cay_command_line {
    struct cay_pb_strs argv;
    struct cay_pb_pairs env; /* over the session's */
    struct cay_str cwd;      /* empty: the session's */
    struct cay_str user;     /* empty: the session's */
    bool has_stdin;
    bool has_terminal;
    struct cay_frame_size size; /* of it */
    bool is_for_call;           /* init sends its output by itself, and waits for who follows it */
    bool has_reader;            /* from the start: a policy that says nothing has it wait */
    bool kills_leftovers;
    const struct cay_v1_exec_policy *policy; /* may be NULL */
    int64_t timeout_ms;                      /* counts if the policy's is not shorter; 0: none */
    int64_t quiet_ms;                        /* the same without output */
};

/* What can be said before anybody looks at the session's files. */
[[nodiscard]] bool cay_command_check(const struct cay_command_line *command, struct cay_error *err);

[[nodiscard]] bool cay_command_build(const struct cay_command_line *command,
                                     const struct cay_session *session, const struct cay_user *user,
                                     struct cay_arena *arena, struct cay_frame_exec *out_frame,
                                     struct cay_error *err);

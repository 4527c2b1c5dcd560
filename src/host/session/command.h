/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A command of a client, as the frame that init gets: checked, with the environment and the user of
 * the session filled in. Everything lives in the call's arena.
 */

#include "host/session/session.h"
#include "wire/frame/frame.h"

struct cay_command {
    struct cay_pb_strs argv;
    struct cay_pb_pairs env; /* over the session's */
    struct cay_str cwd;      /* empty: the session's */
    struct cay_str user;     /* empty: the session's */
    struct cay_str stdin_data;
    bool has_stdin;
    const struct cay_v1_exec_policy *policy; /* may be NULL */
    int64_t timeout_ms;                      /* counts if the policy's is not shorter; 0: none */
};

[[nodiscard]] bool cay_command_build(const struct cay_command *command,
                                     const struct cay_session *session, struct cay_arena *arena,
                                     struct cay_frame_exec *out_frame, struct cay_error *err);

/* False when it never ran because the call asked for what cannot be. */
[[nodiscard]] bool cay_command_began(const struct cay_frame_exit *exit, struct cay_error *err);

/* The end of a command as clients see it. */
void cay_command_result(const struct cay_frame_exit *exit, const struct cay_frame_procs *leftovers,
                        int64_t started_ns, int64_t dropped_bytes, struct cay_arena *arena,
                        struct cay_v1_exec_result *out_result);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What came of a tool that is a command (tier 2), as the result that its caller sees. The same for
 * every environment: what runs the command fills a cay_v1_exec_result and captures the output.
 */

#include "tool/capture.h"
#include "tool/tool.h"

/* --- how it ended --- */

/* Where the start of a command failed. */
enum cay_outcome_step {
    CAY_STEP_OTHER = 0,
    CAY_STEP_CWD,
    CAY_STEP_EXEC,
    CAY_STEP_USER,
    CAY_STEP_FORK,
    CAY_STEP_CGROUP,
};

/* It never ran: the sentence, and the exit code that shells have for it. `why` may be NULL: then it
 * is what `error`, an errno, means. */
void cay_outcome_refuse(struct cay_v1_exec_result *exec, enum cay_outcome_step step, int error,
                        const char *why, struct cay_arena *arena);

/* The sentence of how it ended, once the cause is settled. */
void cay_outcome_say(struct cay_v1_exec_result *exec, struct cay_arena *arena);

/* That it never ran, as an error: because the call asked for what cannot be ... */
[[nodiscard]] bool cay_outcome_fail_cwd(int error, struct cay_error *err);
/* ... and for whoever only wanted it started: also a program that cannot be run is one. */
[[nodiscard]] bool cay_outcome_fail_start(enum cay_outcome_step step, int error,
                                          struct cay_error *err);

/* Processes may be called anything; a string of the contract is text. */
struct cay_str cay_outcome_text(struct cay_arena *arena, struct cay_str text);

/* --- what its caller sees --- */

struct cay_outcome {
    const struct cay_tool *tool;
    struct cay_v1_exec_result *exec; /* becomes part of the result; in the arena */
    const struct cay_capture *out;
    const struct cay_capture *err_out;
    struct cay_str missing_program; /* that there is none to run; empty: there is */
};

/* What the captures left out is added to exec->dropped_bytes. All of the result is in the arena.
 * Reason: RESOURCE_EXHAUSTED. */
[[nodiscard]] bool cay_outcome_show(const struct cay_outcome *outcome, struct cay_arena *arena,
                                    struct cay_v1_tool_result *out_result, struct cay_error *err);

/* The same for one that was started and left alone. */
[[nodiscard]] bool cay_outcome_show_background(const char *process_id, struct cay_arena *arena,
                                               struct cay_v1_tool_result *out_result,
                                               struct cay_error *err);

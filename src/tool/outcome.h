/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What came of a tool that is a command (tier 2), as the result that its caller sees. The same for
 * every environment: what runs the command fills a cay_v1_exec_result and captures the output.
 */

#include "tool/capture.h"
#include "tool/tool.h"

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

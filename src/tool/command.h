/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tools that run a program in the sandbox (tier 2): what their parameters become as a command.
 * Pure; the host sends it into the sandbox. The parameters have been checked against the schema.
 */

#include "tool/run.h"

struct cay_tool_command {
    struct cay_pb_strs argv;
    struct cay_pb_pairs env; /* under what the caller gives */
    struct cay_str stdin_data;
    int64_t timeout_ms; /* 0: none */
    int64_t quiet_ms;
    bool is_background;
};

/* Fills the command from run->params, in run->arena. Reasons: INVALID_ARGUMENT,
 * RESOURCE_EXHAUSTED. */
[[nodiscard]] bool cay_tool_command(struct cay_tool_run *run, struct cay_tool_command *out_command);

/* The tools. */
bool cay_tool_bash(struct cay_tool_run *run, struct cay_tool_command *out_command);
bool cay_tool_git(struct cay_tool_run *run, struct cay_tool_command *out_command);

/* Facts for programs from what git_status printed. */
void cay_tool_git_status_facts(struct cay_tool_run *run, struct cay_str output);

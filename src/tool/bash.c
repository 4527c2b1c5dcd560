/* SPDX-License-Identifier: Apache-2.0 */
#include "api/limits.h"
#include "tool/command.h"

bool cay_tool_bash(struct cay_tool_run *run, struct cay_tool_command *out_command)
{
    struct cay_str *argv = cay_arena_array(run->arena, 3, sizeof(*argv));
    struct cay_str stdin_data = cay_run_text(run, "stdin", CAY_STR(""));
    bool is_background = cay_run_flag(run, "background", false);
    if (!argv)
        return cay_fail(run->err, CAY_R_RESOURCE_EXHAUSTED, NULL);
    if (stdin_data.len > CAY_LIMIT_INPUT_BYTES)
        return cay_fail(run->err, CAY_R_INVALID_ARGUMENT, "stdin: %d bytes at most",
                        CAY_LIMIT_INPUT_BYTES);
    argv[0] = CAY_STR("/bin/bash");
    argv[1] = CAY_STR("-c");
    argv[2] = cay_run_text(run, "cmd", CAY_STR(""));
    *out_command = (struct cay_tool_command){
        .argv = {argv, 3},
        .stdin_data = stdin_data,
        .timeout_ms = cay_run_number(run, "timeout_ms", is_background ? 0 : run->timeout_ms),
        .quiet_ms = cay_run_number(run, "no_output_timeout_ms", 0),
        .is_background = is_background,
    };
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "host/exec/run.h"
#include "host/exec/tool_call.h"
#include "host/process/linger.h"
#include "host/session/host.h"
#include "tool/command.h"
#include "tool/outcome.h"

struct command_run {
    struct cay_run run; /* first: it is what run.c frees */
    struct cay_tool_call tool;
    struct cay_v1_process_spec spec;
};

static void on_started(struct cay_run *run, struct cay_process *process)
{
    cay_process_show(process);
    cay_tool_send_started(run->launch.call, &((struct command_run *)run)->tool, process->id);
}

static bool on_output(struct cay_run *run, const struct cay_frame_output *output, uint64_t gap)
{
    struct cay_v1_output_chunk chunk = {
        .stream = output->stream == CAY_STREAM_STDERR ? CAY_V1_OUTPUT_STREAM_STDERR
                                                      : CAY_V1_OUTPUT_STREAM_STDOUT,
        .offset = (int64_t)output->offset,
        .data = output->data,
        .dropped_bytes = (int64_t)gap,
    };
    struct cay_v1_execute_tool_stream_response response = {
        .which_frame = CAY_V1_EXECUTE_TOOL_STREAM_RESPONSE_FRAME_OUTPUT, .frame.output = &chunk};
    cay_pulse_beat(((struct command_run *)run)->tool.pulse);
    return cay_call_send(run->launch.call, &response);
}

static bool is_missing(const struct cay_frame_exit *exit)
{
    return exit->cause == CAY_CAUSE_FAILED && exit->stage == CAY_STAGE_EXEC &&
           (exit->code == ENOENT || exit->code == ENOTDIR);
}

static void on_answer(struct cay_run *run, struct cay_process *process,
                      struct cay_v1_exec_result *result, const struct cay_error *err)
{
    struct command_run *self = (struct command_run *)run;
    struct cay_call *call = run->launch.call;
    struct cay_v1_tool_result shown = {};
    struct cay_error failed = {};
    if (result) {
        const struct cay_outcome outcome = {
            .tool = self->tool.tool,
            .exec = result,
            .out = &run->out,
            .err_out = &run->err_out,
            .missing_program =
                is_missing(&process->exit) ? self->spec.argv.items[0] : (struct cay_str){},
        };
        err = cay_outcome_show(&outcome, &call->arena, &shown, &failed) ? NULL : &failed;
    }
    if (err)
        cay_tool_fail(call, &self->tool, err);
    else
        cay_tool_answer(call, &self->tool, &shown);
}

static const struct cay_run_style plain_style = {.answer = on_answer};
static const struct cay_run_style stream_style = {
    .started = on_started, .output = on_output, .answer = on_answer};

/* Started and left alone: the result names the process. */
struct tool_launch {
    struct cay_launch launch;
    struct cay_tool_call tool;
    struct cay_v1_process_spec spec;
};

static void on_launched(struct cay_launch *launch, struct cay_process *process,
                        const struct cay_error *err)
{
    struct tool_launch *self = CAY_CONTAINER_OF(launch, struct tool_launch, launch);
    struct cay_call *call = launch->call;
    struct cay_v1_tool_result result = {};
    struct cay_error failed = {};
    if (!err && self->tool.is_stream)
        cay_tool_send_started(call, &self->tool, process->id);
    if (!err && !cay_outcome_show_background(process->id, &call->arena, &result, &failed))
        err = &failed;
    if (err)
        cay_tool_fail(call, &self->tool, err);
    else
        cay_tool_answer(call, &self->tool, &result);
    free(self);
}

static struct cay_launch launch_of(struct cay_call *call, const struct cay_tool_call *tool,
                                   const struct cay_tool_command *wanted,
                                   const struct cay_v1_process_spec *spec)
{
    return (struct cay_launch){
        .call = call,
        .spec = spec,
        .origin = CAY_V1_PROCESS_ORIGIN_TOOL,
        .tool_call_id = tool->request->tool_call_id,
        .timeout_ms = wanted->timeout_ms,
        .quiet_ms = wanted->quiet_ms,
    };
}

static void start_background(struct cay_call *call, const struct cay_tool_call *tool,
                             const struct cay_tool_command *wanted,
                             const struct cay_v1_process_spec *spec)
{
    struct tool_launch *self = cay_new(struct tool_launch);
    self->tool = *tool;
    self->spec = *spec;
    self->launch = launch_of(call, tool, wanted, &self->spec);
    self->launch.done = on_launched;
    cay_launch_start(&self->launch, tool->host, tool->session_id);
}

static void start_run(struct cay_call *call, const struct cay_tool_call *tool,
                      const struct cay_tool_command *wanted, const struct cay_v1_process_spec *spec)
{
    struct command_run *self = cay_new(struct command_run);
    self->tool = *tool;
    self->spec = *spec;
    self->run.style = tool->is_stream ? &stream_style : &plain_style;
    self->run.result_bytes_max = (size_t)tool->result_bytes_max;
    self->run.launch = launch_of(call, tool, wanted, &self->spec);
    self->run.launch.is_for_call = true;
    self->run.launch.is_tool = true;
    cay_run_start(&self->run, tool->host, tool->session_id);
}

void cay_tool_command_start(struct cay_call *call, const struct cay_tool_call *tool)
{
    const struct cay_v1_tool_call *request = tool->request;
    struct cay_error err = {};
    struct cay_tool_run params = {
        .tool = tool->tool,
        .params = request->params,
        .timeout_ms = cay_tool_timeout_ms(tool->tool, tool->host->settings->tool_timeout_ms),
        .arena = &call->arena,
        .err = &err,
    };
    struct cay_tool_command wanted;
    struct cay_pb_pairs env;
    if (!cay_tool_command(&params, &wanted) ||
        (!cay_noun_merge(&call->arena, wanted.env, request->env, &env) &&
         !cay_fail(&err, CAY_R_MESSAGE_TOO_LARGE, NULL))) {
        cay_tool_fail(call, tool, &err);
        return;
    }
    const struct cay_v1_process_spec spec = {
        .argv = wanted.argv,
        .env = env,
        .cwd = request->cwd,
        .user = request->user,
        .policy = request->policy,
        .stdin_data = wanted.stdin_data,
    };
    if (wanted.is_background)
        start_background(call, tool, &wanted, &spec);
    else
        start_run(call, tool, &wanted, &spec);
}

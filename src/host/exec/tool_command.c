/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "host/exec/launch.h"
#include "host/exec/run.h"
#include "host/exec/tool_call.h"
#include "host/session/host.h"
#include "tool/command.h"

struct command_run {
    struct cay_run run; /* first: it is what run.c frees */
    struct cay_tool_call tool;
};

static void on_started(struct cay_run *run)
{
    cay_tool_send_started(run->call, &((struct command_run *)run)->tool, cay_run_process(run)->id);
}

static bool on_output(struct cay_run *run, const struct cay_frame_output *output)
{
    struct cay_v1_output_chunk chunk = {
        .stream = output->stream == CAY_STREAM_STDERR ? CAY_V1_OUTPUT_STREAM_STDERR
                                                      : CAY_V1_OUTPUT_STREAM_STDOUT,
        .offset = (int64_t)output->offset,
        .data = output->data,
        .dropped_bytes = (int64_t)run->gap_bytes,
    };
    struct cay_v1_execute_tool_stream_response response = {
        .which_frame = CAY_V1_EXECUTE_TOOL_STREAM_RESPONSE_FRAME_OUTPUT, .frame.output = &chunk};
    cay_pulse_beat(((struct command_run *)run)->tool.pulse);
    cay_capture_add(output->stream == CAY_STREAM_STDERR ? &run->err_out : &run->out, output->data);
    return cay_call_send(run->call, &response);
}

static void write_end_note(const struct cay_v1_exec_result *result, struct cay_buf *text)
{
    /* An exit code is told last. */
    if (result->message.len && !cay_str_starts(result->message, "exit code "))
        cay_buf_printf(text, "[%.*s]\n", (int)result->message.len, result->message.ptr);
    bool are_killed = result->leftovers.count && result->leftovers.items[0].killed;
    if (result->leftover_count)
        cay_buf_printf(text, "[%d processes it started %s]\n", result->leftover_count,
                       are_killed ? "were killed with it" : "still run");
    if (result->has_exit_code && result->exit_code)
        cay_buf_printf(text, "[exit code %d]\n", result->exit_code);
}

static void end_line(struct cay_buf *text)
{
    if (text->len && text->data[text->len - 1] != '\n')
        cay_buf_append_byte(text, '\n');
}

static void write_text(struct cay_run *run, const struct cay_v1_exec_result *result,
                       struct cay_buf *text)
{
    cay_capture_write(&run->out, text);
    if (run->err_out.total_bytes) {
        end_line(text);
        cay_buf_append_text(text, "[stderr]\n");
        cay_capture_write(&run->err_out, text);
    }
    if (!text->len)
        cay_buf_append_text(text, "(no output)\n");
    end_line(text);
    write_end_note(result, text);
}

/* Why a command failed, as a word. */
static const char *reason_of(const struct cay_v1_exec_result *result)
{
    static const char *const words[] = {
        [CAY_V1_END_CAUSE_EXITED] = "exit_code",
        [CAY_V1_END_CAUSE_SIGNALED] = "signal",
        [CAY_V1_END_CAUSE_OOM] = "oom",
        [CAY_V1_END_CAUSE_TIMEOUT_WALL] = "timeout_wall",
        [CAY_V1_END_CAUSE_TIMEOUT_NO_OUTPUT] = "timeout_no_output",
        [CAY_V1_END_CAUSE_QUOTA] = "quota",
        [CAY_V1_END_CAUSE_POLICY] = "policy",
        [CAY_V1_END_CAUSE_KILLED] = "killed",
        [CAY_V1_END_CAUSE_LOST] = "lost",
    };
    size_t cause = (size_t)result->cause;
    return cause < CAY_COUNT(words) && words[cause] ? words[cause] : "failed";
}

static bool is_missing(const struct cay_frame_exit *exit)
{
    return exit && exit->cause == CAY_CAUSE_FAILED && exit->stage == CAY_STAGE_EXEC &&
           (exit->code == ENOENT || exit->code == ENOTDIR);
}

/* Facts for programs, in the result. */
static void add_facts(struct cay_run *run, struct command_run *self,
                      struct cay_v1_tool_result *result)
{
    const struct cay_tool *tool = self->tool.tool;
    struct cay_tool_run facts = {.tool = tool, .arena = &run->call->arena, .out = result};
    cay_auto(cay_buf_finish) struct cay_buf text;
    if (!tool->facts || result->is_error || cay_capture_dropped(&run->out))
        return;
    cay_buf_init(&text, (size_t)4 * CAY_LIMIT_RESULT_BYTES_MAX);
    cay_capture_write(&run->out, &text);
    tool->facts(&facts, cay_buf_str(&text));
}

static void on_answer(struct cay_run *run, struct cay_v1_exec_result *result,
                      const struct cay_error *err)
{
    struct command_run *self = (struct command_run *)run;
    struct cay_call *call = run->call;
    if (!result) {
        cay_tool_fail(call, &self->tool, err);
        return;
    }
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, (size_t)4 * CAY_LIMIT_RESULT_BYTES_MAX);
    bool is_missing_program = is_missing(run->exit);
    if (is_missing_program) {
        struct cay_str program = run->command.argv.items[0];
        cay_buf_printf(&text,
                       "there is no %.*s in this sandbox; install it, or use a base that has it\n",
                       (int)program.len, program.ptr);
    } else {
        write_text(run, result, &text);
    }
    result->dropped_bytes +=
        (int64_t)(cay_capture_dropped(&run->out) + cay_capture_dropped(&run->err_out));
    struct cay_v1_content_block block = {
        .which_block = CAY_V1_CONTENT_BLOCK_BLOCK_TEXT,
        .block.text = cay_arena_str(&call->arena, cay_buf_str(&text)),
    };
    struct cay_v1_truncation truncation = {
        .total_bytes = result->stdout_bytes + result->stderr_bytes,
        .shown_bytes = result->stdout_bytes + result->stderr_bytes - result->dropped_bytes,
    };
    struct cay_v1_tool_result tool_result = {
        .content = {&block, 1},
        .is_error = !result->has_exit_code || result->exit_code != 0,
        .exec = result,
        .truncation = result->dropped_bytes ? &truncation : NULL,
    };
    if (tool_result.is_error)
        tool_result.error_reason =
            cay_str(is_missing_program ? "program_not_found" : reason_of(result));
    add_facts(run, self, &tool_result);
    cay_tool_answer(call, &self->tool, &tool_result);
}

static const struct cay_run_style plain_style = {.is_tool = true, .answer = on_answer};
static const struct cay_run_style stream_style = {
    .is_tool = true, .started = on_started, .output = on_output, .answer = on_answer};

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
    if (err) {
        cay_tool_fail(call, &self->tool, err);
        free(self);
        return;
    }
    if (self->tool.is_stream)
        cay_tool_send_started(call, &self->tool, process->id);
    char text[160];
    snprintf(text, sizeof(text), "It runs in the background as process %s.\n", process->id);
    struct cay_v1_content_block block = {
        .which_block = CAY_V1_CONTENT_BLOCK_BLOCK_TEXT,
        .block.text = cay_arena_str(&call->arena, cay_str(text)),
    };
    struct cay_v1_tool_result result = {
        .content = {&block, 1},
        .process_id = cay_arena_str(&call->arena, cay_str(process->id)),
    };
    cay_tool_answer(call, &self->tool, &result);
    free(self);
}

static void start_background(struct cay_call *call, const struct cay_tool_call *tool,
                             const struct cay_command_line *command, struct cay_str stdin_data)
{
    struct tool_launch *self = cay_new(struct tool_launch);
    self->tool = *tool;
    self->spec = (struct cay_v1_process_spec){
        .argv = command->argv,
        .env = command->env,
        .cwd = command->cwd,
        .user = command->user,
        .policy = tool->request->policy,
        .stdin_data = stdin_data,
    };
    self->launch.call = call;
    self->launch.spec = &self->spec;
    self->launch.origin = CAY_V1_PROCESS_ORIGIN_TOOL;
    self->launch.tool_call_id = tool->request->tool_call_id;
    self->launch.timeout_ms = command->timeout_ms;
    self->launch.quiet_ms = command->quiet_ms;
    self->launch.done = on_launched;
    cay_launch_start(&self->launch, tool->host, tool->session_id);
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
    const struct cay_command_line command = {
        .argv = wanted.argv,
        .env = env,
        .cwd = request->cwd,
        .user = request->user,
        .has_stdin = wanted.stdin_data.len > 0,
        .policy = request->policy,
        .timeout_ms = wanted.timeout_ms,
        .quiet_ms = wanted.quiet_ms,
    };
    if (wanted.is_background) {
        start_background(call, tool, &command, wanted.stdin_data);
        return;
    }
    struct command_run *self = cay_new(struct command_run);
    self->tool = *tool;
    self->run.call = call;
    self->run.style = tool->is_stream ? &stream_style : &plain_style;
    self->run.result_bytes_max = (size_t)tool->result_bytes_max;
    self->run.kills_on_disconnect = request->policy && request->policy->kill_on_disconnect;
    self->run.origin = CAY_V1_PROCESS_ORIGIN_TOOL;
    self->run.tool_call_id = request->tool_call_id;
    self->run.stdin_data = wanted.stdin_data;
    self->run.command = command;
    cay_run_start(&self->run, tool->host, tool->session_id);
}

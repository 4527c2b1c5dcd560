/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "host/session/birth.h"
#include "host/session/host.h"
#include "host/session/launch.h"
#include "host/session/once.h"
#include "host/session/pause.h"
#include "host/session/quota.h"
#include "host/session/run.h"
#include "host/session/tell.h"
#include "host/session/tree.h"
#include "host/session/users.h"
#include "tool/run.h"
#include "tool/tool.h"

/*
 * Tools: those of tier 1 run on a worker on the session's tree, bash runs in the sandbox. One call
 * object for the unary and the streaming verb: they differ in how the result is wrapped.
 */

struct tool_call {
    struct cay_host *host;
    struct cay_once *once; /* the call has an id; NULL: it has none */
    const struct cay_tool *tool;
    const struct cay_v1_tool_call *request;
    struct cay_str session_id;
    int64_t result_bytes_max;
    int64_t started_ns; /* monotonic */
    bool is_stream;
};

/* The end of a call that was to happen once, then of the call itself. */
static void fail_tool(struct cay_call *call, const struct tool_call *tool,
                      const struct cay_error *err)
{
    struct cay_error kept = *err;
    cay_once_end(tool->once, NULL, &kept);
    cay_call_fail(call, &kept);
}

static void send_result(struct cay_call *call, bool is_stream, struct cay_v1_tool_result *result)
{
    if (!is_stream) {
        struct cay_v1_execute_tool_response response = {.result = result};
        cay_call_done(call, &response);
        return;
    }
    struct cay_v1_execute_tool_stream_response response = {
        .which_frame = CAY_V1_EXECUTE_TOOL_STREAM_RESPONSE_FRAME_RESULT, .frame.result = result};
    (void)cay_call_send(call, &response);
    cay_call_done(call, NULL);
}

/* A result that waits for the snapshot after it; in the call's arena. */
struct snapshot_wait {
    struct cay_call *call;
    struct cay_once *once;
    struct cay_v1_tool_result *result;
    bool is_stream;
};

static void snapshot_taken(void *context, const char *name, const struct cay_error *err)
{
    struct snapshot_wait *wait = context;
    struct cay_arena *arena = &wait->call->arena;
    if (name)
        wait->result->snapshot = cay_arena_str(arena, cay_str(name));
    else
        wait->result->snapshot_error = cay_arena_str(arena, cay_str(err->text));
    cay_once_end(wait->once, wait->result, NULL);
    send_result(wait->call, wait->is_stream, wait->result);
}

static bool wants_snapshot(const struct cay_call *call, const struct tool_call *tool,
                           const struct cay_v1_tool_result *result)
{
    if (result->is_error || tool->tool->read_only || call->is_cancelled)
        return false;
    if (tool->request->has_snapshot)
        return tool->request->snapshot;
    const struct cay_session *session =
        cay_sessions_find(&tool->host->sessions, &call->caller, tool->session_id);
    return session && session->spec->tool_snapshots;
}

static void answer(struct cay_call *call, const struct tool_call *tool,
                   struct cay_v1_tool_result *result)
{
    result->tool_call_id = tool->request->tool_call_id;
    result->tool_name = cay_str(tool->tool->name);
    result->tier = tool->tool->tier;
    result->duration = cay_noun_duration(&call->arena, cay_clock_ns() - tool->started_ns);
    cay_tell(tool->host,
             &(struct cay_happening){.type = "tool.completed",
                                     .session = cay_sessions_find(&tool->host->sessions,
                                                                  &call->caller, tool->session_id),
                                     .call = call,
                                     .tool_call_id = tool->request->tool_call_id,
                                     .reason = result->is_error ? "error" : "ok",
                                     .is_look = tool->tool->read_only,
                                     .fact = "tool_name",
                                     .value = result->tool_name});
    if (!wants_snapshot(call, tool, result)) {
        cay_once_end(tool->once, result, NULL);
        send_result(call, tool->is_stream, result);
        return;
    }
    struct snapshot_wait *wait = cay_arena_new(&call->arena, struct snapshot_wait);
    struct cay_v1_tool_result *copy = cay_noun_copy(&cay_v1_tool_result_desc, result, &call->arena);
    if (!wait || !copy) {
        result->snapshot_error = CAY_STR("the result is too large to be kept meanwhile");
        cay_once_end(tool->once, result, NULL);
        send_result(call, tool->is_stream, result);
        return;
    }
    *wait = (struct snapshot_wait){call, tool->once, copy, tool->is_stream};
    cay_snapshot_after_tool(tool->host, call, tool->session_id, tool->request->tool_call_id,
                            snapshot_taken, wait);
}

static void send_started(struct cay_call *call, const struct tool_call *tool)
{
    struct cay_v1_tool_started started = {
        .tool_call_id = tool->request->tool_call_id,
        .tool_name = cay_str(tool->tool->name),
        .tier = tool->tool->tier,
    };
    struct cay_v1_execute_tool_stream_response response = {
        .which_frame = CAY_V1_EXECUTE_TOOL_STREAM_RESPONSE_FRAME_STARTED,
        .frame.started = &started};
    (void)cay_call_send(call, &response);
}

/* --- tier 1 --- */

struct file_tool_op {
    struct cay_op op;
    struct tool_call tool;
    struct cay_session_tree tree;
    struct cay_v1_tool_result result;
    bool is_counted; /* in tools_in_flight: one that is refused at the gate never was */
};

static bool file_tool_begin(struct cay_op *op, struct cay_error *err)
{
    struct file_tool_op *self = CAY_CONTAINER_OF(op, struct file_tool_op, op);
    op->session->tools_in_flight++;
    self->is_counted = true;
    if (!self->tool.tool->read_only && !cay_quota_check(op->session, err))
        return false;
    return cay_session_tree_open(&self->tree, op->session, self->tool.request->cwd, err);
}

static bool file_tool_work(struct cay_op *op, struct cay_error *err)
{
    struct file_tool_op *self = CAY_CONTAINER_OF(op, struct file_tool_op, op);
    return cay_tool_run(self->tool.tool, &self->tree.tree, self->tool.request->params,
                        self->tool.result_bytes_max, &op->call->arena, &self->result, err);
}

static void file_tool_end(struct cay_op *op)
{
    struct file_tool_op *self = CAY_CONTAINER_OF(op, struct file_tool_op, op);
    struct cay_call *call = op->call;
    struct cay_error err = op->err;
    bool is_done = op->is_done;
    if (self->is_counted)
        cay_pause_tool_ended(op->session);
    cay_op_leave(op);
    if (is_done)
        answer(call, &self->tool, &self->result);
    else
        fail_tool(call, &self->tool, &err);
    free(self);
}

static const struct cay_op_steps file_tool_steps = {
    .begin = file_tool_begin,
    .work = file_tool_work,
    .end = file_tool_end,
};

static void file_tool_awake(struct cay_call *call, struct cay_session *session, void *context,
                            const struct cay_error *err)
{
    struct file_tool_op *self = context;
    if (err) {
        fail_tool(call, &self->tool, err);
        free(self);
        return;
    }
    if (self->tool.is_stream)
        send_started(call, &self->tool);
    cay_op_start_on(&self->op, session, call, CAY_VERB_TOOL, false, &file_tool_steps);
}

static void start_file_tool(struct cay_call *call, struct cay_session *session,
                            const struct tool_call *tool)
{
    struct file_tool_op *self = cay_new(struct file_tool_op);
    self->tool = *tool;
    cay_wake_as(session, call, tool->request->user, false, &self->tree.user, file_tool_awake, self);
}

/* --- bash --- */

struct bash_run {
    struct cay_run run; /* first: it is what run.c frees */
    struct tool_call tool;
};

static void bash_started(struct cay_run *run)
{
    send_started(run->call, &((struct bash_run *)run)->tool);
}

static bool bash_output(struct cay_run *run, const struct cay_frame_output *output)
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
    cay_capture_add(output->stream == CAY_STREAM_STDERR ? &run->err_out : &run->out, output->data);
    return cay_call_send(run->call, &response);
}

static void write_end_note(const struct cay_v1_exec_result *result, struct cay_buf *text)
{
    double seconds =
        result->duration ? (double)result->duration->seconds + result->duration->nanos / 1e9 : 0;
    if (result->cause == CAY_V1_END_CAUSE_TIMEOUT_WALL)
        cay_buf_printf(text, "[timed out after %.1f s; everything it started was killed]\n",
                       seconds);
    else if (result->cause == CAY_V1_END_CAUSE_TIMEOUT_NO_OUTPUT)
        cay_buf_printf(text, "[no output for too long; killed after %.1f s]\n", seconds);
    else if (result->cause == CAY_V1_END_CAUSE_OOM)
        cay_buf_append_text(text, "[killed: the sandbox's memory limit was reached]\n");
    else if (result->cause == CAY_V1_END_CAUSE_QUOTA)
        cay_buf_append_text(text, "[killed: the session's disk limit was reached]\n");
    else if (result->signal)
        cay_buf_printf(text, "[killed by signal %d]\n", result->signal);
    if (result->message.len)
        cay_buf_printf(text, "[%.*s]\n", (int)result->message.len, result->message.ptr);
    if (result->leftover_count)
        cay_buf_printf(text, "[%d processes it started still run]\n", result->leftover_count);
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

static void bash_answer(struct cay_run *run, struct cay_v1_exec_result *result,
                        const struct cay_error *err)
{
    struct bash_run *self = (struct bash_run *)run;
    struct cay_call *call = run->call;
    if (!result) {
        fail_tool(call, &self->tool, err);
        return;
    }
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, (size_t)4 * CAY_LIMIT_RESULT_BYTES_MAX);
    write_text(run, result, &text);
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
    answer(call, &self->tool, &tool_result);
}

static const struct cay_run_style bash_style = {.is_tool = true, .answer = bash_answer};
static const struct cay_run_style bash_stream_style = {
    .is_tool = true, .started = bash_started, .output = bash_output, .answer = bash_answer};

/* Started and left alone: the result names the process. */
struct bash_launch {
    struct cay_launch launch;
    struct tool_call tool;
    struct cay_v1_process_spec spec;
};

static void bash_launched(struct cay_launch *launch, struct cay_process *process,
                          const struct cay_error *err)
{
    struct bash_launch *self = CAY_CONTAINER_OF(launch, struct bash_launch, launch);
    struct cay_call *call = launch->call;
    if (err) {
        fail_tool(call, &self->tool, err);
        free(self);
        return;
    }
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
    answer(call, &self->tool, &result);
    free(self);
}

static void start_background(struct cay_host *host, struct cay_call *call,
                             const struct tool_call *tool, const struct cay_command *command,
                             struct cay_str stdin_data)
{
    struct bash_launch *self = cay_new(struct bash_launch);
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
    self->launch.done = bash_launched;
    if (tool->is_stream)
        send_started(call, tool);
    cay_launch_start(&self->launch, host, tool->session_id);
}

static void start_bash(struct cay_host *host, struct cay_call *call, const struct tool_call *tool)
{
    const struct cay_v1_tool_call *request = tool->request;
    const struct cay_tool_run params = {.params = request->params};
    struct cay_str *argv = cay_arena_array(&call->arena, 3, sizeof(*argv));
    struct cay_str stdin_data = cay_run_text(&params, "stdin", CAY_STR(""));
    bool is_background = cay_run_flag(&params, "background", false);
    struct cay_error err = {};
    if (stdin_data.len > CAY_LIMIT_INPUT_BYTES) {
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "stdin: %d bytes at most", CAY_LIMIT_INPUT_BYTES);
        fail_tool(call, tool, &err);
        return;
    }
    if (argv) {
        argv[0] = CAY_STR("/bin/bash");
        argv[1] = CAY_STR("-c");
        argv[2] = cay_run_text(&params, "cmd", CAY_STR(""));
    }
    const struct cay_command command = {
        .argv = {argv, argv ? 3 : 0},
        .env = request->env,
        .cwd = request->cwd,
        .user = request->user,
        .has_stdin = stdin_data.len > 0,
        .policy = request->policy,
        .timeout_ms = cay_run_number(&params, "timeout_ms",
                                     is_background ? 0 : (int64_t)tool->tool->timeout_ms),
        .quiet_ms = cay_run_number(&params, "no_output_timeout_ms", 0),
    };
    if (is_background) {
        start_background(host, call, tool, &command, stdin_data);
        return;
    }
    struct bash_run *self = (struct bash_run *)cay_new(struct bash_run);
    self->tool = *tool;
    self->run.call = call;
    self->run.style = tool->is_stream ? &bash_stream_style : &bash_style;
    self->run.result_bytes_max = (size_t)tool->result_bytes_max;
    self->run.kills_on_disconnect = request->policy && request->policy->kill_on_disconnect;
    self->run.origin = CAY_V1_PROCESS_ORIGIN_TOOL;
    self->run.tool_call_id = request->tool_call_id;
    self->run.stdin_data = stdin_data;
    self->run.command = command;
    cay_run_start(&self->run, host, tool->session_id);
}

/* --- the verbs --- */

static bool check_call(const struct cay_v1_tool_call *request, struct tool_call *tool,
                       struct cay_error *err)
{
    if (!request || !request->tool_name.len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "call.tool_name: which tool?");
    if (request->tool_call_id.len > CAY_LIMIT_ID_BYTES)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "call.tool_call_id: %d bytes at most",
                        CAY_LIMIT_ID_BYTES);
    if (request->max_result_bytes < 0 || request->max_result_bytes > CAY_LIMIT_RESULT_BYTES_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "call.max_result_bytes: %d at most",
                        CAY_LIMIT_RESULT_BYTES_MAX);
    tool->tool = cay_tool_find(request->tool_name);
    if (!tool->tool) {
        const char *nearest = cay_tool_nearest(request->tool_name);
        return cay_fail(err, CAY_R_TOOL_NOT_FOUND, "there is no tool '%.*s'%s%s%s",
                        (int)CAY_MIN(request->tool_name.len, (size_t)64), request->tool_name.ptr,
                        nearest ? "; did you mean '" : "", nearest ? nearest : "",
                        nearest ? "'?" : "");
    }
    tool->result_bytes_max =
        request->max_result_bytes ? request->max_result_bytes : CAY_LIMIT_RESULT_BYTES;
    return cay_tool_check_params(tool->tool, request->params, err);
}

static void answer_joined(struct cay_once_waiter *waiter, struct cay_v1_tool_result *result,
                          const struct cay_error *err)
{
    if (result)
        send_result(waiter->call, waiter->is_stream, result);
    else
        cay_call_fail(waiter->call, err);
}

/* True when this call is to run; without an error it joins another otherwise. */
static bool begin_once(struct cay_call *call, struct cay_session *session, struct tool_call *tool,
                       struct cay_error *err)
{
    struct cay_once_waiter *waiter = cay_arena_new(&call->arena, struct cay_once_waiter);
    if (!waiter)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    *waiter = (struct cay_once_waiter){
        .call = call, .is_stream = tool->is_stream, .answer = answer_joined};
    return cay_once_begin(&session->once, tool->request, waiter, &tool->once, err) && tool->once;
}

static void execute(struct cay_host *host, struct cay_call *call, struct cay_str session_id,
                    const struct cay_v1_tool_call *request, bool is_stream)
{
    struct tool_call tool = {
        .host = host,
        .request = request,
        .session_id = session_id,
        .started_ns = cay_clock_ns(),
        .is_stream = is_stream,
    };
    struct cay_session *session = NULL;
    struct cay_error err = {};
    if (!check_call(request, &tool, &err) ||
        !cay_session_check(host, call, session_id, CAY_VERB_TOOL, &session, &err)) {
        cay_call_fail(call, &err);
        return;
    }
    if (request->tool_call_id.len && !begin_once(call, session, &tool, &err)) {
        if (err.reason)
            cay_call_fail(call, &err);
        return;
    }
    if (tool.tool->run)
        start_file_tool(call, session, &tool);
    else
        start_bash(host, call, &tool);
}

void cay_host_execute_tool(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_execute_tool_request *request = call->request;
    execute(cay_host_of(service), call, request->session_id, request->call, false);
}

void cay_host_execute_tool_stream(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_execute_tool_stream_request *request = call->request;
    execute(cay_host_of(service), call, request->session_id, request->call, true);
}

void cay_host_list_tools(struct cay_service *, struct cay_call *call)
{
    size_t count = cay_tool_count();
    struct cay_v1_list_tools_response response = {
        .tools.items = cay_arena_array(&call->arena, count, sizeof(struct cay_v1_tool))};
    struct cay_error err = {};
    for (size_t i = 0; response.tools.items && i < count && !err.reason; i++)
        (void)cay_tool_describe(cay_tool_at(i), &call->arena,
                                &response.tools.items[response.tools.count++], &err);
    if (err.reason)
        cay_call_fail(call, &err);
    else
        cay_call_done(call, &response);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/limits.h"
#include "host/session/host.h"
#include "host/session/noun.h"
#include "host/session/run.h"

/* Commands as processes: launched and waited for, or launched and followed live. */

enum { WAIT_MS_DEFAULT = 60 * 60 * 1000 };

static enum cay_v1_output_stream to_stream(uint8_t stream)
{
    return stream == CAY_STREAM_STDERR ? CAY_V1_OUTPUT_STREAM_STDERR : CAY_V1_OUTPUT_STREAM_STDOUT;
}

static struct cay_v1_process *to_process(const struct cay_run *run, struct cay_str session_id,
                                         struct cay_v1_exec_result *result)
{
    struct cay_arena *arena = &run->call->arena;
    struct cay_v1_process *process = cay_arena_new(arena, struct cay_v1_process);
    const char *id = cay_arena_printf(arena, "p%llu", (unsigned long long)run->exec.call);
    if (!process || !id)
        return NULL;
    *process = (struct cay_v1_process){
        .id = cay_str(id),
        .session_id = session_id,
        .state = result ? CAY_V1_PROCESS_STATE_EXITED : CAY_V1_PROCESS_STATE_RUNNING,
        .origin = CAY_V1_PROCESS_ORIGIN_LAUNCHED,
        .argv = run->command.argv,
        .cwd = cay_str(run->frame.cwd),
        .user = run->frame.uid ? CAY_STR("user") : CAY_STR("root"),
        .started_at = cay_noun_time(arena, run->started_ns),
        .result = result,
        .output_end = (int64_t)run->seen_offset,
    };
    if (result)
        process->ended_at = cay_noun_time(arena, cay_clock_wall_ns());
    return process;
}

static bool check_spec(const struct cay_v1_process_spec *spec, struct cay_error *err)
{
    if (!spec)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "spec: what to run is missing");
    if (spec->pty || spec->stdin_open || spec->restart || spec->expose_port)
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "pty, stdin_open, restart, expose_port: not available in this version");
    if (spec->stdin_data.len > CAY_FRAME_STDIN_WINDOW_BYTES)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "stdin_data: %d bytes at most",
                        CAY_FRAME_STDIN_WINDOW_BYTES);
    return true;
}

static struct cay_run *make_run(struct cay_call *call, const struct cay_v1_process_spec *spec,
                                const struct cay_run_style *style)
{
    struct cay_run *run = cay_new(struct cay_run);
    run->call = call;
    run->style = style;
    run->result_bytes_max = CAY_LIMIT_RESULT_BYTES;
    run->kills_on_disconnect = spec->policy && spec->policy->kill_on_disconnect;
    run->command = (struct cay_command){
        .argv = spec->argv,
        .env = spec->env,
        .cwd = spec->cwd,
        .user = spec->user,
        .stdin_data = spec->stdin_data,
        .has_stdin = spec->stdin_data.len > 0,
        .policy = spec->policy,
    };
    return run;
}

static struct cay_str attach_session(const struct cay_run *run)
{
    const struct cay_v1_attach_process_request *request = run->call->request;
    return request->session_id;
}

static void attach_started(struct cay_run *run)
{
    struct cay_v1_attach_process_response response = {
        .which_frame = CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_ATTACHED,
        .frame.attached = to_process(run, attach_session(run), NULL),
    };
    (void)cay_call_send(run->call, &response);
}

static bool attach_output(struct cay_run *run, const struct cay_frame_output *output)
{
    struct cay_v1_output_chunk chunk = {
        .stream = to_stream(output->stream),
        .offset = (int64_t)output->offset,
        .data = output->data,
        .dropped_bytes = (int64_t)run->gap_bytes,
    };
    struct cay_v1_attach_process_response response = {
        .which_frame = CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_OUTPUT, .frame.output = &chunk};
    return cay_call_send(run->call, &response);
}

static void attach_answer(struct cay_run *run, struct cay_v1_exec_result *result,
                          const struct cay_error *err)
{
    if (!result) {
        cay_call_fail(run->call, err);
        return;
    }
    struct cay_v1_attach_process_response response = {
        .which_frame = CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_EXITED,
        .frame.exited = to_process(run, attach_session(run), result),
    };
    (void)cay_call_send(run->call, &response);
    cay_call_done(run->call, NULL);
}

static const struct cay_run_style attach_style = {
    .started = attach_started,
    .output = attach_output,
    .answer = attach_answer,
};

void cay_host_attach_process(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_attach_process_request *request = call->request;
    struct cay_error err = {};
    if (request->which_target != CAY_V1_ATTACH_PROCESS_REQUEST_TARGET_LAUNCH)
        cay_fail(&err, CAY_R_NOT_SUPPORTED,
                 "process_id: this version attaches only to what it launches; use launch");
    else
        (void)check_spec(request->target.launch, &err);
    if (err.reason) {
        cay_call_fail(call, &err);
        return;
    }
    cay_run_start(make_run(call, request->target.launch, &attach_style), cay_host_of(service),
                  request->session_id);
}

static void add_output(struct cay_run *run, const struct cay_capture *capture,
                       enum cay_v1_output_stream stream,
                       struct cay_v1_launch_process_response *response)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, CAY_LIMIT_RESULT_BYTES_MAX + 4096);
    cay_capture_write(capture, &text);
    if (!text.len)
        return;
    response->output.items[response->output.count++] = (struct cay_v1_output_chunk){
        .stream = stream,
        .data = cay_arena_str(&run->call->arena, cay_buf_str(&text)),
        .dropped_bytes = (int64_t)cay_capture_dropped(capture),
    };
}

static void launch_answer(struct cay_run *run, struct cay_v1_exec_result *result,
                          const struct cay_error *err)
{
    const struct cay_v1_launch_process_request *request = run->call->request;
    if (!result) {
        cay_call_fail(run->call, err);
        return;
    }
    struct cay_v1_output_chunk chunks[2];
    struct cay_v1_launch_process_response response = {
        .process = to_process(run, request->session_id, result), .output.items = chunks};
    add_output(run, &run->out, CAY_V1_OUTPUT_STREAM_STDOUT, &response);
    add_output(run, &run->err_out, CAY_V1_OUTPUT_STREAM_STDERR, &response);
    cay_call_done(run->call, &response);
}

static const struct cay_run_style launch_style = {
    .answer = launch_answer,
};

void cay_host_launch_process(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_launch_process_request *request = call->request;
    struct cay_error err = {};
    if (!request->wait)
        cay_fail(&err, CAY_R_NOT_SUPPORTED,
                 "wait: this version runs commands to their end; say how long to wait");
    else if (request->max_output_bytes < 0 ||
             request->max_output_bytes > CAY_LIMIT_RESULT_BYTES_MAX)
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "max_output_bytes: %d at most",
                 CAY_LIMIT_RESULT_BYTES_MAX);
    else
        (void)check_spec(request->spec, &err);
    if (err.reason) {
        cay_call_fail(call, &err);
        return;
    }
    struct cay_run *run = make_run(call, request->spec, &launch_style);
    if (request->max_output_bytes)
        run->result_bytes_max = (size_t)request->max_output_bytes;
    int64_t wait_ms = cay_noun_duration_ms(request->wait);
    run->command.timeout_ms = wait_ms > 0 ? wait_ms : WAIT_MS_DEFAULT;
    cay_run_start(run, cay_host_of(service), request->session_id);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "host/exec/launch.h"
#include "host/exec/run.h"
#include "host/exec/verbs.h"
#include "host/exec/verbs_process.h"
#include "host/process/events.h"
#include "host/process/reader.h"
#include "host/session/host.h"

/*
 * LaunchProcess. A plain command that is waited for is run as any other command is, without a word
 * in the database unless it takes a while; everything else becomes a process of the table first.
 */

enum cay_v1_output_stream cay_process_stream(uint8_t stream)
{
    switch (stream) {
    case CAY_STREAM_STDERR: return CAY_V1_OUTPUT_STREAM_STDERR;
    case CAY_STREAM_PTY: return CAY_V1_OUTPUT_STREAM_PTY;
    default: return CAY_V1_OUTPUT_STREAM_STDOUT;
    }
}

static void add_output(struct cay_call *call, const struct cay_capture *capture,
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
        .data = cay_arena_str(&call->arena, cay_buf_str(&text)),
        .dropped_bytes = (int64_t)cay_capture_dropped(capture),
    };
}

static void answer_launch(struct cay_call *call, struct cay_v1_process *process,
                          const struct cay_capture *out, const struct cay_capture *err_out,
                          bool is_terminal)
{
    struct cay_error err = {};
    /* A copy: what it borrows may be gone before it is sent. */
    struct cay_v1_launch_process_response response = {
        .process = process ? cay_noun_copy(&cay_v1_process_desc, process, &call->arena) : NULL,
        .output.items = cay_arena_array(&call->arena, 2, sizeof(*response.output.items)),
    };
    if (!response.process || !response.output.items) {
        cay_fail(&err, CAY_R_RESOURCE_EXHAUSTED,
                 "the answer takes more memory than a call may use");
        cay_call_fail(call, &err);
        return;
    }
    if (out)
        add_output(call, out, is_terminal ? CAY_V1_OUTPUT_STREAM_PTY : CAY_V1_OUTPUT_STREAM_STDOUT,
                   &response);
    if (err_out)
        add_output(call, err_out, CAY_V1_OUTPUT_STREAM_STDERR, &response);
    cay_call_done_kept(call, &response);
}

/* --- plain commands --- */

static void plain_answer(struct cay_run *run, struct cay_v1_exec_result *result,
                         const struct cay_error *err)
{
    if (err) {
        cay_call_fail(run->call, err);
        return;
    }
    struct cay_process *process = cay_run_process(run);
    if (run->exit && !cay_process_is_over(process))
        cay_process_finish_run(process, run->exit, run->who);
    struct cay_v1_process *message = cay_process_message(process, &run->call->arena);
    if (message && result)
        message->result = result;
    answer_launch(run->call, message, &run->out, &run->err_out, false);
}

static const struct cay_run_style plain_style = {.answer = plain_answer};

static void start_plain(struct cay_host *host, struct cay_call *call,
                        const struct cay_v1_launch_process_request *request, size_t bytes_max,
                        int64_t wait_ms)
{
    const struct cay_v1_process_spec *spec = request->spec;
    struct cay_run *run = cay_new(struct cay_run);
    run->call = call;
    run->style = &plain_style;
    run->origin = CAY_V1_PROCESS_ORIGIN_LAUNCHED;
    run->result_bytes_max = bytes_max;
    run->kills_on_disconnect = spec->policy && spec->policy->kill_on_disconnect;
    run->stdin_data = spec->stdin_data;
    run->tag = spec->tag;
    run->wait_ms = CAY_MAX(wait_ms, (int64_t)1);
    run->command = (struct cay_command_line){
        .argv = spec->argv,
        .env = spec->env,
        .cwd = spec->cwd,
        .user = spec->user,
        .has_stdin = spec->stdin_data.len > 0,
        .policy = spec->policy,
    };
    cay_run_start(run, host, request->session_id);
}

/* --- everything else --- */

struct start {
    struct cay_launch launch;
    struct cay_reader reader;
    struct cay_timer timer;
    struct cay_capture out;
    struct cay_capture err_out;
    struct cay_host *host;
    int64_t wait_ms; /* -1: it is not waited for */
    bool is_gone;    /* the caller */
};

static void end_start(struct start *self, const struct cay_process *process,
                      const struct cay_error *err)
{
    struct cay_call *call = self->launch.call;
    cay_reader_close(&self->reader);
    cay_timer_close(&self->timer);
    if (err)
        cay_call_fail(call, err);
    else
        answer_launch(call, cay_process_message(process, &call->arena),
                      self->wait_ms >= 0 ? &self->out : NULL,
                      self->wait_ms >= 0 ? &self->err_out : NULL, process->flags & CAY_EXEC_PTY);
    cay_capture_finish(&self->out);
    cay_capture_finish(&self->err_out);
    free(self);
}

static void take_output(struct cay_reader *reader, const struct cay_frame_output *output, uint64_t)
{
    struct start *self = CAY_CONTAINER_OF(reader, struct start, reader);
    cay_capture_add(output->stream == CAY_STREAM_STDERR ? &self->err_out : &self->out,
                    output->data);
}

static void output_ended(struct cay_reader *reader)
{
    struct cay_error err = {};
    if (!reader->process)
        cay_fail(&err, CAY_R_PROCESS_NOT_FOUND, "the process went away with its session");
    end_start(CAY_CONTAINER_OF(reader, struct start, reader), reader->process,
              reader->process ? NULL : &err);
}

static void wait_over(struct cay_timer *timer)
{
    struct start *self = CAY_CONTAINER_OF(timer, struct start, timer);
    end_start(self, self->reader.process, NULL);
}

static void launched(struct cay_launch *launch, struct cay_process *process,
                     const struct cay_error *err)
{
    struct start *self = CAY_CONTAINER_OF(launch, struct start, launch);
    if (err || self->wait_ms < 0 || self->is_gone) {
        end_start(self, process, err);
        return;
    }
    self->reader.output = take_output;
    self->reader.ended = output_ended;
    cay_timer_open(&self->timer, self->host->loop, wait_over);
    cay_timer_start(&self->timer, (uint64_t)self->wait_ms, 0);
    cay_reader_open(&self->reader, process, 0, UINT64_MAX);
}

static void caller_gone(struct cay_call *call)
{
    struct start *self = call->state;
    struct cay_error err = {};
    struct cay_process *process = self->reader.process;
    self->is_gone = true;
    if (!process)
        return; /* it is being started: `launched` comes */
    /* First: a process that waits for its restart ends inside the signal, and its readers with it.
     */
    cay_reader_close(&self->reader);
    if (process->kills_on_disconnect)
        (void)cay_process_signal(process, SIGKILL, true, -1, &err);
    cay_fail(&err, CAY_R_CANCELED, NULL);
    end_start(self, NULL, &err);
}

static void start_process(struct cay_host *host, struct cay_call *call,
                          const struct cay_v1_launch_process_request *request, size_t bytes_max,
                          int64_t wait_ms)
{
    struct start *self = cay_new(struct start);
    self->host = host;
    self->wait_ms = wait_ms;
    cay_capture_init(&self->out, bytes_max);
    cay_capture_init(&self->err_out, bytes_max);
    self->launch.call = call;
    self->launch.spec = request->spec;
    self->launch.origin = CAY_V1_PROCESS_ORIGIN_LAUNCHED;
    self->launch.has_reader = wait_ms >= 0;
    self->launch.done = launched;
    call->state = self;
    call->on_cancel = caller_gone;
    cay_launch_start(&self->launch, host, request->session_id);
}

void cay_host_launch_process(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_launch_process_request *request = call->request;
    const struct cay_v1_process_spec *spec = request->spec;
    struct cay_error err = {};
    int64_t wait_ms = -1;
    if (request->max_output_bytes < 0 || request->max_output_bytes > CAY_LIMIT_RESULT_BYTES_MAX)
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "max_output_bytes: %d at most",
                 CAY_LIMIT_RESULT_BYTES_MAX);
    else if (cay_launch_check(spec, &err) && request->wait)
        (void)cay_process_wait_ms(request->wait, &wait_ms, &err);
    if (err.reason) {
        cay_call_fail(call, &err);
        return;
    }
    size_t bytes_max =
        request->max_output_bytes ? (size_t)request->max_output_bytes : CAY_LIMIT_RESULT_BYTES;
    bool is_plain = request->wait && !spec->expose_port && !spec->pty && !spec->stdin_open &&
                    !spec->restart &&
                    !(spec->policy && spec->policy->overflow >= CAY_V1_OUTPUT_OVERFLOW_BLOCK);
    if (is_plain)
        start_plain(cay_host_of(service), call, request, bytes_max, wait_ms);
    else
        start_process(cay_host_of(service), call, request, bytes_max, wait_ms);
}

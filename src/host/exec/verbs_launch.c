/* SPDX-License-Identifier: Apache-2.0 */
#include "api/limits.h"
#include "api/noun.h"
#include "host/exec/run.h"
#include "host/exec/verbs.h"
#include "host/exec/verbs_process.h"
#include "host/session/host.h"

/*
 * LaunchProcess. A plain command that is waited for runs for the call alone, without a word in the
 * database unless it takes a while; everything else is written down first.
 */

enum cay_v1_output_stream cay_process_stream(uint8_t stream)
{
    switch (stream) {
    case CAY_STREAM_STDERR: return CAY_V1_OUTPUT_STREAM_STDERR;
    case CAY_STREAM_PTY: return CAY_V1_OUTPUT_STREAM_PTY;
    default: return CAY_V1_OUTPUT_STREAM_STDOUT;
    }
}

/* `lost_bytes`: before it came here. */
static void add_output(struct cay_call *call, const struct cay_capture *capture,
                       uint64_t lost_bytes, enum cay_v1_output_stream stream,
                       struct cay_v1_launch_process_response *response)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, CAY_LIMIT_RESULT_BYTES_MAX + 4096);
    cay_capture_write(capture, &text);
    if (!text.len && !lost_bytes)
        return;
    response->output.items[response->output.count++] = (struct cay_v1_output_chunk){
        .stream = stream,
        .data = cay_arena_str(&call->arena, cay_buf_str(&text)),
        .dropped_bytes = (int64_t)(cay_capture_dropped(capture) + lost_bytes),
    };
}

static void answer_launch(struct cay_call *call, struct cay_v1_process *process,
                          const struct cay_capture *out, const struct cay_capture *err_out,
                          uint64_t lost_bytes, bool is_terminal)
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
        add_output(call, out, lost_bytes,
                   is_terminal ? CAY_V1_OUTPUT_STREAM_PTY : CAY_V1_OUTPUT_STREAM_STDOUT, &response);
    if (err_out)
        add_output(call, err_out, 0, CAY_V1_OUTPUT_STREAM_STDERR, &response);
    cay_call_done_kept(call, &response);
}

static void answer(struct cay_run *run, struct cay_process *process,
                   struct cay_v1_exec_result *result, const struct cay_error *err)
{
    struct cay_call *call = run->launch.call;
    if (err) {
        cay_call_fail(call, err);
        return;
    }
    struct cay_v1_process *message = cay_process_message(process, &call->arena);
    if (message && result)
        message->result = result;
    bool is_waited_for = run->wait_ms >= 0;
    answer_launch(call, message, is_waited_for ? &run->out : NULL,
                  is_waited_for ? &run->err_out : NULL, run->reader.dropped_bytes,
                  process->flags & CAY_EXEC_PTY);
}

/* Nobody but the caller can have to do with it while it is waited for. */
static bool is_command(const struct cay_v1_launch_process_request *request)
{
    const struct cay_v1_process_spec *spec = request->spec;
    return request->wait && !request->request_id.len && !spec->expose_port && !spec->pty &&
           !spec->stdin_open && !spec->restart &&
           !(spec->policy && spec->policy->overflow >= CAY_V1_OUTPUT_OVERFLOW_BLOCK);
}

static bool check_id(const struct cay_v1_launch_process_request *request, struct cay_error *err)
{
    const struct cay_v1_exec_policy *policy = request->spec ? request->spec->policy : NULL;
    if (request->request_id.len > CAY_LIMIT_ID_BYTES)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "request_id: %d bytes at most",
                        CAY_LIMIT_ID_BYTES);
    return !request->request_id.len || !policy || !policy->kill_on_disconnect ||
           cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "request_id: a process that ends with its caller cannot be asked for again; "
                    "leave out kill_on_disconnect");
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
    else if (check_id(request, &err) && cay_launch_check(spec, &err) && request->wait)
        (void)cay_process_wait_ms(request->wait, &wait_ms, &err);
    if (err.reason) {
        cay_call_fail(call, &err);
        return;
    }
    static const struct cay_run_style style = {.answer = answer, .keeps = true};
    struct cay_run *run = cay_new(struct cay_run);
    run->style = &style;
    run->wait_ms = request->wait ? CAY_MAX(wait_ms, (int64_t)1) : -1;
    run->result_bytes_max =
        request->max_output_bytes ? (size_t)request->max_output_bytes : CAY_LIMIT_RESULT_BYTES;
    run->launch.call = call;
    run->launch.spec = spec;
    run->launch.request_id = request->request_id;
    run->launch.origin = CAY_V1_PROCESS_ORIGIN_LAUNCHED;
    run->launch.has_reader = request->wait;
    run->launch.is_for_call = is_command(request);
    cay_run_start(run, cay_host_of(service), request->session_id);
}

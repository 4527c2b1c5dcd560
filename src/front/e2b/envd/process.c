/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/envd/process.h"

#include <signal.h>
#include <stdio.h>

#include "api/limits.h"
#include "front/e2b/envd/handlers.h"
#include "front/rest/call.h"

/* Processes: looking at them, and what is done to them in one step. */

enum { LIST_PAGE = 1000 };

bool cay_e2b_process_id(struct cay_rest_request *request,
                        const struct e2b_process_selector *selector, struct cay_str *out_id)
{
    const char *id = NULL;
    if (selector && selector->which_selector == E2B_PROCESS_SELECTOR_SELECTOR_PID)
        id = cay_arena_printf(&request->arena, "pid:%u", selector->selector.pid);
    else if (selector && selector->which_selector == E2B_PROCESS_SELECTOR_SELECTOR_TAG)
        id = cay_arena_printf(&request->arena, "tag:%.*s", (int)selector->selector.tag.len,
                              selector->selector.tag.ptr ? selector->selector.tag.ptr : "");
    if (id) {
        *out_id = cay_str(id);
        return true;
    }
    cay_e2b_rpc_fail(request, CAY_CODE_INVALID_ARGUMENT,
                     "the process is not named: give a pid or a tag");
    return false;
}

void cay_e2b_process_missing(struct cay_rest_request *request, struct cay_str process_id)
{
    char text[CAY_LIMIT_TAG_BYTES + 64];
    bool is_pid = cay_str_starts(process_id, "pid:");
    snprintf(text, sizeof(text), "process with %s %.*s not found", is_pid ? "pid" : "tag",
             (int)CAY_MIN(process_id.len - 4, (size_t)CAY_LIMIT_TAG_BYTES), process_id.ptr + 4);
    cay_e2b_rpc_fail(request, CAY_CODE_NOT_FOUND, text);
}

/* Those clients know no process that has ended; the hallway remembers it for a while. */
static bool is_gone(const struct cay_error *err)
{
    const char *state = cay_error_get(err, "state");
    return err->reason == CAY_R_PROCESS_NOT_FOUND ||
           (err->reason == CAY_R_FAILED_PRECONDITION && state && strcmp(state, "ended") == 0);
}

void cay_e2b_process_error(struct cay_rest_request *request, struct cay_str process_id,
                           const struct cay_error *err)
{
    if (is_gone(err))
        cay_e2b_process_missing(request, process_id);
    else
        cay_e2b_rpc_error(request, err);
}

struct cay_str cay_e2b_process_bytes(const struct e2b_process_input *input)
{
    if (input && input->which_input == E2B_PROCESS_INPUT_INPUT_STDIN)
        return input->input.stdin;
    return input && input->which_input == E2B_PROCESS_INPUT_INPUT_PTY ? input->input.pty
                                                                      : (struct cay_str){};
}

static void write_process(struct cay_json_writer *json, const struct cay_v1_process *process)
{
    cay_json_object_begin(json);
    cay_json_key(json, "config");
    cay_json_object_begin(json);
    cay_json_key(json, "cmd");
    cay_json_string(json, process->argv.count ? process->argv.items[0] : CAY_STR(""));
    cay_json_key(json, "args");
    cay_json_array_begin(json);
    for (size_t i = 1; i < process->argv.count; i++)
        cay_json_string(json, process->argv.items[i]);
    cay_json_array_end(json);
    cay_json_key(json, "envs");
    cay_json_object_begin(json);
    cay_json_object_end(json);
    cay_json_key(json, "cwd");
    cay_json_string(json, process->cwd);
    cay_json_object_end(json);
    cay_json_key(json, "pid");
    cay_json_i64(json, process->pid);
    if (process->tag.len) {
        cay_json_key(json, "tag");
        cay_json_string(json, process->tag);
    }
    cay_json_object_end(json);
}

static void listed(struct cay_rest_request *request, struct cay_rest_call *, const void *response,
                   const struct cay_error *err)
{
    const struct cay_v1_list_processes_response *list = response;
    if (err) {
        cay_e2b_rpc_error(request, err);
        return;
    }
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, CAY_LIMIT_MESSAGE_BYTES);
    struct cay_json_writer json = {.buf = &body};
    cay_json_object_begin(&json);
    cay_json_key(&json, "processes");
    cay_json_array_begin(&json);
    for (size_t i = 0; i < list->processes.count; i++) {
        const struct cay_v1_process *process = &list->processes.items[i];
        if (process->pid > 0 && process->origin == CAY_V1_PROCESS_ORIGIN_LAUNCHED)
            write_process(&json, process);
    }
    cay_json_array_end(&json);
    cay_json_object_end(&json);
    cay_e2b_rpc_reply(request, cay_buf_str(&body));
}

void cay_e2b_process_list(struct cay_rest_request *request)
{
    if (!cay_e2b_rpc_read(request, &e2b_list_request_desc))
        return;
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_PROCESS_SERVICE_LIST_PROCESSES);
    struct cay_v1_list_processes_request *ask = cay_rest_call_message(call);
    ask->session_id = cay_e2b_visit(request)->sandbox_id;
    ask->page_size = LIST_PAGE;
    cay_rest_call_start(call, listed);
}

/* Calls that answer {}; the name of the process is the request's state. */
static void done(struct cay_rest_request *request, struct cay_rest_call *call, const void *,
                 const struct cay_error *err)
{
    if (err)
        cay_e2b_process_error(request, *(struct cay_str *)call->state, err);
    else
        cay_e2b_rpc_reply(request, CAY_STR("{}"));
}

static struct cay_rest_call *call_on(struct cay_rest_request *request, unsigned method,
                                     const struct e2b_process_selector *selector)
{
    struct cay_str *id = cay_arena_new(&request->arena, struct cay_str);
    if (!id || !cay_e2b_process_id(request, selector, id))
        return NULL;
    struct cay_rest_call *call = cay_rest_call_new(request, method);
    call->state = id;
    return call;
}

void cay_e2b_process_update(struct cay_rest_request *request)
{
    const struct e2b_update_request *wanted = cay_e2b_rpc_read(request, &e2b_update_request_desc);
    if (!wanted)
        return;
    if (!wanted->pty || !wanted->pty->size) {
        cay_e2b_rpc_reply(request, CAY_STR("{}"));
        return;
    }
    struct cay_rest_call *call =
        call_on(request, CAY_V1_PROCESS_SERVICE_RESIZE_PTY, wanted->process);
    if (!call)
        return;
    struct cay_v1_resize_pty_request *ask = cay_rest_call_message(call);
    ask->session_id = cay_e2b_visit(request)->sandbox_id;
    ask->process_id = *(struct cay_str *)call->state;
    ask->size = cay_arena_new(&call->errand.call.arena, struct cay_v1_pty_size);
    if (ask->size)
        *ask->size = (struct cay_v1_pty_size){.rows = wanted->pty->size->rows,
                                              .cols = wanted->pty->size->cols};
    cay_rest_call_start(call, done);
}

void cay_e2b_process_input_error(struct cay_rest_request *request, struct cay_str process_id,
                                 const struct cay_error *err)
{
    if (err->reason == CAY_R_FAILED_PRECONDITION && !is_gone(err))
        cay_e2b_rpc_fail(request, CAY_CODE_INTERNAL, "stdin not enabled or closed");
    else
        cay_e2b_process_error(request, process_id, err);
}

void cay_e2b_process_close_stdin(struct cay_rest_request *request)
{
    const struct e2b_close_stdin_request *wanted =
        cay_e2b_rpc_read(request, &e2b_close_stdin_request_desc);
    struct cay_rest_call *call =
        wanted ? call_on(request, CAY_V1_PROCESS_SERVICE_CLOSE_INPUT, wanted->process) : NULL;
    if (!call)
        return;
    struct cay_v1_close_input_request *ask = cay_rest_call_message(call);
    ask->session_id = cay_e2b_visit(request)->sandbox_id;
    ask->process_id = *(struct cay_str *)call->state;
    cay_rest_call_start(call, done);
}

static void signalled(struct cay_rest_request *request, struct cay_rest_call *call,
                      const void *response, const struct cay_error *err)
{
    const struct cay_v1_kill_process_response *killed = response;
    if (!err && killed->already_exited)
        cay_e2b_process_missing(request, *(struct cay_str *)call->state);
    else
        done(request, call, response, err);
}

void cay_e2b_process_send_signal(struct cay_rest_request *request)
{
    const struct e2b_send_signal_request *wanted =
        cay_e2b_rpc_read(request, &e2b_send_signal_request_desc);
    if (!wanted)
        return;
    if (wanted->signal != E2B_SIGNAL_SIGKILL && wanted->signal != E2B_SIGNAL_SIGTERM) {
        cay_e2b_rpc_fail(request, CAY_CODE_INVALID_ARGUMENT,
                         "the signal is SIGNAL_SIGKILL or SIGNAL_SIGTERM");
        return;
    }
    struct cay_rest_call *call =
        call_on(request, CAY_V1_PROCESS_SERVICE_KILL_PROCESS, wanted->process);
    if (!call)
        return;
    struct cay_v1_kill_process_request *ask = cay_rest_call_message(call);
    ask->session_id = cay_e2b_visit(request)->sandbox_id;
    ask->process_id = *(struct cay_str *)call->state;
    ask->signal = wanted->signal == E2B_SIGNAL_SIGKILL ? SIGKILL : SIGTERM;
    ask->scope = CAY_V1_KILL_SCOPE_PROCESS;
    ask->wait = wanted->signal == E2B_SIGNAL_SIGKILL; /* it is reaped when we answer */
    cay_rest_call_start(call, signalled);
}

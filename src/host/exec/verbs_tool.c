/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "host/exec/once.h"
#include "host/exec/tool_call.h"
#include "host/exec/verbs.h"
#include "host/file/tree.h"
#include "host/file/users.h"
#include "host/life/pause.h"
#include "host/past/verbs_turn.h"
#include "host/session/host.h"
#include "host/session/quota.h"
#include "host/session/tell.h"
#include "tool/order.h"
#include "tool/tool.h"

/*
 * The verbs of tools, and those tools that run on a worker on the session's tree (tier 1). One call
 * object for the unary and the streaming verb: they differ in how the result is wrapped.
 */

/* The end of a call that was to happen once, then of the call itself. */
void cay_tool_fail(struct cay_call *call, const struct cay_tool_call *tool,
                   const struct cay_error *err)
{
    struct cay_error kept = *err;
    const struct cay_tool_call ended = *tool; /* it may be in memory that goes with the call */
    cay_pulse_stop(tool->pulse);
    cay_once_end(tool->once, NULL, &kept);
    cay_call_fail(call, &kept);
    cay_tool_turn_leave(&ended);
}

/* --- signs of life on a silent stream --- */

static void on_pulse(struct cay_timer *timer)
{
    struct cay_pulse *pulse = CAY_CONTAINER_OF(timer, struct cay_pulse, timer);
    struct cay_v1_heartbeat heartbeat = {};
    struct cay_v1_execute_tool_stream_response response = {
        .which_frame = CAY_V1_EXECUTE_TOOL_STREAM_RESPONSE_FRAME_HEARTBEAT,
        .frame.heartbeat = &heartbeat};
    cay_timer_start(timer, CAY_PULSE_MS, 0);
    (void)cay_call_send(pulse->call, &response);
}

void cay_pulse_start(struct cay_pulse *pulse, struct cay_call *call, struct cay_loop *loop)
{
    pulse->call = call;
    cay_timer_open(&pulse->timer, loop, on_pulse);
    cay_timer_start(&pulse->timer, CAY_PULSE_MS, 0);
}

void cay_pulse_beat(struct cay_pulse *pulse)
{
    if (pulse)
        cay_timer_start(&pulse->timer, CAY_PULSE_MS, 0);
}

void cay_pulse_stop(struct cay_pulse *pulse)
{
    if (pulse && pulse->call)
        cay_timer_close(&pulse->timer);
    if (pulse)
        pulse->call = NULL;
}

/* What tools make of their results lasts as long as the call, but for the first structs. */
static struct cay_v1_tool_result *keep_result(struct cay_arena *arena,
                                              const struct cay_v1_tool_result *result)
{
    struct cay_v1_tool_result *kept = cay_arena_new(arena, struct cay_v1_tool_result);
    size_t count = result->content.count;
    void *blocks = cay_arena_array(arena, count, sizeof(*result->content.items));
    struct cay_v1_truncation *truncation = cay_arena_new(arena, struct cay_v1_truncation);
    if (!kept || !blocks || !truncation)
        return NULL;
    *kept = *result;
    if (count)
        kept->content.items =
            memcpy(blocks, result->content.items, count * sizeof(*result->content.items));
    if (result->truncation) {
        *truncation = *result->truncation;
        kept->truncation = truncation;
    }
    return kept;
}

static void send_once(struct cay_call *call, bool is_stream, struct cay_v1_tool_result *result,
                      void (*done)(struct cay_call *call, const void *response))
{
    struct cay_v1_execute_tool_response response = {.result = result};
    struct cay_v1_execute_tool_stream_response last = {
        .which_frame = CAY_V1_EXECUTE_TOOL_STREAM_RESPONSE_FRAME_RESULT, .frame.result = result};
    done(call, is_stream ? (const void *)&last : &response);
}

static void send_result(struct cay_call *call, bool is_stream, struct cay_v1_tool_result *result)
{
    struct cay_v1_tool_result *kept = keep_result(&call->arena, result);
    if (kept)
        send_once(call, is_stream, kept, cay_call_done_kept);
    else
        send_once(call, is_stream, result, cay_call_done_last);
}

/* A result that waits for the snapshot after it; in the call's arena. */
struct snapshot_wait {
    struct cay_call *call;
    struct cay_once *once;
    struct cay_v1_tool_result *result;
    struct cay_pulse *pulse;
    bool is_stream;
};

static void snapshot_taken(void *context, const char *name, const struct cay_error *err)
{
    struct snapshot_wait *wait = context;
    cay_pulse_stop(wait->pulse);
    struct cay_arena *arena = &wait->call->arena;
    if (name)
        wait->result->snapshot = cay_arena_str(arena, cay_str(name));
    else
        wait->result->snapshot_error = cay_arena_str(arena, cay_str(err->text));
    cay_once_end(wait->once, wait->result, NULL);
    send_result(wait->call, wait->is_stream, wait->result);
}

static bool wants_snapshot(const struct cay_call *call, const struct cay_tool_call *tool,
                           const struct cay_v1_tool_result *result)
{
    if (result->is_error || tool->tool->read_only || call->is_cancelled)
        return false;
    if (tool->request->has_snapshot)
        return tool->request->snapshot;
    return !tool->session->is_gone && tool->session->spec->tool_snapshots;
}

/* What a tool runs in a shell; empty where it runs something else. */
static struct cay_str command_of(const struct cay_v1_tool_call *request)
{
    const struct google_protobuf_struct *params = request->params;
    for (size_t i = 0; params && i < params->fields.count; i++) {
        const struct google_protobuf_struct_fields_entry *entry = &params->fields.items[i];
        if (cay_str_is(entry->key, "cmd") && entry->value &&
            entry->value->which_kind == GOOGLE_PROTOBUF_VALUE_KIND_STRING_VALUE)
            return entry->value->kind.string_value;
    }
    return (struct cay_str){};
}

static void tell_completed(const struct cay_call *call, const struct cay_tool_call *tool,
                           const struct cay_v1_tool_result *result)
{
    const struct cay_session *session =
        cay_sessions_find(&tool->host->sessions, &call->caller, tool->session_id);
    const struct cay_v1_exec_result *exec = result->exec;
    struct cay_str user = tool->request->user;
    struct cay_facts facts = {};
    cay_facts_text(&facts, "tool_name", result->tool_name);
    cay_facts_text(&facts, "command", command_of(tool->request));
    cay_facts_text(&facts, "user", user.len || !session ? user : session->spec->default_user);
    if (exec && exec->has_exit_code)
        cay_facts_number(&facts, "exit_code", exec->exit_code);
    cay_facts_number(&facts, "duration_ms", cay_noun_duration_ms(result->duration));
    cay_tell(tool->host, &(struct cay_happening){.type = "tool.completed",
                                                 .session = session,
                                                 .call = call,
                                                 .tool_call_id = tool->request->tool_call_id,
                                                 .reason = result->is_error ? "error" : "ok",
                                                 .is_look = tool->tool->read_only,
                                                 .facts = &facts});
}

void cay_tool_answer(struct cay_call *call, const struct cay_tool_call *tool,
                     struct cay_v1_tool_result *result)
{
    result->tool_call_id = tool->request->tool_call_id;
    result->tool_name = cay_str(tool->tool->name);
    result->tier = tool->tool->tier;
    result->duration = cay_noun_duration(&call->arena, cay_clock_ns() - tool->started_ns);
    tell_completed(call, tool, result);
    const struct cay_tool_call ended = *tool; /* it may be in memory that goes with the call */
    if (!wants_snapshot(call, tool, result)) {
        cay_pulse_stop(tool->pulse);
        cay_once_end(tool->once, result, NULL);
        send_result(call, tool->is_stream, result);
        cay_tool_turn_leave(&ended);
        return;
    }
    struct snapshot_wait *wait = cay_arena_new(&call->arena, struct snapshot_wait);
    struct cay_v1_tool_result *copy = cay_noun_copy(&cay_v1_tool_result_desc, result, &call->arena);
    if (!wait || !copy) {
        result->snapshot_error = CAY_STR("the result is too large to be kept meanwhile");
        cay_pulse_stop(tool->pulse);
        cay_once_end(tool->once, result, NULL);
        send_result(call, tool->is_stream, result);
        cay_tool_turn_leave(&ended);
        return;
    }
    *wait = (struct snapshot_wait){call, tool->once, copy, tool->pulse, tool->is_stream};
    cay_snapshot_after_tool(tool->host, call, tool->session_id, tool->request->tool_call_id,
                            snapshot_taken, wait);
    cay_tool_turn_leave(&ended);
}

void cay_tool_send_started(struct cay_call *call, const struct cay_tool_call *tool,
                           const char *process_id)
{
    struct cay_v1_tool_started started = {
        .process_id = cay_str(process_id),
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
    struct cay_tool_call tool;
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
                        self->tool.timeout_ms, self->tool.result_bytes_max, &op->call->arena,
                        &self->result, err);
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
        cay_tool_answer(call, &self->tool, &self->result);
    else
        cay_tool_fail(call, &self->tool, &err);
    free(self);
}

/* What is to happen once also happens when its caller has gone: it will ask again. */
static const struct cay_op_steps file_tool_steps = {
    .begin = file_tool_begin,
    .work = file_tool_work,
    .end = file_tool_end,
};

static const struct cay_op_steps look_steps = {
    .begin = file_tool_begin,
    .work = file_tool_work,
    .end = file_tool_end,
    .ends_with_call = true,
};

static const struct cay_op_steps search_steps = {
    .begin = file_tool_begin,
    .work = file_tool_work,
    .end = file_tool_end,
    .ends_with_call = true,
    .is_search = true,
};

static const struct cay_op_steps *steps_of(const struct cay_tool_call *tool)
{
    if (!tool->tool->read_only)
        return &file_tool_steps;
    return cay_tool_is_search(tool->tool, tool->request->params) ? &search_steps : &look_steps;
}

static void file_tool_awake(struct cay_call *call, struct cay_session *session, void *context,
                            const struct cay_error *err)
{
    struct file_tool_op *self = context;
    if (err) {
        cay_tool_fail(call, &self->tool, err);
        free(self);
        return;
    }
    if (self->tool.is_stream)
        cay_tool_send_started(call, &self->tool, "");
    cay_op_start_on(&self->op, session, call, CAY_VERB_TOOL, false, steps_of(&self->tool));
}

static void start_file_tool(struct cay_call *call, const struct cay_tool_call *tool)
{
    struct file_tool_op *self = cay_new(struct file_tool_op);
    self->tool = *tool;
    cay_wake_as(tool->session, call, tool->request->user, false, &self->tree.user, file_tool_awake,
                self);
}

/* --- the verbs --- */

static bool check_call(const struct cay_v1_tool_call *request, struct cay_tool_call *tool,
                       struct cay_error *err)
{
    struct cay_tool_order order;
    if (!cay_tool_order(request, &order, err))
        return false;
    tool->tool = order.tool;
    tool->timeout_ms = order.timeout_ms;
    tool->result_bytes_max = order.result_bytes_max;
    return true;
}

/* A call that waits for another one's result. */
struct joined {
    struct cay_once_waiter waiter;
    struct cay_pulse pulse;
};

static void answer_joined(struct cay_once_waiter *waiter, struct cay_v1_tool_result *result,
                          const struct cay_error *err)
{
    struct joined *self = CAY_CONTAINER_OF(waiter, struct joined, waiter);
    struct cay_error given_up = {};
    cay_pulse_stop(&self->pulse);
    if (err && err->reason == CAY_R_CANCELED) {
        cay_fail(&given_up, CAY_R_UNAVAILABLE,
                 "whoever made the call first gave it up; make it again");
        err = &given_up;
    }
    if (!result) {
        cay_call_fail(waiter->call, err);
        return;
    }
    result->cached = true;
    /* It borrows from what is kept for others. */
    send_once(waiter->call, waiter->is_stream, result, cay_call_done_last);
}

/* True when this call is to run; without an error it joins another otherwise. */
static bool begin_once(struct cay_call *call, struct cay_session *session,
                       struct cay_tool_call *tool, struct cay_error *err)
{
    struct joined *self = cay_arena_new(&call->arena, struct joined);
    if (!self)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    self->waiter = (struct cay_once_waiter){
        .call = call, .is_stream = tool->is_stream, .answer = answer_joined};
    if (tool->is_stream)
        cay_pulse_start(&self->pulse, call, tool->host->loop);
    bool is_begun = cay_once_begin(session->once, tool->request, &self->waiter, &tool->once, err);
    if (!is_begun || tool->once)
        cay_pulse_stop(&self->pulse);
    return is_begun && tool->once;
}

static void execute(struct cay_host *host, struct cay_call *call, struct cay_str session_id,
                    const struct cay_v1_tool_call *request, bool is_stream)
{
    struct cay_tool_call tool = {
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
    tool.session = session;
    if (is_stream && (tool.pulse = cay_arena_new(&call->arena, struct cay_pulse)))
        cay_pulse_start(tool.pulse, call, host->loop);
    cay_tool_turn_take(call, &tool, tool.tool->run ? start_file_tool : cay_tool_command_start);
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

void cay_host_list_tools(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_list_tools_request *request = call->request;
    size_t count = cay_tool_count();
    struct cay_v1_list_tools_response response = {
        .tools.items = cay_arena_array(&call->arena, count, sizeof(struct cay_v1_tool))};
    struct cay_error err = {};
    struct cay_session *session = NULL;
    /* All runtimes have the same tools: what is asked of the session is that it is there. */
    if (request->session_id.len)
        (void)cay_session_check(cay_host_of(service), call, request->session_id, CAY_VERB_LOOK,
                                &session, &err);
    for (size_t i = 0; response.tools.items && i < count && !err.reason; i++)
        (void)cay_tool_describe(cay_tool_at(i), cay_host_of(service)->settings->tool_timeout_ms,
                                &call->arena, &response.tools.items[response.tools.count++], &err);
    if (err.reason)
        cay_call_fail(call, &err);
    else
        cay_call_done(call, &response);
}

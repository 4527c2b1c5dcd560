/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "api/limits.h"
#include "api/noun.h"
#include "base/clock.h"
#include "front/e2b/envd/entry.h"
#include "front/e2b/envd/handlers.h"
#include "front/e2b/envd/keepalive.h"
#include "front/e2b/envd/process.h"
#include "front/rest/call.h"

/*
 * The streams of a process: Start and Connect. Both follow it until it ends; a client that goes
 * away leaves it running. While somebody follows, the process waits for slow readers, so nothing
 * of its output is lost; while nobody does, it never waits.
 */

enum {
    REMEMBERED_S = 30,                        /* how long an ended process can be connected to */
    TIMEOUT_MS_MAX = 7 * 24 * 60 * 60 * 1000, /* the hallway's limit */
    SIGNALS_MAX = 32,
};

static const char *const signal_names[SIGNALS_MAX] = {
    [1] = "hangup",
    [2] = "interrupt",
    [3] = "quit",
    [4] = "illegal instruction",
    [5] = "trace/breakpoint trap",
    [6] = "aborted",
    [7] = "bus error",
    [8] = "floating point exception",
    [9] = "killed",
    [10] = "user defined signal 1",
    [11] = "segmentation fault",
    [12] = "user defined signal 2",
    [13] = "broken pipe",
    [14] = "alarm clock",
    [15] = "terminated",
};

static struct cay_json_writer *begin_event(struct cay_e2b_envelope *envelope, const char *kind)
{
    cay_e2b_envelope_begin(envelope);
    cay_json_object_begin(&envelope->json);
    cay_json_key(&envelope->json, "event");
    cay_json_object_begin(&envelope->json);
    cay_json_key(&envelope->json, kind);
    cay_json_object_begin(&envelope->json);
    return &envelope->json;
}

static bool send_event(struct cay_rest_request *request, struct cay_e2b_envelope *envelope)
{
    for (int i = 0; i < 3; i++)
        cay_json_object_end(&envelope->json);
    return cay_e2b_envelope_send(request, envelope);
}

static bool send_start(struct cay_rest_request *request, const struct cay_v1_process *process)
{
    struct cay_e2b_envelope envelope;
    struct cay_json_writer *json = begin_event(&envelope, "start");
    cay_json_key(json, "pid");
    cay_json_i64(json, process->pid);
    return send_event(request, &envelope);
}

static bool send_data(struct cay_rest_request *request, const char *stream, struct cay_str data)
{
    struct cay_e2b_envelope envelope;
    struct cay_json_writer *json = begin_event(&envelope, "data");
    cay_json_key(json, stream);
    cay_json_base64(json, data);
    return send_event(request, &envelope);
}

/* Their protocol has no field for it: a line among the output says what is missing there. */
static bool send_gap(struct cay_rest_request *request, const struct cay_v1_output_chunk *chunk)
{
    bool is_terminal = chunk->stream == CAY_V1_OUTPUT_STREAM_PTY;
    char text[96];
    snprintf(text, sizeof(text), "%s[%lld bytes of output were dropped here]%s\n",
             is_terminal ? "\r\n" : "", (long long)chunk->dropped_bytes, is_terminal ? "\r" : "");
    return send_data(request, is_terminal ? "pty" : "stderr", cay_str(text));
}

static bool send_output(struct cay_rest_request *request, const struct cay_v1_output_chunk *chunk)
{
    static const char *const names[] = {[CAY_V1_OUTPUT_STREAM_STDOUT] = "stdout",
                                        [CAY_V1_OUTPUT_STREAM_STDERR] = "stderr",
                                        [CAY_V1_OUTPUT_STREAM_PTY] = "pty"};
    bool has_room = cay_exchange_has_room(request->exchange);
    if (chunk->dropped_bytes)
        has_room = send_gap(request, chunk);
    if (!chunk->data.len || chunk->stream >= CAY_COUNT(names) || !names[chunk->stream])
        return has_room;
    return send_data(request, names[chunk->stream], chunk->data);
}

static void describe_end(const struct cay_v1_exec_result *result, char *out, size_t size)
{
    const char *name =
        result->signal > 0 && result->signal < SIGNALS_MAX ? signal_names[result->signal] : NULL;
    if (result->has_exit_code)
        snprintf(out, size, "exit status %d", result->exit_code);
    else if (result->cause == CAY_V1_END_CAUSE_LOST)
        snprintf(out, size, "signal: killed");
    else if (name)
        snprintf(out, size, "signal: %s", name);
    else
        snprintf(out, size, "signal: signal %d", result->signal);
}

/* Why it was killed is worth more to whoever reads it than that it was. */
static void write_why(struct cay_json_writer *json, const struct cay_v1_exec_result *result,
                      const char *status)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    int32_t told_count = (int32_t)result->network_refusals.count;
    cay_buf_init(&text, CAY_LIMIT_MESSAGE_BYTES);
    cay_buf_append_text(&text, status);
    if (result->cause == CAY_V1_END_CAUSE_OOM)
        cay_buf_append_text(&text, ": the sandbox ran out of memory");
    else if (result->cause == CAY_V1_END_CAUSE_LOST)
        cay_buf_printf(&text, ": %.*s", (int)result->message.len, result->message.ptr);
    for (int32_t i = 0; i < told_count; i++)
        cay_buf_printf(&text, "\n%.*s", (int)result->network_refusals.items[i].len,
                       result->network_refusals.items[i].ptr);
    if (result->network_refusal_count > told_count)
        cay_buf_printf(&text, "\nnetwork: and %d more", result->network_refusal_count - told_count);
    cay_json_key(json, "error");
    cay_json_string(json, cay_buf_str(&text));
}

static bool send_end(struct cay_rest_request *request, const struct cay_v1_exec_result *result)
{
    int32_t code = result->has_exit_code ? result->exit_code : -1;
    char status[64];
    struct cay_e2b_envelope envelope;
    describe_end(result, status, sizeof(status));
    struct cay_json_writer *json = begin_event(&envelope, "end");
    if (code) {
        cay_json_key(json, "exitCode");
        cay_json_i64(json, code);
    }
    cay_json_key(json, "exited");
    cay_json_bool(json, result->has_exit_code);
    cay_json_key(json, "status");
    cay_json_text(json, status);
    if (code)
        write_why(json, result, status);
    return send_event(request, &envelope);
}

static bool is_forgotten(const struct cay_v1_process *process)
{
    return process->ended_at && cay_clock_wall_ns() - cay_noun_time_ns(process->ended_at) >
                                    REMEMBERED_S * CAY_NS_PER_SEC;
}

struct follow {
    struct cay_rest_call *call; /* NULL once it is answered */
    struct cay_str process_id;  /* of Connect */
    struct cay_str cwd;         /* of Start, as the client gave it */
    bool is_over;               /* the client was told how it ended */
    struct cay_e2b_keepalive keepalive;
};

/* One that went with its sandbox was killed and measured by nobody: its stream breaks off. One that
 * was out of the time its client gave it is an error to that client. */
static bool on_exited(struct cay_rest_request *request, struct follow *self,
                      const struct cay_v1_process *process)
{
    const struct cay_v1_exec_result *result = process->result;
    bool is_gone = !result || (result->cause == CAY_V1_END_CAUSE_KILLED && !result->cpu_time);
    bool is_late =
        result && result->cause == CAY_V1_END_CAUSE_TIMEOUT_WALL && !self->process_id.len;
    self->is_over = is_gone || is_late;
    if (is_gone)
        cay_e2b_rpc_cut(request);
    else if (is_late)
        cay_e2b_rpc_fail(request, CAY_CODE_DEADLINE_EXCEEDED, "the command ran out of time");
    else
        return send_end(request, result);
    return true;
}

static bool on_frame(struct cay_rest_request *request, struct cay_rest_call *call,
                     const void *message)
{
    const struct cay_v1_attach_process_response *response = message;
    struct follow *self = call->state;
    switch (response->which_frame) {
    case CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_ATTACHED:
        self->is_over = self->process_id.len && is_forgotten(response->frame.attached);
        if (self->is_over) {
            cay_e2b_process_missing(request, self->process_id);
            return true;
        }
        cay_e2b_keepalive_said(&self->keepalive);
        return send_start(request, response->frame.attached);
    case CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_OUTPUT:
        cay_e2b_keepalive_said(&self->keepalive);
        return send_output(request, response->frame.output);
    case CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_EXITED:
        return on_exited(request, self, response->frame.exited);
    case CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_HEARTBEAT: /* the client has its own */
    case CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_NOT_SET: break;
    }
    return true;
}

static void fail(struct cay_rest_request *request, const struct follow *self,
                 const struct cay_error *err)
{
    char text[CAY_LIMIT_PATH_BYTES + 64];
    if (self->process_id.len) {
        cay_e2b_process_error(request, self->process_id, err);
    } else if (cay_rest_error_is_of(err, "cwd") && self->cwd.len) {
        snprintf(text, sizeof(text), "cwd '%.*s' does not exist", (int)self->cwd.len,
                 self->cwd.ptr);
        cay_e2b_rpc_fail(request, CAY_CODE_INVALID_ARGUMENT, text);
    } else {
        cay_e2b_rpc_error(request, err);
    }
}

static void ended(struct cay_rest_request *request, struct cay_rest_call *call, const void *,
                  const struct cay_error *err)
{
    struct follow *self = call->state;
    self->call = NULL;
    if (self->is_over)
        return;
    if (!err)
        cay_e2b_rpc_end(request);
    else if (request->is_answered) /* the process went away with its sandbox */
        cay_e2b_rpc_cut(request);
    else
        fail(request, self, err);
}

static void on_room(struct cay_rest_request *request)
{
    const struct follow *self = request->state;
    if (self->call)
        cay_rest_call_room(self->call);
}

static void on_closed(struct cay_rest_request *request)
{
    struct follow *self = request->state;
    self->call = NULL;
    cay_e2b_keepalive_close(&self->keepalive);
}

static void start(struct cay_rest_request *request, struct cay_rest_call *call, struct follow *self)
{
    cay_e2b_keepalive_open(&self->keepalive, request, "event", "keepalive");
    self->call = call;
    call->state = self;
    call->on_message = on_frame;
    request->state = self;
    request->on_room = on_room;
    request->on_closed = on_closed;
    cay_rest_call_start(call, ended);
}

static struct cay_pb_strs argv_of(const struct e2b_process_config *config, struct cay_arena *arena)
{
    struct cay_pb_strs argv = {
        .items = cay_arena_array(arena, config->args.count + 1, sizeof(struct cay_str))};
    if (!argv.items)
        return argv;
    argv.items[argv.count++] = config->cmd;
    for (size_t i = 0; i < config->args.count; i++)
        argv.items[argv.count++] = config->args.items[i];
    return argv;
}

/* What programs in such a sandbox find in their environment, unless the client says otherwise. */
static struct cay_pb_pairs env_of(const struct cay_rest_request *request,
                                  const struct e2b_process_config *config, struct cay_arena *arena)
{
    struct cay_pb_pair facts[] = {
        {.key = CAY_STR("E2B_SANDBOX"), .value = CAY_STR("true")},
        {.key = CAY_STR("E2B_SANDBOX_ID"), .value = cay_e2b_visit(request)->sandbox_id},
        {.key = CAY_STR("E2B_TEMPLATE_ID"), .value = cay_e2b_visit(request)->session->base},
    };
    const struct cay_pb_pairs own = {facts, CAY_COUNT(facts)};
    struct cay_pb_pairs env = {};
    (void)cay_noun_merge(arena, own, config->envs, &env);
    return env;
}

static struct cay_v1_exec_policy *policy_of(const struct cay_rest_request *request,
                                            struct cay_arena *arena)
{
    struct cay_v1_exec_policy *policy = cay_arena_new(arena, struct cay_v1_exec_policy);
    uint64_t timeout_ms = CAY_MIN(cay_e2b_rpc_timeout_ms(request), (uint64_t)TIMEOUT_MS_MAX);
    if (!policy)
        return NULL;
    policy->overflow = CAY_V1_OUTPUT_OVERFLOW_FOLLOW;
    if (timeout_ms)
        policy->timeout = cay_noun_duration(arena, (int64_t)timeout_ms * CAY_NS_PER_MS);
    return policy;
}

static struct cay_v1_process_spec *spec_of(struct cay_rest_request *request,
                                           const struct e2b_start_request *wanted,
                                           struct cay_str user, struct cay_arena *arena)
{
    struct cay_v1_process_spec *spec = cay_arena_new(arena, struct cay_v1_process_spec);
    if (!spec)
        return NULL;
    spec->argv = argv_of(wanted->process, arena);
    spec->env = env_of(request, wanted->process, arena);
    spec->cwd = cay_e2b_path(request, wanted->process->cwd);
    spec->user = user;
    spec->tag = wanted->tag;
    spec->stdin_open = !wanted->pty && (!wanted->has_stdin || wanted->stdin);
    spec->policy = policy_of(request, arena);
    if (wanted->pty) {
        spec->pty = cay_arena_new(arena, struct cay_v1_pty_size);
        if (spec->pty && wanted->pty->size)
            *spec->pty = (struct cay_v1_pty_size){.rows = wanted->pty->size->rows,
                                                  .cols = wanted->pty->size->cols};
    }
    return spec->argv.items && spec->policy && (!wanted->pty || spec->pty) ? spec : NULL;
}

void cay_e2b_process_start(struct cay_rest_request *request)
{
    const struct e2b_start_request *wanted = cay_e2b_rpc_read(request, &e2b_start_request_desc);
    struct follow *self = cay_arena_new(&request->arena, struct follow);
    struct cay_str user;
    if (!wanted || !cay_e2b_rpc_user(request, &user))
        return;
    struct cay_v1_process_spec *spec =
        wanted->process && self ? spec_of(request, wanted, user, &request->arena) : NULL;
    if (!spec) {
        cay_e2b_rpc_fail(request, CAY_CODE_INVALID_ARGUMENT, "process: there is nothing to start");
        return;
    }
    self->cwd = wanted->process->cwd;
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_PROCESS_SERVICE_ATTACH_PROCESS);
    struct cay_v1_attach_process_request *ask = cay_rest_call_message(call);
    ask->session_id = cay_e2b_visit(request)->sandbox_id;
    ask->which_target = CAY_V1_ATTACH_PROCESS_REQUEST_TARGET_LAUNCH;
    ask->target.launch = spec;
    start(request, call, self);
}

void cay_e2b_process_connect(struct cay_rest_request *request)
{
    const struct e2b_connect_request *wanted = cay_e2b_rpc_read(request, &e2b_connect_request_desc);
    if (!wanted)
        return;
    struct follow *self = cay_arena_new(&request->arena, struct follow);
    if (!self) {
        cay_e2b_rpc_fail(request, CAY_CODE_RESOURCE_EXHAUSTED, "the request is too large");
        return;
    }
    if (!cay_e2b_process_id(request, wanted->process, &self->process_id))
        return;
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_PROCESS_SERVICE_ATTACH_PROCESS);
    struct cay_v1_attach_process_request *ask = cay_rest_call_message(call);
    ask->session_id = cay_e2b_visit(request)->sandbox_id;
    ask->which_target = CAY_V1_ATTACH_PROCESS_REQUEST_TARGET_PROCESS_ID;
    ask->target.process_id = self->process_id;
    start(request, call, self);
}

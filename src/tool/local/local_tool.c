/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>

#include "api/argv.h"
#include "api/limits.h"
#include "api/noun.h"
#include "base/clock.h"
#include "base/stop.h"
#include "tool/command.h"
#include "tool/local/local_internal.h"
#include "tool/order.h"
#include "tool/run.h"

static bool full(struct cay_error *err)
{
    return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                    "the answer takes more memory than a call may use");
}

/* What only a sandbox has. */
static bool check_policy(const struct cay_v1_tool_call *call, struct cay_error *err)
{
    const struct cay_v1_exec_policy *policy = call->policy;
    if (call->user.len)
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "user: a local environment runs everything as its caller");
    if (policy && policy->limits)
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "policy.limits: a local environment has no limits");
    if (policy && (cay_noun_duration_ms(policy->timeout) < 0 ||
                   cay_noun_duration_ms(policy->no_output_timeout) < 0))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "policy: a timeout is not negative");
    return true;
}

/* --- tools on files --- */

static bool run_on_files(struct cay_local *local, const struct cay_local_call *call,
                         const struct cay_tool_order *order, struct cay_arena *arena,
                         struct cay_v1_tool_result *out_result, struct cay_error *err)
{
    struct cay_tool_tree tree = local->tree;
    tree.cwd = call->tool->cwd;
    if (!cay_check_cwd(tree.cwd, err))
        return false;
    if (tree.cwd.len && tree.cwd.ptr[0] == '~')
        return cay_tree_fail(err, -ENOLINK, tree.cwd);
    if (call->progress && call->progress->started)
        call->progress->started(call->progress->context, "");
    const bool *before = call->stop ? cay_stop_watch(call->stop) : NULL;
    bool is_done = cay_tool_run(order->tool, &tree, call->tool->params, order->timeout_ms,
                                order->result_bytes_max, arena, out_result, err);
    bool is_stopped = call->stop && cay_stop_asked();
    if (call->stop)
        (void)cay_stop_watch(before);
    /* What looks only may have ended early; what writes has happened. */
    if (is_stopped && order->tool->read_only)
        return cay_fail(err, CAY_R_CANCELED, NULL);
    return is_done;
}

/* --- commands --- */

/* A command's paths are the host's: what begins with the directory's name is put below its path. */
static bool translate(const struct cay_local *local, struct cay_arena *arena, struct cay_str *text)
{
    struct cay_str rest = cay_tree_rest(*text, local->tree.name);
    if (!rest.ptr || !local->host_name.len)
        return true;
    const struct cay_str top = {local->host_name.bytes, local->host_name.len};
    char *path = cay_arena_alloc(arena, top.len + rest.len + 1);
    if (!path)
        return false;
    memcpy(path, top.ptr, top.len);
    if (rest.len)
        memcpy(path + top.len, rest.ptr, rest.len);
    *text = (struct cay_str){path, top.len + rest.len};
    return true;
}

/* The parameters of git tools that are paths. */
static bool translate_value(const struct cay_local *local, struct cay_arena *arena,
                            struct google_protobuf_value *value)
{
    if (value->which_kind == GOOGLE_PROTOBUF_VALUE_KIND_STRING_VALUE)
        return translate(local, arena, &value->kind.string_value);
    if (value->which_kind != GOOGLE_PROTOBUF_VALUE_KIND_LIST_VALUE)
        return true;
    const struct google_protobuf_list_value *given = value->kind.list_value;
    struct google_protobuf_list_value *list =
        cay_arena_new(arena, struct google_protobuf_list_value);
    struct google_protobuf_value *items =
        cay_arena_array(arena, given->values.count, sizeof(*items));
    if (!list || !items)
        return false;
    *list = *given;
    list->values.items = items;
    for (size_t i = 0; i < given->values.count; i++) {
        items[i] = given->values.items[i];
        if (!translate(local, arena, &items[i].kind.string_value))
            return false;
    }
    value->kind.list_value = list;
    return true;
}

static bool is_path(struct cay_str name)
{
    static const char *const names[] = {"repo", "path", "paths", "directory"};
    for (size_t i = 0; i < CAY_COUNT(names); i++) {
        if (cay_str_is(name, names[i]))
            return true;
    }
    return false;
}

/* NULL when the arena is full. */
static const struct google_protobuf_struct *
translate_params(const struct cay_local *local, const struct cay_tool *tool,
                 const struct google_protobuf_struct *params, struct cay_arena *arena)
{
    static const struct google_protobuf_struct none;
    if (!params)
        return &none;
    if (tool->command != cay_tool_git)
        return params;
    size_t count = params->fields.count;
    struct google_protobuf_struct *own = cay_arena_new(arena, struct google_protobuf_struct);
    struct google_protobuf_struct_fields_entry *fields =
        cay_arena_array(arena, count, sizeof(*fields));
    struct google_protobuf_value *values = cay_arena_array(arena, count, sizeof(*values));
    if (!own || !fields || !values)
        return NULL;
    *own = *params;
    own->fields.items = fields;
    for (size_t i = 0; i < count; i++) {
        fields[i] = params->fields.items[i];
        if (!fields[i].value || !is_path(fields[i].key))
            continue;
        values[i] = *fields[i].value;
        fields[i].value = &values[i];
        if (!translate_value(local, arena, &values[i]))
            return NULL;
    }
    return own;
}

static const char *const *to_list(struct cay_pb_strs strings, struct cay_arena *arena)
{
    const char **list = cay_arena_array(arena, strings.count + 1, sizeof(*list));
    for (size_t i = 0; list && i < strings.count; i++) {
        list[i] = cay_arena_copy(arena, strings.items[i]);
        if (!list[i])
            return NULL;
    }
    return list;
}

static const char *const *to_env(struct cay_pb_pairs pairs, struct cay_arena *arena)
{
    const char **list = cay_arena_array(arena, pairs.count + 1, sizeof(*list));
    for (size_t i = 0; list && i < pairs.count; i++) {
        const struct cay_pb_pair *pair = &pairs.items[i];
        list[i] = cay_arena_printf(arena, "%.*s=%.*s", (int)pair->key.len, pair->key.ptr,
                                   (int)pair->value.len, pair->value.len ? pair->value.ptr : "");
        if (!list[i])
            return NULL;
    }
    return list;
}

/* Of two timeouts, of which 0 is none. */
static int64_t shorter(int64_t one, int64_t other)
{
    return one && other ? CAY_MIN(one, other) : CAY_MAX(one, other);
}

struct job {
    struct cay_local *local;
    const struct cay_local_call *call;
    const struct cay_tool_order *order;
    struct cay_arena *arena;
    struct cay_tool_command wanted;
    struct cay_local_spec spec;
    struct cay_v1_process noun;
    struct cay_capture out, err_out;
};

static void on_output(void *context, bool is_stderr, uint64_t offset, struct cay_str data)
{
    struct job *job = context;
    const struct cay_local_progress *progress = job->call->progress;
    const struct cay_v1_output_chunk chunk = {
        .stream = is_stderr ? CAY_V1_OUTPUT_STREAM_STDERR : CAY_V1_OUTPUT_STREAM_STDOUT,
        .offset = (int64_t)offset,
        .data = data,
    };
    cay_capture_add(is_stderr ? &job->err_out : &job->out, data);
    if (progress && progress->output)
        progress->output(progress->context, &chunk);
}

/* The directory it starts in; the descriptor is the caller's to close. */
static int open_cwd(struct job *job, struct cay_path *out_cwd, struct cay_error *err)
{
    struct cay_str cwd = job->call->tool->cwd;
    if (!cay_check_cwd(cwd, err) ||
        !cay_path_resolve(&job->local->tree, cwd.len ? cwd : job->local->tree.name, out_cwd, err))
        return -1;
    int fd = cay_tree_open(&job->local->tree, out_cwd->bytes, O_PATH | O_DIRECTORY);
    if (fd == -ENOLINK)
        cay_tree_fail(err, fd, cwd);
    else if (fd < 0)
        (void)cay_outcome_fail_cwd(-fd, err);
    return fd;
}

static bool prepare(struct job *job, struct cay_error *err)
{
    const struct cay_v1_tool_call *call = job->call->tool;
    const struct cay_tool *tool = job->order->tool;
    struct cay_tool_run params = {
        .tool = tool,
        .params = translate_params(job->local, tool, call->params, job->arena),
        .timeout_ms = cay_tool_timeout_ms(tool, job->local->command_ms),
        .arena = job->arena,
        .err = err,
    };
    struct cay_pb_pairs env;
    if (!params.params)
        return full(err);
    if (!cay_tool_command(&params, &job->wanted))
        return false;
    if (!cay_noun_merge(job->arena, job->wanted.env, call->env, &env))
        return full(err);
    if (!cay_check_argv(job->wanted.argv, env, err))
        return false;
    const struct cay_v1_exec_policy *policy = call->policy;
    int64_t policy_ms = policy ? cay_noun_duration_ms(policy->timeout) : 0;
    int64_t policy_quiet_ms = policy ? cay_noun_duration_ms(policy->no_output_timeout) : 0;
    bool is_merged = cay_noun_merge(job->arena, job->local->env, env, &env);
    job->spec = (struct cay_local_spec){
        .argv = to_list(job->wanted.argv, job->arena),
        .env = is_merged ? to_env(env, job->arena) : NULL,
        .stdin_data = job->wanted.stdin_data,
        .wall_ms = shorter(policy_ms, job->wanted.timeout_ms),
        .quiet_ms = shorter(policy_quiet_ms, job->wanted.quiet_ms),
        .kills_leftovers = policy && policy->leftovers == CAY_V1_LEFTOVER_POLICY_KILL,
        .cancel_fd = job->call->cancel_fd,
        .output = on_output,
        .context = job,
    };
    job->noun =
        (struct cay_v1_process){.tool_call_id = call->tool_call_id, .argv = job->wanted.argv};
    if (!job->spec.argv || !job->spec.env)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "arguments and environment are too large for one command");
    return true;
}

static void tell_started(const struct job *job, const char *process_id)
{
    const struct cay_local_progress *progress = job->call->progress;
    if (progress && progress->started)
        progress->started(progress->context, process_id);
}

static bool show(struct job *job, const struct cay_local_process *process,
                 struct cay_v1_tool_result *out_result, struct cay_error *err)
{
    const struct cay_local_command *command = &process->command;
    if (command->is_canceled)
        return cay_fail(err, CAY_R_CANCELED, NULL);
    if (command->failed_error && command->failed_step == CAY_STEP_CWD)
        return cay_outcome_fail_cwd(command->failed_error, err);
    struct cay_v1_exec_result *exec = cay_arena_new(job->arena, struct cay_v1_exec_result);
    bool is_lost = job->out.head.failed || job->out.tail.failed || job->err_out.head.failed ||
                   job->err_out.tail.failed;
    if (!exec || is_lost)
        return full(err);
    if (!cay_local_command_result(command, process->id, job->arena, exec, err))
        return false;
    bool is_missing = command->failed_step == CAY_STEP_EXEC &&
                      (command->failed_error == ENOENT || command->failed_error == ENOTDIR);
    const struct cay_outcome outcome = {
        .tool = job->order->tool,
        .exec = exec,
        .out = &job->out,
        .err_out = &job->err_out,
        .missing_program = is_missing ? job->wanted.argv.items[0] : (struct cay_str){},
    };
    return cay_outcome_show(&outcome, job->arena, out_result, err);
}

static bool run_job(struct job *job, struct cay_v1_tool_result *out_result, struct cay_error *err)
{
    bool is_background = job->wanted.is_background;
    char id[CAY_LOCAL_ID_SIZE];
    struct cay_local_process *process =
        cay_local_process_start(job->local, &job->spec, &job->noun, is_background, id, err);
    if (!process)
        return false;
    tell_started(job, id);
    if (is_background)
        return cay_outcome_show_background(id, job->arena, out_result, err);
    cay_local_command_follow(&process->command);
    bool is_shown = show(job, process, out_result, err);
    cay_local_process_end(process);
    return is_shown;
}

static bool run_command(struct cay_local *local, const struct cay_local_call *call,
                        const struct cay_tool_order *order, struct cay_arena *arena,
                        struct cay_v1_tool_result *out_result, struct cay_error *err)
{
    struct job job = {.local = local, .call = call, .order = order, .arena = arena};
    struct cay_path cwd;
    if (!check_policy(call->tool, err) || !prepare(&job, err))
        return false;
    cay_autoclose int cwd_fd = open_cwd(&job, &cwd, err);
    if (cwd_fd < 0)
        return false;
    job.spec.cwd_fd = cwd_fd;
    job.noun.cwd = cay_path_text(arena, (struct cay_str){cwd.bytes, cwd.len});
    cay_capture_init(&job.out, (size_t)order->result_bytes_max);
    cay_capture_init(&job.err_out, (size_t)order->result_bytes_max);
    bool is_done = run_job(&job, out_result, err);
    cay_capture_finish(&job.out);
    cay_capture_finish(&job.err_out);
    return is_done;
}

/* --- both --- */

bool cay_local_tool(struct cay_local *local, const struct cay_local_call *call,
                    struct cay_arena *arena, struct cay_v1_tool_result *out_result,
                    struct cay_error *err)
{
    int64_t started_ns = cay_clock_ns();
    struct cay_tool_order order;
    struct cay_v1_tool_result result = {};
    if (!cay_tool_order(call->tool, &order, err) || !cay_local_check(local, err))
        return false;
    bool is_done = order.tool->run ? run_on_files(local, call, &order, arena, &result, err)
                                   : run_command(local, call, &order, arena, &result, err);
    if (!is_done)
        return false;
    result.tool_call_id = call->tool->tool_call_id;
    result.tool_name = cay_str(order.tool->name);
    result.tier = order.tool->tier;
    result.duration = cay_noun_duration(arena, cay_clock_ns() - started_ns);
    if (!result.duration)
        return full(err);
    if (call->tool->has_snapshot && call->tool->snapshot && !result.is_error &&
        !order.tool->read_only)
        result.snapshot_error = CAY_STR("a local environment takes no snapshots");
    *out_result = result;
    return true;
}

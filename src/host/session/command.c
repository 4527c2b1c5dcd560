/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/command.h"

#include <stdio.h>

#include "api/limits.h"
#include "host/runtime/runtime.h"
#include "host/session/noun.h"
#include "host/session/request.h"

enum { LEFTOVERS_LISTED_MAX = 64 };

static bool check(const struct cay_command *command, struct cay_error *err)
{
    const struct cay_v1_exec_policy *policy = command->policy;
    size_t total = 0;
    if (!command->argv.count || !command->argv.items[0].len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "argv: the program to run is missing");
    if (command->argv.count > CAY_LIMIT_ARG_COUNT)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "argv: %d arguments at most",
                        CAY_LIMIT_ARG_COUNT);
    for (size_t i = 0; i < command->argv.count; i++) {
        struct cay_str arg = command->argv.items[i];
        total += arg.len + 1;
        if (arg.len && memchr(arg.ptr, '\0', arg.len))
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "argv: an argument has no NUL");
    }
    if (total > CAY_LIMIT_ARG_BYTES)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "argv: %d bytes at most in all",
                        CAY_LIMIT_ARG_BYTES);
    if (policy && (policy->limits || policy->overflow == CAY_V1_OUTPUT_OVERFLOW_BLOCK))
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "policy: limits per call and blocking output are not available yet");
    if (policy &&
        (policy->output_ring_bytes < 0 || policy->output_ring_bytes > CAY_LIMIT_OUTPUT_RING_MAX))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "policy.output_ring_bytes: %d at most",
                        CAY_LIMIT_OUTPUT_RING_MAX);
    return cay_check_env(command->env, err) && cay_check_cwd(command->cwd, err) &&
           cay_check_user(command->user, err);
}

struct env_list {
    const char **items;
    size_t count;
    size_t cap;
};

/* A later value replaces an earlier one of the same name. */
static bool put_env(struct env_list *list, struct cay_arena *arena, struct cay_str key,
                    struct cay_str value)
{
    const char *text = cay_arena_printf(arena, "%.*s=%.*s", (int)key.len, key.ptr, (int)value.len,
                                        value.len ? value.ptr : "");
    if (!text)
        return false;
    for (size_t i = 0; i < list->count; i++) {
        if (strncmp(list->items[i], text, key.len + 1) == 0) {
            list->items[i] = text;
            return true;
        }
    }
    if (list->count == list->cap)
        return false;
    list->items[list->count++] = text;
    return true;
}

static bool put_pairs(struct env_list *list, struct cay_arena *arena, struct cay_pb_pairs pairs)
{
    for (size_t i = 0; i < pairs.count; i++) {
        if (!put_env(list, arena, pairs.items[i].key, pairs.items[i].value))
            return false;
    }
    return true;
}

static bool build_env(const struct cay_command *command, const struct cay_session *session,
                      bool is_root, struct cay_arena *arena, struct cay_frame_exec *frame)
{
    const struct cay_pb_pair defaults[] = {
        {CAY_STR("PATH"), CAY_STR("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")},
        {CAY_STR("HOME"), is_root ? CAY_STR("/root") : CAY_STR("/home/user")},
        {CAY_STR("USER"), is_root ? CAY_STR("root") : CAY_STR("user")},
        {CAY_STR("LOGNAME"), is_root ? CAY_STR("root") : CAY_STR("user")},
        {CAY_STR("SHELL"), CAY_STR("/bin/bash")},
        {CAY_STR("LANG"), CAY_STR("C.UTF-8")},
        {CAY_STR("TERM"), CAY_STR("dumb")},
        {CAY_STR("CAY_SESSION"), cay_str(session->id)},
    };
    struct env_list list = {.cap = CAY_COUNT(defaults) + session->spec->env.count +
                                   command->env.count};
    list.items = cay_arena_array(arena, list.cap + 1, sizeof(*list.items));
    bool is_full = !list.items || list.cap > CAY_FRAME_ENV_MAX;
    for (size_t i = 0; !is_full && i < CAY_COUNT(defaults); i++)
        is_full = !put_env(&list, arena, defaults[i].key, defaults[i].value);
    if (is_full || !put_pairs(&list, arena, session->spec->env) ||
        !put_pairs(&list, arena, command->env))
        return false;
    frame->env = list.items;
    frame->env_count = (uint32_t)list.count;
    return true;
}

static bool build_args(const struct cay_command *command, struct cay_arena *arena,
                       struct cay_frame_exec *frame)
{
    size_t count = command->argv.count;
    frame->args = cay_arena_array(arena, count + 1, sizeof(*frame->args));
    for (size_t i = 0; frame->args && i < count; i++) {
        frame->args[i] = cay_arena_copy(arena, command->argv.items[i]);
        if (!frame->args[i])
            return false;
    }
    frame->arg_count = (uint32_t)count;
    return frame->args != NULL;
}

bool cay_command_build(const struct cay_command *command, const struct cay_session *session,
                       struct cay_arena *arena, struct cay_frame_exec *out_frame,
                       struct cay_error *err)
{
    const struct cay_v1_exec_policy *policy = command->policy;
    if (!check(command, err))
        return false;
    struct cay_str user = command->user.len ? command->user : session->spec->default_user;
    struct cay_str cwd = command->cwd.len ? command->cwd : session->spec->default_cwd;
    bool is_root = cay_str_is(user, "root");
    int64_t policy_ms = policy ? cay_noun_duration_ms(policy->timeout) : 0;
    int64_t quiet_ms = policy ? cay_noun_duration_ms(policy->no_output_timeout) : 0;
    int64_t wall_ms = policy_ms && command->timeout_ms ? CAY_MIN(policy_ms, command->timeout_ms)
                                                       : CAY_MAX(policy_ms, command->timeout_ms);
    if (policy_ms < 0 || quiet_ms < 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "policy: a timeout is not negative");
    uint32_t id = is_root ? 0 : CAY_SANDBOX_USER_UID;
    *out_frame = (struct cay_frame_exec){
        .flags =
            (command->has_stdin ? CAY_EXEC_STDIN : 0u) |
            (policy && policy->leftovers == CAY_V1_LEFTOVER_POLICY_KILL ? CAY_EXEC_KILL_LEFTOVERS
                                                                        : 0u),
        .uid = id,
        .gid = id,
        .wall_ms = (uint64_t)wall_ms,
        .quiet_ms = (uint64_t)quiet_ms,
        .ring_bytes =
            policy && policy->output_ring_bytes
                ? CAY_MAX((uint32_t)policy->output_ring_bytes, (uint32_t)CAY_FRAME_RING_BYTES_MIN)
                : CAY_LIMIT_OUTPUT_RING_BYTES,
        .window_bytes = CAY_LIMIT_OUTPUT_WINDOW_BYTES,
        .cwd = cay_arena_copy(arena, cwd),
    };
    if (!out_frame->cwd || !build_args(command, arena, out_frame) ||
        !build_env(command, session, is_root, arena, out_frame))
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "arguments and environment are too large for one command");
    return true;
}

static enum cay_v1_end_cause to_cause(uint8_t cause)
{
    switch (cause) {
    case CAY_CAUSE_EXITED: return CAY_V1_END_CAUSE_EXITED;
    case CAY_CAUSE_SIGNALED: return CAY_V1_END_CAUSE_SIGNALED;
    case CAY_CAUSE_OOM: return CAY_V1_END_CAUSE_OOM;
    case CAY_CAUSE_WALL: return CAY_V1_END_CAUSE_TIMEOUT_WALL;
    case CAY_CAUSE_QUIET: return CAY_V1_END_CAUSE_TIMEOUT_NO_OUTPUT;
    case CAY_CAUSE_KILLED: return CAY_V1_END_CAUSE_KILLED;
    default: return CAY_V1_END_CAUSE_EXITED;
    }
}

static void describe_failure(const struct cay_frame_exit *exit, struct cay_arena *arena,
                             struct cay_v1_exec_result *result)
{
    static const char *const steps[CAY_STAGES] = {
        [CAY_STAGE_CWD] = "the working directory cannot be entered",
        [CAY_STAGE_EXEC] = "the program cannot be run",
        [CAY_STAGE_USER] = "the user cannot be taken on",
        [CAY_STAGE_FORK] = "no process could be made",
        [CAY_STAGE_CGROUP] = "its control group cannot be joined",
    };
    const char *step = exit->stage < CAY_STAGES ? steps[exit->stage] : NULL;
    const char *reason = strerrordesc_np((int)exit->code);
    const char *text = cay_arena_printf(arena, "%s: %s", step ? step : "the command cannot start",
                                        reason ? reason : "unknown error");
    /* As shells do: 127 not found, 126 found and refused. */
    result->has_exit_code = true;
    result->exit_code = exit->stage == CAY_STAGE_EXEC && exit->code == 2 ? 127 : 126;
    if (text)
        result->message = cay_str(text);
}

bool cay_command_began(const struct cay_frame_exit *exit, struct cay_error *err)
{
    if (exit->cause != CAY_CAUSE_FAILED || exit->stage != CAY_STAGE_CWD)
        return true;
    return cay_fail(err, CAY_R_INVALID_ARGUMENT, "cwd: it cannot be entered: %s",
                    strerrordesc_np((int)exit->code) ?: "unknown error");
}

void cay_command_result(const struct cay_frame_exit *exit, const struct cay_frame_procs *leftovers,
                        int64_t started_ns, int64_t dropped_bytes, struct cay_arena *arena,
                        struct cay_v1_exec_result *out_result)
{
    *out_result = (struct cay_v1_exec_result){
        .cause = to_cause(exit->cause),
        .signal = exit->signal,
        .started_at = cay_noun_time(arena, started_ns),
        .duration = cay_noun_duration(arena, (int64_t)exit->wall_usec * 1000),
        .stdout_bytes = (int64_t)exit->stdout_bytes,
        .stderr_bytes = (int64_t)(exit->end_offset - exit->stdout_bytes),
        .dropped_bytes = dropped_bytes,
        .leftover_count = (int32_t)exit->leftovers,
        .cpu_time = cay_noun_duration(arena, (int64_t)(exit->user_usec + exit->system_usec) * 1000),
        .peak_memory_bytes = (int64_t)exit->memory_peak_bytes,
    };
    if (exit->cause == CAY_CAUSE_FAILED) {
        describe_failure(exit, arena, out_result);
    } else if (exit->cause == CAY_CAUSE_EXITED) {
        out_result->has_exit_code = true;
        out_result->exit_code = (int32_t)exit->code;
    }
    size_t count = leftovers ? CAY_MIN(leftovers->count, (uint32_t)LEFTOVERS_LISTED_MAX) : 0;
    out_result->leftovers.items =
        cay_arena_array(arena, count, sizeof(struct cay_v1_leftover_process));
    for (size_t i = 0; out_result->leftovers.items && i < count; i++)
        out_result->leftovers.items[out_result->leftovers.count++].pid =
            (int32_t)leftovers->pids[i];
}

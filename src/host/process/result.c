/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/result.h"

#include <errno.h>

#include "api/noun.h"
#include "base/utf8.h"

struct cay_str cay_result_text(struct cay_arena *arena, struct cay_str text)
{
    if (cay_utf8_valid(text))
        return text;
    size_t len = cay_utf8_repaired_len(text);
    char *copy = cay_arena_alloc(arena, len + 1);
    if (!copy)
        return (struct cay_str){};
    cay_utf8_repair(text, copy);
    return (struct cay_str){copy, len};
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
    const char *reason = exit->code == ETIMEDOUT
                             ? "it was held up for too long by a process of the sandbox, which "
                               "stopped its start or has a lease on its file"
                             : strerrordesc_np((int)exit->code);
    const char *text = cay_arena_printf(arena, "%s: %s", step ? step : "the command cannot start",
                                        reason ? reason : "unknown error");
    /* As shells do: 127 not found, 126 found and refused. */
    result->has_exit_code = true;
    result->exit_code = exit->stage == CAY_STAGE_EXEC && exit->code == 2 ? 127 : 126;
    if (text)
        result->message = cay_str(text);
}

bool cay_result_began(const struct cay_frame_exit *exit, struct cay_error *err)
{
    if (exit->cause != CAY_CAUSE_FAILED || exit->stage != CAY_STAGE_CWD)
        return true;
    return cay_fail(err, CAY_R_INVALID_ARGUMENT, "cwd: it cannot be entered: %s",
                    strerrordesc_np((int)exit->code) ?: "unknown error");
}

bool cay_result_started(const struct cay_frame_exit *exit, struct cay_error *err)
{
    if (exit->cause != CAY_CAUSE_FAILED)
        return true;
    const char *why = strerrordesc_np((int)exit->code) ?: "unknown error";
    if (!cay_result_began(exit, err))
        return false;
    if (exit->stage == CAY_STAGE_EXEC && (exit->code == ENOENT || exit->code == ENOTDIR))
        return cay_fail(err, CAY_R_NOT_FOUND, "argv: there is no such program in the sandbox");
    if (exit->stage == CAY_STAGE_EXEC && exit->code == E2BIG)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "argv, env: they are larger than the kernel takes");
    if (exit->stage == CAY_STAGE_EXEC)
        return cay_fail(err, CAY_R_PERMISSION_DENIED, "argv: the program cannot be run: %s", why);
    return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "the process cannot be started: %s", why);
}

void cay_result_fill(const struct cay_frame_exit *exit, const struct cay_leftovers *leftovers,
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
    bool are_killed = !leftovers->who && leftovers->killed;
    const struct cay_frame_who *who = are_killed ? leftovers->killed : leftovers->who;
    if (are_killed)
        out_result->leftover_count = (int32_t)CAY_MIN(who->total, (uint32_t)INT32_MAX);
    size_t count = who ? who->count : 0;
    out_result->leftovers.items =
        cay_arena_array(arena, count, sizeof(struct cay_v1_leftover_process));
    for (size_t i = 0; out_result->leftovers.items && i < count; i++)
        out_result->leftovers.items[out_result->leftovers.count++] =
            (struct cay_v1_leftover_process){
                .process_id =
                    are_killed ? CAY_STR("") : cay_arena_str(arena, cay_str(leftovers->process_id)),
                .pid = (int32_t)who->pids[i],
                .command = cay_arena_str(arena, cay_result_text(arena, who->commands[i])),
                .killed = are_killed,
            };
}

void cay_result_say(struct cay_v1_exec_result *result, struct cay_arena *arena)
{
    double seconds =
        result->duration ? (double)result->duration->seconds + result->duration->nanos / 1e9 : 0;
    const char *text = NULL;
    if (result->message.len)
        return; /* it never began, which was told */
    switch (result->cause) {
    case CAY_V1_END_CAUSE_TIMEOUT_WALL:
        text = cay_arena_printf(arena, "timed out after %.1f s; everything it started was killed",
                                seconds);
        break;
    case CAY_V1_END_CAUSE_TIMEOUT_NO_OUTPUT:
        text = cay_arena_printf(arena, "no output for too long; killed after %.1f s", seconds);
        break;
    case CAY_V1_END_CAUSE_OOM: text = "killed: the sandbox's memory limit was reached"; break;
    case CAY_V1_END_CAUSE_QUOTA: text = "killed: the session's disk limit was reached"; break;
    case CAY_V1_END_CAUSE_POLICY: text = "killed: a policy forbids what it did"; break;
    case CAY_V1_END_CAUSE_LOST: text = "lost: how it ended is not known"; break;
    case CAY_V1_END_CAUSE_EXITED:
        if (result->exit_code)
            text = cay_arena_printf(arena, "exit code %d", result->exit_code);
        break;
    case CAY_V1_END_CAUSE_KILLED:
    case CAY_V1_END_CAUSE_SIGNALED:
        text = result->signal ? cay_arena_printf(arena, "killed by signal %d", result->signal)
                              : "killed";
        break;
    case CAY_V1_END_CAUSE_UNSPECIFIED: break;
    }
    if (text)
        result->message = cay_str(text);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/result.h"

#include <errno.h>

#include "api/noun.h"
#include "tool/outcome.h"

struct cay_str cay_result_text(struct cay_arena *arena, struct cay_str text)
{
    return cay_outcome_text(arena, text);
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

static enum cay_outcome_step to_step(uint8_t stage)
{
    static const enum cay_outcome_step steps[CAY_STAGES] = {
        [CAY_STAGE_CWD] = CAY_STEP_CWD,       [CAY_STAGE_EXEC] = CAY_STEP_EXEC,
        [CAY_STAGE_USER] = CAY_STEP_USER,     [CAY_STAGE_FORK] = CAY_STEP_FORK,
        [CAY_STAGE_CGROUP] = CAY_STEP_CGROUP,
    };
    return stage < CAY_STAGES ? steps[stage] : CAY_STEP_OTHER;
}

static void describe_failure(const struct cay_frame_exit *exit, struct cay_arena *arena,
                             struct cay_v1_exec_result *result)
{
    const char *why = exit->code == ETIMEDOUT
                          ? "it was held up for too long by a process of the sandbox, which "
                            "stopped its start or has a lease on its file"
                          : NULL;
    cay_outcome_refuse(result, to_step(exit->stage), (int)exit->code, why, arena);
}

bool cay_result_began(const struct cay_frame_exit *exit, struct cay_error *err)
{
    if (exit->cause != CAY_CAUSE_FAILED || exit->stage != CAY_STAGE_CWD)
        return true;
    return cay_outcome_fail_cwd((int)exit->code, err);
}

bool cay_result_started(const struct cay_frame_exit *exit, struct cay_error *err)
{
    if (exit->cause != CAY_CAUSE_FAILED)
        return true;
    return cay_outcome_fail_start(to_step(exit->stage), (int)exit->code, err);
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
    cay_outcome_say(result, arena);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <sys/wait.h>

#include "api/noun.h"
#include "tool/local/command.h"

/* As the daemon's init and host/process tell it. */

static void set_cause(const struct cay_local_command *command, struct cay_v1_exec_result *result)
{
    int status = command->end.status;
    int killed = atomic_load(&command->kill_cause);
    if (!command->end.kind) {
        result->cause = CAY_V1_END_CAUSE_LOST;
    } else if (WIFSIGNALED(status)) {
        result->signal = WTERMSIG(status);
        result->cause = CAY_V1_END_CAUSE_SIGNALED;
        if (result->signal == SIGKILL && killed)
            result->cause = (enum cay_v1_end_cause)killed;
        else if (atomic_load(&command->signals) & UINT64_C(1) << (result->signal - 1))
            result->cause = CAY_V1_END_CAUSE_KILLED;
    } else {
        result->cause = CAY_V1_END_CAUSE_EXITED;
        result->has_exit_code = true;
        result->exit_code = WEXITSTATUS(status);
    }
}

static bool show_who(const struct cay_local_command *command, const char *process_id,
                     struct cay_arena *arena, struct cay_v1_exec_result *result)
{
    const struct cay_family *who = command->who;
    if (!who)
        return true;
    result->leftover_count = (int32_t)who->total;
    result->leftovers.items =
        cay_arena_array(arena, who->count, sizeof(struct cay_v1_leftover_process));
    for (size_t i = 0; result->leftovers.items && i < who->count; i++) {
        const struct cay_family_member *member = &who->members[i];
        const struct cay_str text = {member->text, member->text_len};
        result->leftovers.items[result->leftovers.count++] = (struct cay_v1_leftover_process){
            .process_id =
                command->are_killed ? CAY_STR("") : cay_arena_str(arena, cay_str(process_id)),
            .pid = member->pid,
            .command = cay_arena_str(arena, cay_outcome_text(arena, text)),
            .killed = command->are_killed,
        };
    }
    return result->leftovers.items != NULL;
}

bool cay_local_command_result(const struct cay_local_command *command, const char *process_id,
                              struct cay_arena *arena, struct cay_v1_exec_result *out_result,
                              struct cay_error *err)
{
    const struct cay_keeper_report *end = &command->end;
    int64_t cpu_ns = (int64_t)(end->user_usec + end->system_usec) * 1000;
    struct cay_v1_exec_result result = {
        .cause = CAY_V1_END_CAUSE_EXITED,
        .started_at = cay_noun_time(arena, command->started_ns),
        .duration = cay_noun_duration(arena, command->wall_ns),
        .stdout_bytes = (int64_t)command->stdout_bytes,
        .stderr_bytes = (int64_t)(command->output_bytes - command->stdout_bytes),
        .cpu_time = cay_noun_duration(arena, cpu_ns),
    };
    /* What the caller had counts as the command's (setmax_mm_hiwater_rss in the kernel's exec). */
    if (end->peak_bytes > command->own_peak_bytes)
        result.peak_memory_bytes = (int64_t)end->peak_bytes;
    if (command->failed_error)
        cay_outcome_refuse(&result, command->failed_step, command->failed_error, NULL, arena);
    else
        set_cause(command, &result);
    bool is_whole = show_who(command, process_id, arena, &result);
    cay_outcome_say(&result, arena);
    if (!result.started_at || !result.duration || !result.cpu_time || !is_whole)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "the answer takes more memory than a call may use");
    *out_result = result;
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/outcome.h"

#include <errno.h>
#include <stdio.h>

#include "api/limits.h"
#include "base/utf8.h"
#include "tool/run.h"

enum { TEXT_BYTES_MAX = 4 * CAY_LIMIT_RESULT_BYTES_MAX };

struct cay_str cay_outcome_text(struct cay_arena *arena, struct cay_str text)
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

static const char *meaning(int error)
{
    const char *text = strerrordesc_np(error);
    return text ? text : "unknown error";
}

void cay_outcome_refuse(struct cay_v1_exec_result *exec, enum cay_outcome_step step, int error,
                        const char *why, struct cay_arena *arena)
{
    static const char *const steps[] = {
        [CAY_STEP_OTHER] = "the command cannot start",
        [CAY_STEP_CWD] = "the working directory cannot be entered",
        [CAY_STEP_EXEC] = "the program cannot be run",
        [CAY_STEP_USER] = "the user cannot be taken on",
        [CAY_STEP_FORK] = "no process could be made",
        [CAY_STEP_CGROUP] = "its control group cannot be joined",
    };
    const char *text = cay_arena_printf(arena, "%s: %s", steps[step], why ? why : meaning(error));
    /* As shells do: 127 not found, 126 found and refused. */
    exec->has_exit_code = true;
    exec->exit_code = step == CAY_STEP_EXEC && error == ENOENT ? 127 : 126;
    if (text)
        exec->message = cay_str(text);
}

bool cay_outcome_fail_cwd(int error, struct cay_error *err)
{
    cay_fail(err, CAY_R_INVALID_ARGUMENT, "cwd: it cannot be entered: %s", meaning(error));
    return cay_error_fact(err, "field", "cwd");
}

bool cay_outcome_fail_start(enum cay_outcome_step step, int error, struct cay_error *err)
{
    if (step == CAY_STEP_CWD)
        return cay_outcome_fail_cwd(error, err);
    if (step == CAY_STEP_EXEC && (error == ENOENT || error == ENOTDIR))
        return cay_fail(err, CAY_R_NOT_FOUND, "argv: there is no such program in the sandbox");
    if (step == CAY_STEP_EXEC && error == E2BIG)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "argv, env: they are larger than the kernel takes");
    if (step == CAY_STEP_EXEC)
        return cay_fail(err, CAY_R_PERMISSION_DENIED, "argv: the program cannot be run: %s",
                        meaning(error));
    return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "the process cannot be started: %s",
                    meaning(error));
}

void cay_outcome_say(struct cay_v1_exec_result *exec, struct cay_arena *arena)
{
    double seconds =
        exec->duration ? (double)exec->duration->seconds + exec->duration->nanos / 1e9 : 0;
    const char *text = NULL;
    if (exec->message.len)
        return; /* it never began, which was told */
    switch (exec->cause) {
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
        if (exec->exit_code)
            text = cay_arena_printf(arena, "exit code %d", exec->exit_code);
        break;
    case CAY_V1_END_CAUSE_KILLED:
    case CAY_V1_END_CAUSE_SIGNALED:
        text =
            exec->signal ? cay_arena_printf(arena, "killed by signal %d", exec->signal) : "killed";
        break;
    case CAY_V1_END_CAUSE_UNSPECIFIED: break;
    }
    if (text)
        exec->message = cay_str(text);
}

static void write_end_note(const struct cay_v1_exec_result *exec, struct cay_buf *text)
{
    /* An exit code is told last. */
    if (exec->message.len && !cay_str_starts(exec->message, "exit code "))
        cay_buf_printf(text, "[%.*s]\n", (int)exec->message.len, exec->message.ptr);
    for (size_t i = 0; i < exec->network_refusals.count; i++)
        cay_buf_printf(text, "[%.*s]\n", (int)exec->network_refusals.items[i].len,
                       exec->network_refusals.items[i].ptr);
    if (exec->network_refusal_count > (int32_t)exec->network_refusals.count)
        cay_buf_printf(text, "[network: and %d more]\n",
                       exec->network_refusal_count - (int32_t)exec->network_refusals.count);
    bool are_killed = exec->leftovers.count && exec->leftovers.items[0].killed;
    if (exec->leftover_count)
        cay_buf_printf(text, "[%d processes it started %s]\n", exec->leftover_count,
                       are_killed ? "were killed with it" : "still run");
    if (exec->has_exit_code && exec->exit_code)
        cay_buf_printf(text, "[exit code %d]\n", exec->exit_code);
}

static void end_line(struct cay_buf *text)
{
    if (text->len && text->data[text->len - 1] != '\n')
        cay_buf_append_byte(text, '\n');
}

static void write_text(const struct cay_outcome *outcome, struct cay_buf *text)
{
    if (outcome->missing_program.len) {
        cay_buf_printf(text,
                       "there is no %.*s in this sandbox; install it, or use a base that has it\n",
                       (int)outcome->missing_program.len, outcome->missing_program.ptr);
        return;
    }
    cay_capture_write(outcome->out, text);
    if (outcome->err_out->total_bytes) {
        end_line(text);
        cay_buf_append_text(text, "[stderr]\n");
        cay_capture_write(outcome->err_out, text);
    }
    if (!text->len)
        cay_buf_append_text(text, "(no output)\n");
    end_line(text);
    write_end_note(outcome->exec, text);
}

/* Why a command failed, as a word. */
static const char *reason_of(const struct cay_outcome *outcome)
{
    static const char *const words[] = {
        [CAY_V1_END_CAUSE_EXITED] = "exit_code",
        [CAY_V1_END_CAUSE_SIGNALED] = "signal",
        [CAY_V1_END_CAUSE_OOM] = "oom",
        [CAY_V1_END_CAUSE_TIMEOUT_WALL] = "timeout_wall",
        [CAY_V1_END_CAUSE_TIMEOUT_NO_OUTPUT] = "timeout_no_output",
        [CAY_V1_END_CAUSE_QUOTA] = "quota",
        [CAY_V1_END_CAUSE_POLICY] = "policy",
        [CAY_V1_END_CAUSE_KILLED] = "killed",
        [CAY_V1_END_CAUSE_LOST] = "lost",
    };
    size_t cause = (size_t)outcome->exec->cause;
    if (outcome->missing_program.len)
        return "program_not_found";
    return cause < CAY_COUNT(words) && words[cause] ? words[cause] : "failed";
}

static bool too_large(struct cay_error *err)
{
    return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                    "the answer takes more memory than a call may use");
}

static bool set_text(struct cay_v1_tool_result *result, struct cay_arena *arena,
                     struct cay_str text)
{
    struct cay_v1_content_block *block = cay_arena_new(arena, struct cay_v1_content_block);
    bool is_valid = cay_utf8_valid(text);
    size_t len = is_valid ? text.len : cay_utf8_repaired_len(text);
    char *copy = cay_arena_alloc(arena, len + 1);
    if (!block || !copy)
        return false;
    if (is_valid)
        memcpy(copy, text.ptr, len);
    else
        cay_utf8_repair(text, copy);
    block->which_block = CAY_V1_CONTENT_BLOCK_BLOCK_TEXT;
    block->block.text = (struct cay_str){copy, len};
    result->content.items = block;
    result->content.count = 1;
    return true;
}

/* Facts for programs, from all that it printed. */
static bool add_facts(const struct cay_outcome *outcome, struct cay_arena *arena,
                      struct cay_v1_tool_result *result)
{
    const struct cay_tool *tool = outcome->tool;
    struct cay_tool_run facts = {.tool = tool, .arena = arena, .out = result};
    if (!tool->facts || result->is_error || cay_capture_dropped(outcome->out))
        return true;
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, TEXT_BYTES_MAX);
    cay_capture_write(outcome->out, &text);
    tool->facts(&facts, cay_buf_str(&text));
    return !text.failed && !facts.is_full;
}

bool cay_outcome_show(const struct cay_outcome *outcome, struct cay_arena *arena,
                      struct cay_v1_tool_result *out_result, struct cay_error *err)
{
    struct cay_v1_exec_result *exec = outcome->exec;
    struct cay_v1_tool_result result = {
        .is_error = !exec->has_exit_code || exec->exit_code != 0,
        .exec = exec,
    };
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, TEXT_BYTES_MAX);
    write_text(outcome, &text);
    if (text.failed || !set_text(&result, arena, cay_buf_str(&text)))
        return too_large(err);
    exec->dropped_bytes +=
        (int64_t)(cay_capture_dropped(outcome->out) + cay_capture_dropped(outcome->err_out));
    if (exec->dropped_bytes) {
        result.truncation = cay_arena_new(arena, struct cay_v1_truncation);
        if (!result.truncation)
            return too_large(err);
        result.truncation->total_bytes = exec->stdout_bytes + exec->stderr_bytes;
        result.truncation->shown_bytes = result.truncation->total_bytes - exec->dropped_bytes;
    }
    if (result.is_error)
        result.error_reason = cay_str(reason_of(outcome));
    if (!add_facts(outcome, arena, &result))
        return too_large(err);
    *out_result = result;
    return true;
}

bool cay_outcome_show_background(const char *process_id, struct cay_arena *arena,
                                 struct cay_v1_tool_result *out_result, struct cay_error *err)
{
    char text[160];
    const char *id = cay_arena_copy(arena, cay_str(process_id));
    struct cay_v1_tool_result result = {.process_id = cay_str(id)};
    snprintf(text, sizeof(text), "It runs in the background as process %s.\n", process_id);
    if (!id || !set_text(&result, arena, cay_str(text)))
        return too_large(err);
    *out_result = result;
    return true;
}

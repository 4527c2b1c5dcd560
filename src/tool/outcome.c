/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/outcome.h"

#include <stdio.h>

#include "api/limits.h"
#include "tool/run.h"

enum { TEXT_BYTES_MAX = 4 * CAY_LIMIT_RESULT_BYTES_MAX };

static void write_end_note(const struct cay_v1_exec_result *exec, struct cay_buf *text)
{
    /* An exit code is told last. */
    if (exec->message.len && !cay_str_starts(exec->message, "exit code "))
        cay_buf_printf(text, "[%.*s]\n", (int)exec->message.len, exec->message.ptr);
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
    const char *copy = cay_arena_copy(arena, text);
    if (!block || !copy)
        return false;
    block->which_block = CAY_V1_CONTENT_BLOCK_BLOCK_TEXT;
    block->block.text = (struct cay_str){copy, text.len};
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
    return !text.failed;
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

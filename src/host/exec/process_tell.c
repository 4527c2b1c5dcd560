/* SPDX-License-Identifier: Apache-2.0 */
#include "host/exec/process_tell.h"

#include "api/limits.h"
#include "api/noun.h"
#include "host/session/tell.h"

void cay_process_command(struct cay_pb_strs argv, struct cay_buf *out_text)
{
    for (size_t i = 0; i < argv.count; i++) {
        if (i)
            cay_buf_append_byte(out_text, ' ');
        cay_buf_append_str(out_text, argv.items[i]);
    }
}

const char *cay_process_end_word(enum cay_v1_end_cause cause)
{
    static const char *const words[] = {
        [CAY_V1_END_CAUSE_EXITED] = "exited",
        [CAY_V1_END_CAUSE_SIGNALED] = "signaled",
        [CAY_V1_END_CAUSE_OOM] = "oom",
        [CAY_V1_END_CAUSE_TIMEOUT_WALL] = "timeout_wall",
        [CAY_V1_END_CAUSE_TIMEOUT_NO_OUTPUT] = "timeout_no_output",
        [CAY_V1_END_CAUSE_QUOTA] = "quota",
        [CAY_V1_END_CAUSE_POLICY] = "policy",
        [CAY_V1_END_CAUSE_KILLED] = "killed",
        [CAY_V1_END_CAUSE_LOST] = "lost",
    };
    return (size_t)cause < CAY_COUNT(words) ? words[cause] : NULL;
}

static void add_end(struct cay_facts *facts, const struct cay_v1_exec_result *result)
{
    if (result->has_exit_code)
        cay_facts_number(facts, "exit_code", result->exit_code);
    else if (result->signal)
        cay_facts_number(facts, "signal", result->signal);
    if (result->duration)
        cay_facts_number(facts, "duration_ms", cay_noun_duration_ms(result->duration));
}

void cay_process_tell(struct cay_session *session, const struct cay_process *process)
{
    static const char *const types[] = {
        [CAY_V1_PROCESS_STATE_RUNNING] = "process.started",
        [CAY_V1_PROCESS_STATE_EXITED] = "process.exited",
        [CAY_V1_PROCESS_STATE_RESTARTING] = "process.restarting",
    };
    const char *type = (size_t)process->state < CAY_COUNT(types) ? types[process->state] : NULL;
    if (!type)
        return;
    struct cay_facts facts = {};
    cay_auto(cay_buf_finish) struct cay_buf command;
    cay_buf_init(&command, CAY_LIMIT_MESSAGE_BYTES);
    cay_process_command(process->noun->argv, &command);
    cay_facts_text(&facts, "command", cay_buf_str(&command));
    cay_facts_text(&facts, "user", process->noun->user);
    cay_facts_text(&facts, "tag", process->noun->tag);
    if (process->pid)
        cay_facts_number(&facts, "pid", process->pid);
    bool is_running = process->state == CAY_V1_PROCESS_STATE_RUNNING;
    const struct cay_v1_exec_result *result = is_running ? NULL : process->result;
    if (result)
        add_end(&facts, result);
    cay_tell(session->host,
             &(struct cay_happening){.type = type,
                                     .session = session,
                                     .process_id = process->id,
                                     .tool_call_id = process->noun->tool_call_id,
                                     .reason = result ? cay_process_end_word(result->cause) : NULL,
                                     .facts = &facts});
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What clients do to a process: signals, input, the size of its terminal. */
#include <signal.h>

#include "host/process/events.h"

static bool is_reachable(const struct cay_process *process, struct cay_error *err)
{
    const struct cay_processes *table = process->table;
    if (table->link && process->state == CAY_V1_PROCESS_STATE_RUNNING && !process->is_dying)
        return true;
    if (!cay_process_is_over(process) && table->ops->is_frozen(table->owner))
        return cay_fail(err, CAY_R_SESSION_PAUSED, "session '%s' is paused; resume it first",
                        table->session_id);
    cay_fail(err, CAY_R_FAILED_PRECONDITION, "process '%s' does not run", process->id);
    return cay_error_fact(err, "state", "ended");
}

static void on_kill_timer(struct cay_timer *timer)
{
    struct cay_process *process = CAY_CONTAINER_OF(timer, struct cay_process, kill_timer);
    struct cay_error ignored = {};
    if (cay_process_is_over(process))
        return;
    (void)cay_process_signal(process, SIGKILL, true, -1, &ignored);
}

bool cay_process_signal(struct cay_process *process, int signal, bool is_tree,
                        int64_t kill_after_ms, struct cay_error *err)
{
    struct cay_processes *table = process->table;
    /* Only what ends a process is the end of its restarts: a server may be told to reload. */
    static const int ending[] = {SIGTERM, SIGKILL, SIGINT, SIGQUIT, SIGHUP, SIGABRT};
    for (size_t i = 0; i < CAY_COUNT(ending); i++)
        process->is_killed = process->is_killed || signal == ending[i];
    if (process->state == CAY_V1_PROCESS_STATE_RESTARTING && process->is_killed) {
        cay_process_not_again(process, NULL);
        return true;
    }
    enum cay_frame_target target =
        is_tree || process->is_leftover ? CAY_TARGET_TREE : CAY_TARGET_PROCESS;
    if (!table->link && table->ops->is_frozen(table->owner))
        return cay_fail(err, CAY_R_SESSION_PAUSED, "session '%s' is paused; resume it first",
                        table->session_id);
    if (!table->link)
        return cay_fail(err, CAY_R_UNAVAILABLE, "the sandbox of process '%s' is gone", process->id);
    if (!cay_link_signal(table->link, process->call, signal, target, err))
        return false;
    process->is_dying = process->is_dying || signal == SIGKILL;
    table->ops->link_used(table->owner);
    if (kill_after_ms >= 0) {
        if (!process->kill_timer.handle)
            cay_timer_open(&process->kill_timer, table->loop, on_kill_timer);
        cay_timer_start(&process->kill_timer, (uint64_t)kill_after_ms, 0);
    }
    return true;
}

static void kill_for(struct cay_process *process, enum cay_v1_end_cause cause)
{
    struct cay_error ignored = {};
    if (process->state != CAY_V1_PROCESS_STATE_RUNNING)
        return;
    if (!process->is_exiting)
        process->kill_cause = cause;
    (void)cay_process_signal(process, SIGKILL, true, -1, &ignored);
}

void cay_processes_kill(struct cay_processes *table, enum cay_v1_end_cause cause)
{
    cay_list_for_each (struct cay_process, process, &table->hidden, in_table)
        kill_for(process, cause);
    cay_list_for_each (struct cay_process, process, &table->list, in_table)
        kill_for(process, cause);
}

size_t cay_process_input_room(const struct cay_process *process)
{
    if (!process->table->link)
        return 0;
    uint64_t window = cay_link_stdin_window(process->table->link);
    uint64_t waiting = process->stdin_sent - CAY_MIN(process->stdin_taken, process->stdin_sent);
    return window > waiting ? (size_t)(window - waiting) : 0;
}

bool cay_process_input(struct cay_process *process, struct cay_str data, bool closes,
                       struct cay_error *err)
{
    struct cay_processes *table = process->table;
    bool is_pty = process->flags & CAY_EXEC_PTY;
    if (!is_reachable(process, err))
        return false;
    if (closes && is_pty)
        return cay_fail(err, CAY_R_FAILED_PRECONDITION,
                        "a terminal is not closed; send it the end-of-file character");
    if (!process->stdin_open && !(closes && !data.len))
        return cay_fail(err, CAY_R_FAILED_PRECONDITION,
                        "the input of process '%s' is not open; launch it with stdin_open",
                        process->id);
    if (!process->stdin_open)
        return true;
    if (!process->has_stdin_counts)
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "the sandbox was started by an older cayd, which did not count input");
    if (data.len > cay_process_input_room(process))
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "process '%s' does not read its input; %zu bytes more fit", process->id,
                        cay_process_input_room(process));
    if (data.len && !cay_link_stdin(table->link, process->call, data, err))
        return false;
    process->stdin_sent += data.len;
    if (closes) {
        process->stdin_open = false;
        if (!cay_link_close_stdin(table->link, process->call, err))
            return false;
    }
    table->ops->link_used(table->owner);
    return true;
}

bool cay_process_size(const struct cay_v1_pty_size *wanted, struct cay_frame_size *out_size,
                      struct cay_error *err)
{
    enum { ROWS = 24, COLUMNS = 80 };
    uint32_t rows = wanted && wanted->rows ? wanted->rows : ROWS;
    uint32_t columns = wanted && wanted->cols ? wanted->cols : COLUMNS;
    if (rows > UINT16_MAX || columns > UINT16_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "size may have at most 65535 rows and columns");
    *out_size = (struct cay_frame_size){.rows = (uint16_t)rows, .columns = (uint16_t)columns};
    return true;
}

bool cay_process_resize(struct cay_process *process, const struct cay_v1_pty_size *size,
                        struct cay_error *err)
{
    struct cay_frame_size wanted;
    if (!(process->flags & CAY_EXEC_PTY))
        return cay_fail(err, CAY_R_FAILED_PRECONDITION, "process '%s' has no terminal",
                        process->id);
    if (!cay_process_size(size, &wanted, err) || !is_reachable(process, err) ||
        !cay_link_resize(process->table->link, process->call, &wanted, err))
        return false;
    process->table->ops->link_used(process->table->owner);
    bool is_new = process->size.rows != wanted.rows || process->size.columns != wanted.columns;
    process->size = wanted;
    if (is_new)
        cay_process_changed(process);
    return true;
}

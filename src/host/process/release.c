/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/release.h"

#include "host/process/events.h"
#include "host/process/reader.h"

void cay_process_release_call(struct cay_processes *table, uint64_t call)
{
    struct cay_error ignored = {};
    const struct cay_process *process = cay_processes_of_call(table, call, false);
    const struct cay_process *leftover = cay_processes_of_call(table, call, true);
    bool is_needed = (process && (process->has_output || process->is_followed ||
                                  !cay_process_is_over(process))) ||
                     (leftover && !cay_process_is_over(leftover));
    if (is_needed || !table->link)
        return;
    (void)cay_link_release(table->link, call, &ignored);
    table->ops->link_used(table->owner);
}

static void drop_output(struct cay_process *process)
{
    process->has_output = false;
    cay_process_release_call(process->table, process->call);
    cay_readers_pump(process);
}

void cay_processes_trim(struct cay_processes *table)
{
    size_t kept = 0;
    cay_list_for_each (struct cay_process, process, &table->list, in_table) {
        /* Whoever reads or waits is not disturbed. */
        if (table->ended_count <= CAY_PROCESSES_ENDED_MAX)
            break;
        if (!cay_process_is_over(process) || process->busy || !cay_list_empty(&process->watchers) ||
            !cay_list_empty(&process->readers))
            continue;
        uint64_t call = process->call;
        cay_process_forget(process);
        cay_process_release_call(table, call);
    }
    cay_list_for_each (struct cay_process, process, &table->list, in_table)
        kept += cay_process_is_over(process) && process->has_output;
    cay_list_for_each (struct cay_process, process, &table->list, in_table) {
        if (kept <= CAY_PROCESSES_KEPT_MAX)
            break;
        if (!cay_process_is_over(process) || !process->has_output ||
            !cay_list_empty(&process->readers))
            continue;
        drop_output(process);
        kept--;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/linger.h"

#include "host/process/record.h"
#include "host/process/release.h"

enum { LINGER_MS = 200 };

void cay_process_hide(struct cay_process *process)
{
    process->is_hidden = process->is_plain = process->is_followed = true;
    cay_list_remove(&process->in_table);
    cay_list_push_back(&process->table->hidden, &process->in_table);
}

void cay_process_show(struct cay_process *process)
{
    if (!process->is_hidden)
        return;
    process->is_hidden = false;
    process->table->ended_count += cay_process_is_over(process);
    cay_list_remove(&process->in_table);
    cay_list_push_back(&process->table->list, &process->in_table);
    if (cay_process_is_over(process))
        cay_processes_trim(process->table);
}

void cay_process_go_on(struct cay_process *process)
{
    process->is_plain = process->is_followed = false;
    cay_process_show(process);
    cay_process_write(process);
    cay_process_changed(process);
}

void cay_process_unfollow(struct cay_process *process)
{
    process->is_followed = process->has_output = false;
    /* What is not written down yet is released afterwards. */
    if (!process->releases)
        cay_process_release_call(process->table, process->call);
}

static bool is_unwritten(const struct cay_process *process)
{
    return !process->is_recorded && !cay_process_is_over(process) && !process->table->is_closing;
}

static void start_timer(struct cay_processes *table)
{
    table->is_lingering = true;
    cay_timer_start(&table->linger_timer, LINGER_MS, 0);
}

static void on_timer(struct cay_timer *timer)
{
    struct cay_processes *table = CAY_CONTAINER_OF(timer, struct cay_processes, linger_timer);
    uint64_t now_ms = cay_loop_now_ms(table->loop);
    bool are_some = false;
    table->is_lingering = false;
    cay_list_for_each (struct cay_process, process, &table->hidden, in_table) {
        if (now_ms - process->begun_ms >= LINGER_MS && !process->is_exiting)
            cay_process_show(process); /* to the end of the list, where it is looked at next */
        are_some = are_some || process->is_hidden;
    }
    cay_list_for_each (struct cay_process, process, &table->list, in_table) {
        if (is_unwritten(process) && now_ms - process->begun_ms >= LINGER_MS) {
            cay_process_write(process);
            cay_process_changed(process);
        }
        are_some = are_some || is_unwritten(process);
    }
    if (are_some)
        start_timer(table);
}

/* One timer for all: it costs nothing to be started while others are watched already. */
void cay_process_may_linger(struct cay_process *process)
{
    struct cay_processes *table = process->table;
    process->begun_ms = cay_loop_now_ms(table->loop);
    if (!table->linger_timer.handle)
        cay_timer_open(&table->linger_timer, table->loop, on_timer);
    if (!table->is_lingering)
        start_timer(table);
}

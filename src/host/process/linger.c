/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/linger.h"

#include "host/process/record.h"

enum { LINGER_MS = 200 };

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
    cay_list_for_each (struct cay_process, process, &table->list, in_table) {
        if (is_unwritten(process) && now_ms - process->begun_ms >= LINGER_MS)
            cay_process_write(process);
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

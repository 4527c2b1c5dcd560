/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/orphan.h"

#include <signal.h>

#include "host/process/reader.h"
#include "host/process/record.h"

void cay_process_orphan(struct cay_process *process)
{
    process->is_orphan = true;
    if (!process->is_recorded && !cay_process_is_over(process))
        cay_process_write(process);
}

static void on_nobody(struct cay_timer *timer)
{
    struct cay_process *process = CAY_CONTAINER_OF(timer, struct cay_process, return_timer);
    struct cay_error ignored = {};
    process->is_orphan = false;
    if (process->kills_on_disconnect && !cay_process_is_over(process))
        (void)cay_process_signal(process, SIGKILL, true, -1, &ignored);
    else
        cay_readers_pump(process);
}

void cay_process_await_return(struct cay_process *process)
{
    process->is_orphan = true;
    if (!process->return_timer.handle)
        cay_timer_open(&process->return_timer, process->table->loop, on_nobody);
    cay_timer_start(&process->return_timer, CAY_PROCESS_RETURN_MS, 0);
}

void cay_process_claim(struct cay_process *process)
{
    process->is_orphan = false;
    cay_timer_close(&process->return_timer);
}

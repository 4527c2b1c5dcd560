/* SPDX-License-Identifier: Apache-2.0 */
#include "api/noun.h"
#include "base/clock.h"
#include "host/process/events.h"
#include "host/process/record.h"

enum {
    DELAY_MS_DEFAULT = 1000,
    DELAY_MS_MAX = 60 * 1000,
    STEADY_MS = 60 * 1000, /* who ran this long begins with the first delay again */
    SOON_MS = 100,
};

static void on_restart(struct cay_timer *timer)
{
    struct cay_process *process = CAY_CONTAINER_OF(timer, struct cay_process, restart_timer);
    process->table->ops->run_again(process->table->owner, process);
}

static void start_timer(struct cay_process *process, int64_t delay_ms)
{
    process->state = CAY_V1_PROCESS_STATE_RESTARTING;
    if (!process->restart_timer.handle)
        cay_timer_open(&process->restart_timer, process->table->loop, on_restart);
    cay_timer_start(&process->restart_timer, (uint64_t)delay_ms, 0);
}

static int64_t next_delay_ms(struct cay_process *process)
{
    const struct google_protobuf_duration *given = process->noun->restart->delay;
    int64_t first_ms = given ? CAY_MAX(cay_noun_duration_ms(given), (int64_t)0) : DELAY_MS_DEFAULT;
    int64_t ran_ms = (int64_t)process->exit.wall_usec / 1000;
    if (!process->restart_delay_ms || ran_ms >= STEADY_MS)
        process->restart_delay_ms = first_ms;
    else
        process->restart_delay_ms = CAY_MAX(process->restart_delay_ms, (int64_t)1) * 2;
    process->restart_delay_ms = CAY_MIN(process->restart_delay_ms, (int64_t)DELAY_MS_MAX);
    return process->restart_delay_ms;
}

bool cay_process_restarts(struct cay_process *process)
{
    const struct cay_v1_restart_policy *policy = process->noun->restart;
    const struct cay_v1_exec_result *result = process->result;
    if (!policy || !process->spec || process->is_killed || !process->table->link ||
        process->table->is_closing || process->is_leftover)
        return false;
    /* One that never ran at all is its caller's mistake. */
    if (process->exit.cause == CAY_CAUSE_FAILED && !process->restart_count)
        return false;
    bool is_good = result && result->has_exit_code && result->exit_code == 0;
    if (policy->mode == CAY_V1_RESTART_MODE_ON_FAILURE && is_good)
        return false;
    if (policy->max_restarts > 0 && process->restart_count >= policy->max_restarts)
        return false;
    start_timer(process, next_delay_ms(process));
    return true;
}

void cay_process_not_again(struct cay_process *process, const struct cay_error *err)
{
    cay_process_end(process, process->is_killed ? CAY_V1_END_CAUSE_KILLED : CAY_V1_END_CAUSE_LOST,
                    err);
}

void cay_process_again_soon(struct cay_process *process)
{
    start_timer(process, SOON_MS);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/live/usage_history.h"

#include <stdlib.h>

#include "api/noun.h"
#include "base/clock.h"
#include "host/session/host.h"
#include "host/session/session.h"

enum {
    ROUND_MAX = 20, /* groups read without a break: a few small files each */
    BREAK_MS = 100,
    FIRST_CAPACITY = 16,
};

struct cay_sampling {
    struct cay_host *host;
    struct cay_timer timer;
};

struct cay_usage_history {
    struct cay_usage_point *ring;
    size_t count;
    size_t capacity;
    size_t next; /* place of the next one, once the ring is full */
};

static size_t place(const struct cay_usage_history *history, size_t index)
{
    return history->count < CAY_USAGE_SAMPLES ? index : (history->next + index) % CAY_USAGE_SAMPLES;
}

const struct cay_usage_point *cay_usage_history_last(const struct cay_usage_history *history)
{
    return history->count ? &history->ring[place(history, history->count - 1)] : NULL;
}

static void add(struct cay_usage_history *history, const struct cay_usage_point *point)
{
    if (history->count == CAY_USAGE_SAMPLES) {
        history->ring[history->next] = *point;
        history->next = (history->next + 1) % CAY_USAGE_SAMPLES;
        return;
    }
    if (history->count == history->capacity) {
        size_t wanted = history->capacity ? 2 * history->capacity : FIRST_CAPACITY;
        history->capacity = CAY_MIN(wanted, (size_t)CAY_USAGE_SAMPLES);
        history->ring = cay_realloc_array(history->ring, history->capacity, sizeof(*point));
    }
    history->ring[history->count++] = *point;
}

static void sample(struct cay_session *session, int64_t now_ns)
{
    struct cay_sandbox_stats stats = {};
    const struct cay_usage_point *last = cay_usage_history_last(session->usage);
    cay_sandbox_stats(session->sandbox, &stats);
    struct cay_usage_point point = {
        .time_ns = now_ns,
        .cpu_usec = stats.usage.cpu_usec,
        .memory_bytes = (int64_t)stats.usage.memory_bytes,
        .memory_cache_bytes = (int64_t)stats.usage.memory_cache_bytes,
        .disk_bytes = session->quota.bytes,
        .pids = (int64_t)stats.usage.pids,
    };
    /* A sandbox that started anew counts from nothing again. */
    if (last && now_ns > last->time_ns && point.cpu_usec >= last->cpu_usec)
        point.cpus =
            (double)(point.cpu_usec - last->cpu_usec) * 1000 / (double)(now_ns - last->time_ns);
    add(session->usage, &point);
}

static void on_period(struct cay_timer *timer)
{
    struct cay_host *host = CAY_CONTAINER_OF(timer, struct cay_sampling, timer)->host;
    int64_t now_ns = cay_clock_wall_ns();
    int64_t due_ns = now_ns - (CAY_USAGE_PERIOD_MS - BREAK_MS) * CAY_NS_PER_MS;
    unsigned count = 0;
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table) {
        if (!session->live || session->is_gone || session->state != CAY_SESSION_ACTIVE)
            continue;
        const struct cay_usage_point *last = cay_usage_history_last(session->usage);
        if (last && last->time_ns > due_ns && last->time_ns <= now_ns)
            continue;
        if (count++ == ROUND_MAX)
            break;
        sample(session, now_ns);
    }
    cay_timer_start(&host->sampling->timer, count > ROUND_MAX ? BREAK_MS : CAY_USAGE_PERIOD_MS, 0);
}

void cay_usage_history_start(struct cay_host *host)
{
    host->sampling = cay_new(struct cay_sampling);
    host->sampling->host = host;
    cay_timer_open(&host->sampling->timer, host->loop, on_period);
    cay_timer_start(&host->sampling->timer, CAY_USAGE_PERIOD_MS, 0);
}

void cay_usage_history_stop(struct cay_host *host)
{
    if (host->sampling)
        cay_timer_close(&host->sampling->timer);
}

void cay_usage_history_samples(const struct cay_usage_history *history, int64_t start_ns,
                               int64_t end_ns, struct cay_arena *arena,
                               struct cay_v1_usage_sample_array *out_samples)
{
    out_samples->items = cay_arena_array(arena, history->count, sizeof(*out_samples->items));
    for (size_t i = 0; out_samples->items && i < history->count; i++) {
        const struct cay_usage_point *point = &history->ring[place(history, i)];
        if (point->time_ns < start_ns || point->time_ns > end_ns)
            continue;
        out_samples->items[out_samples->count++] = (struct cay_v1_usage_sample){
            .time = cay_noun_time(arena, point->time_ns),
            .cpus = point->cpus,
            .memory_bytes = point->memory_bytes,
            .memory_cache_bytes = point->memory_cache_bytes,
            .disk_bytes = point->disk_bytes,
            .pids = point->pids,
        };
    }
}

static void init(struct cay_session *session)
{
    session->usage = cay_new(struct cay_usage_history);
}

static void free_history(struct cay_session *session)
{
    free(session->usage->ring);
    free(cay_take_ptr(session->usage));
}

const struct cay_session_part cay_usage_part = {.init = init, .free = free_history};

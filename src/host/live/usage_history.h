/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What running sandboxes used, over the last hour: one sample every few seconds. In memory only; a
 * daemon begins anew. Loop thread.
 */

#include "api/cay_v1.h"
#include "base/arena.h"

enum {
    CAY_USAGE_PERIOD_MS = 5000,
    CAY_USAGE_SAMPLES = 720,
};

struct cay_host;
struct cay_session;
struct cay_usage_history; /* of one session */

struct cay_usage_point {
    int64_t time_ns; /* wall clock */
    uint64_t cpu_usec;
    double cpus; /* since the point before */
    int64_t memory_bytes;
    int64_t memory_cache_bytes;
    int64_t disk_bytes;
    int64_t pids;
};

void cay_usage_history_start(struct cay_host *host);
void cay_usage_history_stop(struct cay_host *host);

/* The newest point; NULL when there is none. */
[[nodiscard]] const struct cay_usage_point *
cay_usage_history_last(const struct cay_usage_history *history);

/* Those of [start, end], oldest first, as clients see them. */
void cay_usage_history_samples(const struct cay_usage_history *history, int64_t start_ns,
                               int64_t end_ns, struct cay_arena *arena,
                               struct cay_v1_usage_sample_array *out_samples);

extern const struct cay_session_part cay_usage_part;

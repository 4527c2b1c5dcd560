/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "front/connect/rpc.h"

static void write_method_histogram(const char *path, const struct cay_rpc_method_stats *stats,
                                   struct cay_buf *out)
{
    uint64_t count = 0;
    for (size_t i = 0; i < CAY_RPC_BUCKETS; i++) {
        char bound[16] = "+Inf";
        if (i < CAY_RPC_BUCKETS - 1)
            snprintf(bound, sizeof(bound), "%g", cay_rpc_bucket_us[i] / 1e6);
        count += stats->buckets[i];
        cay_buf_printf(out,
                       "cay_rpc_duration_seconds_bucket{method=\"%s\",le=\"%s\"} %" PRIu64 "\n",
                       path, bound, count);
    }
    cay_buf_printf(out,
                   "cay_rpc_duration_seconds_sum{method=\"%s\"} %.6f\n"
                   "cay_rpc_duration_seconds_count{method=\"%s\"} %" PRIu64 "\n",
                   path, (double)stats->total_us / 1e6, path, count);
}

/* Only methods that were called: a page of zeros for the whole contract helps nobody. */
void cay_connect_metrics(const void *self, struct cay_buf *out)
{
    const struct cay_connect *door = self;
    const struct cay_service_ops *ops = door->porch->service->ops;
    cay_buf_append_text(out, "# HELP cay_rpc_total Calls by method and Connect code.\n"
                             "# TYPE cay_rpc_total counter\n");
    for (size_t i = 0; i < ops->method_count; i++) {
        for (size_t code = 0; code < CAY_COUNT(door->stats[i].by_code); code++) {
            uint64_t count = door->stats[i].by_code[code];
            if (count)
                cay_buf_printf(out, "cay_rpc_total{method=\"%s\",code=\"%s\"} %" PRIu64 "\n",
                               ops->methods[i].path,
                               code ? cay_code_name((enum cay_connect_code)code) : "ok", count);
        }
    }
    cay_buf_append_text(out, "# HELP cay_rpc_duration_seconds "
                             "Time from the head of a request to its answer.\n"
                             "# TYPE cay_rpc_duration_seconds histogram\n");
    for (size_t i = 0; i < ops->method_count; i++) {
        uint64_t count = 0;
        for (size_t bucket = 0; bucket < CAY_RPC_BUCKETS; bucket++)
            count += door->stats[i].buckets[bucket];
        if (count)
            write_method_histogram(ops->methods[i].path, &door->stats[i], out);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "front/metrics.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static void head(struct cay_buf *out, const char *name, const char *type, const char *help)
{
    cay_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void value(struct cay_buf *out, const char *name, const char *type, const char *help,
                  uint64_t number)
{
    head(out, name, type, help);
    cay_buf_printf(out, "%s %" PRIu64 "\n", name, number);
}

static void write_server(const struct cay_server_stats *stats, struct cay_buf *out)
{
    static const char *const classes[] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
    value(out, "cay_http_connections_total", "counter", "Connections accepted.",
          stats->connections_accepted);
    value(out, "cay_http_connections_refused_total", "counter",
          "Connections turned away because there were too many.", stats->connections_refused);
    value(out, "cay_http_connections", "gauge", "Connections open now.", stats->connections_open);
    value(out, "cay_http_requests_in_flight", "gauge", "Requests being answered now.",
          stats->exchanges_open);
    value(out, "cay_http_received_bytes_total", "counter", "Bytes read from connections.",
          stats->received_bytes);
    value(out, "cay_http_sent_bytes_total", "counter", "Bytes of answers, without heads.",
          stats->sent_bytes);
    value(out, "cay_http_timeouts_total", "counter", "Connections cut for being slow or idle.",
          stats->timeouts);
    head(out, "cay_http_responses_total", "counter",
         "Answers by class of status; none: the peer left first.");
    for (size_t i = 0; i < CAY_COUNT(classes); i++)
        cay_buf_printf(out, "cay_http_responses_total{class=\"%s\"} %" PRIu64 "\n", classes[i],
                       stats->responses_by_class[i]);
}

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
static void write_rpc(const struct cay_connect_door *door, struct cay_buf *out)
{
    const struct cay_service_ops *ops = door->service->ops;
    head(out, "cay_rpc_total", "counter", "Calls by method and Connect code.");
    for (size_t i = 0; i < ops->method_count; i++) {
        for (size_t code = 0; code < CAY_COUNT(door->stats[i].by_code); code++) {
            uint64_t count = door->stats[i].by_code[code];
            if (count)
                cay_buf_printf(out, "cay_rpc_total{method=\"%s\",code=\"%s\"} %" PRIu64 "\n",
                               ops->methods[i].path,
                               code ? cay_code_name((enum cay_connect_code)code) : "ok", count);
        }
    }
    head(out, "cay_rpc_duration_seconds", "histogram",
         "Time from the head of a request to its answer.");
    for (size_t i = 0; i < ops->method_count; i++) {
        uint64_t count = 0;
        for (size_t bucket = 0; bucket < CAY_RPC_BUCKETS; bucket++)
            count += door->stats[i].buckets[bucket];
        if (count)
            write_method_histogram(ops->methods[i].path, &door->stats[i], out);
    }
}

static uint64_t resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file && fscanf(file, "%*s %llu", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t open_descriptors(void)
{
    uint64_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count > 3 ? count - 3 : 0; /* ".", ".." and the directory itself */
}

void cay_metrics_write(const struct cay_router *router, struct cay_buf *out)
{
    head(out, "cay_build_info", "gauge", "The version that runs.");
    cay_buf_append_text(out, "cay_build_info{version=\"" CAY_VERSION "\"} 1\n");
    value(out, "process_resident_memory_bytes", "gauge", "Resident memory.", resident_bytes());
    value(out, "process_open_fds", "gauge", "Open descriptors.", open_descriptors());
    if (router->server)
        write_server(cay_server_stats(router->server), out);
    write_rpc(&router->connect, out);
    if (router->service->ops->metrics)
        router->service->ops->metrics(router->service, out);
}

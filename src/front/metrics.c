/* SPDX-License-Identifier: Apache-2.0 */
#include "front/metrics.h"

#include <inttypes.h>

#include "front/http/server.h"
#include "sys/descriptors.h"
#include "sys/self.h"

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

void cay_metrics_write(const struct cay_porch *porch, struct cay_buf *out)
{
    uint64_t open_count = 0;
    (void)cay_descriptors_count(&open_count);
    head(out, "cay_build_info", "gauge", "The version that runs.");
    cay_buf_append_text(out, "cay_build_info{version=\"" CAY_VERSION "\"} 1\n");
    value(out, "process_resident_memory_bytes", "gauge", "Resident memory.",
          cay_self_resident_bytes());
    value(out, "process_open_fds", "gauge", "Open descriptors.", open_count);
    if (porch->server)
        write_server(cay_server_stats(porch->server), out);
    porch->metrics(porch, out);
    if (porch->service->ops->metrics)
        porch->service->ops->metrics(porch->service, out);
}

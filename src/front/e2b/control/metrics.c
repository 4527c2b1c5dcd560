/* SPDX-License-Identifier: Apache-2.0 */
#include "api/limits.h"
#include "api/noun.h"
#include "base/clock.h"
#include "front/e2b/control/handlers.h"
#include "front/e2b/control/shape.h"

/* What a sandbox used, over time. */

struct range {
    int64_t start_ns;
    int64_t end_ns;
    struct cay_v1_session *session;
};

static void number(struct cay_json_writer *json, const char *key, int64_t value)
{
    cay_json_key(json, key);
    cay_json_i64(json, value);
}

static void write_metric(struct cay_json_writer *json, const struct cay_v1_session *session,
                         const struct cay_v1_usage_sample *sample)
{
    const struct cay_v1_resource_limits *limits = session->limits;
    int64_t at_ns = sample->time ? cay_noun_time_ns(sample->time) : cay_clock_wall_ns();
    int64_t cores = cay_e2b_cpu_count(session);
    cay_json_object_begin(json);
    cay_e2b_write_time(json, "timestamp", at_ns);
    number(json, "timestampUnix", at_ns / CAY_NS_PER_SEC);
    number(json, "cpuCount", cores);
    cay_json_key(json, "cpuUsedPct");
    cay_json_double(json, sample->cpus * 100 / (double)CAY_MAX(cores, 1));
    number(json, "memUsed", sample->memory_bytes);
    number(json, "memTotal", cay_e2b_memory_bytes(session));
    number(json, "memCache", sample->memory_cache_bytes);
    number(json, "diskUsed", sample->disk_bytes);
    number(json, "diskTotal", limits && limits->has_disk_bytes ? limits->disk_bytes : 0);
    cay_json_object_end(json);
}

/* Before the first sample there is what it uses now. */
static struct cay_v1_usage_sample now_of(const struct cay_v1_get_usage_response *got)
{
    const struct cay_v1_session_usage *usage = got->sessions.items[0].usage;
    return (struct cay_v1_usage_sample){
        .cpus = usage->cpus,
        .memory_bytes = usage->memory_bytes,
        .memory_cache_bytes = usage->memory_cache_bytes,
        .disk_bytes = usage->disk_bytes,
    };
}

static void got_usage(struct cay_rest_request *request, struct cay_rest_call *,
                      const void *response, const struct cay_error *err)
{
    const struct cay_v1_get_usage_response *got = response;
    const struct range *range = request->state;
    if (err) {
        cay_rest_reply_error(request, err);
        return;
    }
    int64_t now_ns = cay_clock_wall_ns();
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, CAY_LIMIT_MESSAGE_BYTES);
    struct cay_json_writer json = {.buf = &body};
    cay_json_array_begin(&json);
    for (size_t i = 0; i < got->samples.count; i++)
        write_metric(&json, range->session, &got->samples.items[i]);
    if (!got->samples.count && got->sessions.count && range->start_ns <= now_ns &&
        range->end_ns >= now_ns && range->session->state == CAY_V1_SESSION_STATE_ACTIVE) {
        const struct cay_v1_usage_sample now = now_of(got);
        write_metric(&json, range->session, &now);
    }
    cay_json_array_end(&json);
    cay_rest_reply_json(request, 200, cay_buf_str(&body));
}

static void got_session(struct cay_rest_request *request,
                        const struct cay_v1_get_session_response *got, void *)
{
    struct range *range = request->state;
    range->session = cay_noun_copy(&cay_v1_session_desc, got->session, &request->arena);
    if (!range->session) {
        cay_rest_reply_fault(request, 413, "the request is too large");
        return;
    }
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_GET_USAGE);
    struct cay_v1_get_usage_request *ask = cay_rest_call_message(call);
    ask->session_id = range->session->id;
    ask->start_time = cay_noun_time(&call->errand.call.arena, CAY_MAX(range->start_ns, 1));
    if (range->end_ns != INT64_MAX)
        ask->end_time = cay_noun_time(&call->errand.call.arena, CAY_MAX(range->end_ns, 1));
    cay_rest_call_start(call, got_usage);
}

/* Seconds since 1970. */
static bool read_bound(struct cay_rest_request *request, const char *name, int64_t *out_ns)
{
    uint64_t seconds = 0;
    struct cay_str text = cay_rest_query(request, name);
    if (!text.len)
        return true;
    if (cay_str_to_u64(text, (uint64_t)(INT64_MAX / CAY_NS_PER_SEC), &seconds) < 0)
        return false;
    *out_ns = (int64_t)seconds * CAY_NS_PER_SEC;
    return true;
}

void cay_e2b_metrics(struct cay_rest_request *request)
{
    struct range *range = cay_arena_new(&request->arena, struct range);
    if (range)
        range->end_ns = INT64_MAX;
    if (!range || !read_bound(request, "start", &range->start_ns) ||
        !read_bound(request, "end", &range->end_ns)) {
        cay_rest_reply_fault(request, 400, "start, end: seconds since 1970");
        return;
    }
    request->state = range;
    cay_e2b_get_sandbox(request, got_session, NULL);
}

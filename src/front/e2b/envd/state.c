/* SPDX-License-Identifier: Apache-2.0 */
#include "api/limits.h"
#include "base/clock.h"
#include "front/e2b/envd/handlers.h"
#include "front/e2b/sandbox.h"
#include "front/rest/call.h"

/* What a sandbox has and uses: its environment and its measures. */

enum { BYTES_PER_MIB = 1024 * 1024 };

void cay_e2b_envd_envs(struct cay_rest_request *request)
{
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, CAY_LIMIT_MESSAGE_BYTES);
    struct cay_json_writer json = {.buf = &body};
    const struct cay_pb_pairs env = cay_e2b_visit(request)->session->env;
    cay_json_object_begin(&json);
    for (size_t i = 0; i < env.count; i++) {
        cay_json_key_str(&json, env.items[i].key);
        cay_json_string(&json, env.items[i].value);
    }
    cay_json_object_end(&json);
    cay_rest_reply_json(request, 200, cay_buf_str(&body));
}

static void number(struct cay_json_writer *json, const char *key, int64_t value)
{
    cay_json_key(json, key);
    cay_json_i64(json, value);
}

static void got_usage(struct cay_rest_request *request, struct cay_rest_call *,
                      const void *response, const struct cay_error *err)
{
    const struct cay_v1_get_usage_response *got = response;
    const struct cay_v1_resource_limits *limits = cay_e2b_visit(request)->session->limits;
    const struct cay_v1_session_usage none = {};
    if (err) {
        cay_rest_reply_error(request, err);
        return;
    }
    const struct cay_v1_session_usage *usage =
        got->sessions.count ? got->sessions.items[0].usage : &none;
    int64_t cores = cay_e2b_cpu_count(cay_e2b_visit(request)->session);
    int64_t memory_bytes = cay_e2b_memory_bytes(cay_e2b_visit(request)->session);
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, 4096);
    struct cay_json_writer json = {.buf = &body};
    cay_json_object_begin(&json);
    number(&json, "ts", cay_clock_wall_ns() / CAY_NS_PER_SEC);
    number(&json, "cpu_count", cores);
    cay_json_key(&json, "cpu_used_pct");
    cay_json_double(&json, usage->cpus * 100 / (double)CAY_MAX(cores, 1));
    number(&json, "mem_total", memory_bytes);
    number(&json, "mem_used", usage->memory_bytes);
    number(&json, "mem_cache", usage->memory_cache_bytes);
    number(&json, "mem_total_mib", memory_bytes / BYTES_PER_MIB);
    number(&json, "mem_used_mib", usage->memory_bytes / BYTES_PER_MIB);
    number(&json, "disk_used", usage->disk_bytes);
    number(&json, "disk_total", limits && limits->has_disk_bytes ? limits->disk_bytes : 0);
    cay_json_object_end(&json);
    cay_rest_reply_json(request, 200, cay_buf_str(&body));
}

void cay_e2b_envd_metrics(struct cay_rest_request *request)
{
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_GET_USAGE);
    struct cay_v1_get_usage_request *ask = cay_rest_call_message(call);
    ask->session_id = cay_e2b_visit(request)->sandbox_id;
    cay_rest_call_start(call, got_usage);
}

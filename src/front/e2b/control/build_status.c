/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "api/limits.h"
#include "api/noun.h"
#include "front/e2b/control/handlers.h"
#include "front/e2b/control/orders.h"
#include "front/e2b/control/shape.h"
#include "front/e2b/control/template.h"

/* How a build of a template goes, with the next part of its log. */

enum { LOG_PAGE = 500 };

static void write_step(struct cay_json_writer *json, int32_t step, const char *otherwise)
{
    char number[16];
    snprintf(number, sizeof(number), "%d", step);
    if (!step && !otherwise)
        return;
    cay_json_key(json, "step");
    cay_json_text(json, step ? number : otherwise);
}

static void write_entry(struct cay_json_writer *json, int64_t time_ns, struct cay_str level,
                        struct cay_str message, int32_t step)
{
    cay_json_object_begin(json);
    cay_e2b_write_time(json, "timestamp", time_ns);
    cay_json_key(json, "level");
    cay_json_string(json, level);
    cay_json_key(json, "message");
    cay_json_string(json, message);
    write_step(json, step, NULL);
    cay_json_object_end(json);
}

static void write_reason(struct cay_json_writer *json, const struct cay_v1_build *build)
{
    const struct cay_v1_build_failure *failure = build->failure;
    bool has_begun = build->progress && build->progress->fraction >= 0.05;
    cay_json_key(json, "reason");
    cay_json_object_begin(json);
    cay_json_key(json, "message");
    cay_json_string(json, failure->message);
    write_step(json, failure->step, has_begun ? "finalize" : "base");
    cay_json_key(json, "logEntries");
    cay_json_array_begin(json);
    write_entry(json, build->ended_at ? cay_noun_time_ns(build->ended_at) : 0, CAY_STR("error"),
                failure->message, failure->step);
    cay_json_array_end(json);
    cay_json_object_end(json);
}

/* `got` may be NULL: nothing is known but the status. */
static void reply_status(struct cay_rest_request *request, const char *status,
                         const struct cay_v1_get_build_response *got)
{
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, CAY_LIMIT_MESSAGE_BYTES);
    struct cay_json_writer json = {.buf = &body};
    cay_json_object_begin(&json);
    cay_json_key(&json, "templateID");
    cay_json_string(&json, cay_e2b_template_name(request->params[0]));
    cay_json_key(&json, "buildID");
    cay_json_string(&json, request->params[1]);
    cay_json_key(&json, "status");
    cay_json_text(&json, status);
    cay_json_key(&json, "logs");
    cay_json_array_begin(&json);
    cay_json_array_end(&json);
    cay_json_key(&json, "logEntries");
    cay_json_array_begin(&json);
    for (size_t i = 0; got && i < got->logs.count; i++) {
        const struct cay_v1_build_log *log = &got->logs.items[i];
        write_entry(&json, log->time ? cay_noun_time_ns(log->time) : 0, log->level, log->message,
                    log->step);
    }
    cay_json_array_end(&json);
    if (got && got->build->failure)
        write_reason(&json, got->build);
    cay_json_object_end(&json);
    cay_rest_reply_json(request, 200, cay_buf_str(&body));
}

/* The log may be gone when the base is not. */
static void found_base(struct cay_rest_request *request, struct cay_rest_call *,
                       const void *response, const struct cay_error *err)
{
    const struct cay_v1_list_bases_response *list = response;
    if (err)
        cay_rest_reply_error(request, err);
    else if (list->bases.count)
        reply_status(request, "ready", NULL);
    else
        cay_rest_reply_fault(request, 404, "there is no such build (any more)");
}

static void find_base(struct cay_rest_request *request)
{
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_BASE_SERVICE_LIST_BASES);
    struct cay_v1_list_bases_request *ask = cay_rest_call_message(call);
    struct cay_pb_pair *label = cay_arena_new(&call->errand.call.arena, struct cay_pb_pair);
    ask->name = request->params[1];
    ask->page_size = 1;
    if (label) {
        *label = (struct cay_pb_pair){CAY_STR(CAY_E2B_LABEL_TEMPLATE),
                                      cay_e2b_template_name(request->params[0])};
        ask->labels = (struct cay_pb_pairs){label, 1};
    }
    cay_rest_call_start(call, found_base);
}

static void got_build(struct cay_rest_request *request, struct cay_rest_call *,
                      const void *response, const struct cay_error *err)
{
    static const char *const states[] = {
        [CAY_V1_BUILD_STATE_RUNNING] = "building",
        [CAY_V1_BUILD_STATE_READY] = "ready",
        [CAY_V1_BUILD_STATE_FAILED] = "error",
    };
    const struct cay_v1_get_build_response *got = response;
    if (err && err->reason == CAY_R_NOT_FOUND)
        find_base(request);
    else if (err)
        cay_rest_reply_error(request, err);
    else
        reply_status(request, states[got->build->state], got);
}

void cay_e2b_build_status(struct cay_rest_request *request)
{
    struct cay_str offset = cay_rest_query(request, "logsOffset");
    uint64_t skip = 0;
    if (offset.len && cay_str_to_u64(offset, INT64_MAX, &skip) < 0) {
        cay_rest_reply_fault(request, 400, "logsOffset: a number, 0 or more");
        return;
    }
    const struct cay_e2b_order *order = cay_e2b_order_of(request);
    if (order && !order->is_started) {
        reply_status(request, "waiting", NULL);
        return;
    }
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_BASE_SERVICE_GET_BUILD);
    struct cay_v1_get_build_request *ask = cay_rest_call_message(call);
    ask->build_id = request->params[1];
    ask->log_offset = (int64_t)skip;
    ask->page_size = LOG_PAGE;
    cay_rest_call_start(call, got_build);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/env/order.h"

#include <errno.h>

#include "api/limits.h"
#include "base/clock.h"
#include "lib/entry.h"
#include "lib/env/result.h"

static bool read_params(struct cay_env_order *order, struct cay_error *err)
{
    char text[160] = "";
    const char *params = order->request->params;
    if (!params || !*params)
        return true;
    int status = cay_pb_json_read(&google_protobuf_struct_desc, cay_str(params), NULL,
                                  &order->arena, &order->params, text, sizeof(text));
    order->call.params = &order->params;
    if (status == -ENOMEM && order->arena.no_memory)
        return cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    if (status == -ENOMEM)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "params: they take too much memory");
    return status == 0 || cay_fail(err, CAY_R_INVALID_ARGUMENT, "params: no JSON object: %s", text);
}

bool cay_env_order_pairs(const struct cay_pair *pairs, size_t count, struct cay_arena *arena,
                         struct cay_pb_pairs *out_pairs, struct cay_error *err)
{
    struct cay_pb_pair *items = cay_arena_array(arena, count, sizeof(*items));
    if (count && !items)
        return cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    for (size_t i = 0; i < count; i++)
        items[i] = (struct cay_pb_pair){cay_str(pairs[i].name), cay_str(pairs[i].value)};
    *out_pairs = (struct cay_pb_pairs){items, count};
    return true;
}

void cay_env_order_finish(struct cay_env_order *order)
{
    cay_arena_finish(&order->arena);
    cay_tool_response_free(order->response);
}

bool cay_env_order_build(struct cay_env_order *order, const struct cay_tool_request *request,
                         struct cay_error *err)
{
    *order = (struct cay_env_order){.request = request};
    cay_arena_init(&order->arena, CAY_LIMIT_CALL_ARENA_BYTES);
    const bool has_id = request->tool_call_id && *request->tool_call_id;
    if (!has_id && !cay_entry_id(order->made_up_id, sizeof(order->made_up_id), "call-", err))
        return false;
    order->call = (struct cay_v1_tool_call){
        .tool_name = cay_str(request->tool_name),
        .tool_call_id = cay_str(has_id ? request->tool_call_id : order->made_up_id),
        .user = cay_str(request->user),
        .cwd = cay_str(request->cwd),
        .max_result_bytes = request->result_bytes_max,
    };
    if (request->tool_timeout_ms) {
        order->timeout = (struct google_protobuf_duration){
            .seconds = request->tool_timeout_ms / 1000,
            .nanos = (int32_t)(request->tool_timeout_ms % 1000 * CAY_NS_PER_MS)};
        order->policy.timeout = &order->timeout;
        order->call.policy = &order->policy;
    }
    return cay_env_order_pairs(request->environment, request->environment_count, &order->arena,
                               &order->call.env, err) &&
           read_params(order, err);
}

/* An id that the caller does not know is no affair of its. */
bool cay_env_order_take(struct cay_env_order *order, const struct cay_v1_tool_result *result,
                        struct cay_error *err)
{
    if (!result)
        return cay_fail(err, CAY_R_INTERNAL, "the daemon did not say what came of the tool");
    struct cay_v1_tool_result shown = *result;
    if (order->made_up_id[0]) {
        shown.tool_call_id = (struct cay_str){};
        shown.cached = false;
    }
    return cay_result_response(&shown, &order->response, err);
}

/* After a repetition output may come again from its start. */
void cay_env_order_show(struct cay_env_order *order, const struct cay_v1_output_chunk *chunk)
{
    struct cay_str data = chunk->data;
    int64_t begin = chunk->offset;
    if (begin < order->shown_bytes) {
        size_t known = (size_t)CAY_MIN(order->shown_bytes - begin, (int64_t)data.len);
        data.ptr += known;
        data.len -= known;
        begin += (int64_t)known;
    }
    if (!data.len || !order->request->progress)
        return;
    const struct cay_tool_progress progress = {
        .stream = chunk->stream == CAY_V1_OUTPUT_STREAM_STDERR ? 2 : 1,
        .data = data.ptr,
        .len = data.len,
        .offset = begin,
        .dropped_bytes = begin - order->shown_bytes,
    };
    order->shown_bytes = begin + (int64_t)data.len;
    order->request->progress(order->request->state, &progress);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/order.h"

#include "api/limits.h"
#include "api/noun.h"

bool cay_tool_order(const struct cay_v1_tool_call *request, struct cay_tool_order *out_order,
                    struct cay_error *err)
{
    struct cay_tool_order order = {};
    if (!request || !request->tool_name.len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "call.tool_name: which tool?");
    if (request->tool_call_id.len > CAY_LIMIT_ID_BYTES)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "call.tool_call_id: %d bytes at most",
                        CAY_LIMIT_ID_BYTES);
    if (request->max_result_bytes < 0 || request->max_result_bytes > CAY_LIMIT_RESULT_BYTES_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "call.max_result_bytes: %d at most",
                        CAY_LIMIT_RESULT_BYTES_MAX);
    order.tool = cay_tool_find(request->tool_name);
    if (!order.tool) {
        const char *nearest = cay_tool_nearest(request->tool_name);
        cay_fail(err, CAY_R_TOOL_NOT_FOUND, "there is no tool '%.*s'%s%s%s",
                 (int)CAY_MIN(request->tool_name.len, (size_t)64), request->tool_name.ptr,
                 nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
        return nearest ? cay_error_fact(err, "nearest", "%s", nearest) : false;
    }
    const struct google_protobuf_duration *timeout =
        request->policy ? request->policy->timeout : NULL;
    order.timeout_ms = timeout ? cay_noun_duration_ms(timeout) : 0;
    if (timeout && order.tool->run &&
        (order.timeout_ms <= 0 || order.timeout_ms > INT64_C(7) * 24 * 3600 * 1000))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "call.policy.timeout: more than 0, up to 7 days");
    order.result_bytes_max =
        request->max_result_bytes ? request->max_result_bytes : CAY_LIMIT_RESULT_BYTES;
    if (!cay_tool_check_params(order.tool, request->params, err))
        return false;
    *out_order = order;
    return true;
}

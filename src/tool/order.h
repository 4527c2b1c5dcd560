/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A call of a tool as a client writes it: which tool is meant, and whether it can be done at all.
 */

#include "tool/tool.h"

struct cay_tool_order {
    const struct cay_tool *tool;
    int64_t timeout_ms; /* of the call's policy; 0: it has none */
    int64_t result_bytes_max;
};

/* `request` may be NULL. Reasons: INVALID_ARGUMENT, TOOL_NOT_FOUND with the nearest name. */
[[nodiscard]] bool cay_tool_order(const struct cay_v1_tool_call *request,
                                  struct cay_tool_order *out_order, struct cay_error *err);

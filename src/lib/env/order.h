/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A tool call on its way from a caller's struct to a noun of the contract, and its outcome on the
 * way back; the same for all kinds that speak the contract.
 *
 * Order: build -> (show* , take) -> finish.
 */

#include "api/cay_v1.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/id.h"
#include "cay/env.h"

struct cay_env_order {
    const struct cay_tool_request *request;
    struct cay_v1_tool_call call; /* it always has an id */
    char made_up_id[CAY_ID_SIZE]; /* empty: the id is the caller's */
    int64_t shown_bytes;          /* of output */
    struct cay_tool_response *response;

    /* What the call points to. */
    struct cay_v1_exec_policy policy;
    struct google_protobuf_duration timeout;
    struct google_protobuf_struct params;
    struct cay_arena arena;
};

/* `request`, and the texts in it, are borrowed. Finish it also when this fails. */
[[nodiscard]] bool cay_env_order_build(struct cay_env_order *order,
                                       const struct cay_tool_request *request,
                                       struct cay_error *err);
void cay_env_order_finish(struct cay_env_order *order);

/* Tells the caller of output. What was shown before is left out: a repetition begins at the start.
 */
void cay_env_order_show(struct cay_env_order *order, const struct cay_v1_output_chunk *chunk);

/* Makes the response; `result` may be NULL, which is an error. */
[[nodiscard]] bool cay_env_order_take(struct cay_env_order *order,
                                      const struct cay_v1_tool_result *result,
                                      struct cay_error *err);

/* Borrows the texts. */
[[nodiscard]] bool cay_env_order_pairs(const struct cay_pair *pairs, size_t count,
                                       struct cay_arena *arena, struct cay_pb_pairs *out_pairs,
                                       struct cay_error *err);

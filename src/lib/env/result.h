/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What environments give to their callers: objects in one piece, made from nouns of the contract
 * and borrowing nothing of them. They are released by the functions of include/cay/env.h.
 */

#include "api/cay_v1.h"
#include "base/error.h"
#include "cay/env.h"

/* Reasons: out_of_memory, message_too_large. */
[[nodiscard]] bool cay_result_response(const struct cay_v1_tool_result *result,
                                       struct cay_tool_response **out_response,
                                       struct cay_error *err);

/* `snapshot` may be NULL: the daemon has not said which. */
[[nodiscard]] bool cay_result_snapshot(const struct cay_v1_snapshot *snapshot,
                                       struct cay_env_snapshot **out_snapshot,
                                       struct cay_error *err);

/* A diff that is filled entry by entry. */
struct cay_result_diff;
[[nodiscard]] bool cay_result_diff_create(struct cay_result_diff **out_diff, struct cay_error *err);
[[nodiscard]] bool cay_result_diff_add(struct cay_result_diff *diff,
                                       const struct cay_v1_diff_entry *entry,
                                       struct cay_error *err);
/* Nothing is added any more: what the caller gets, and owns. */
[[nodiscard]] bool cay_result_diff_give(struct cay_result_diff *diff,
                                        struct cay_env_diff **out_diff, struct cay_error *err);
void cay_result_diff_destroy(struct cay_result_diff *diff); /* of one that was not given */

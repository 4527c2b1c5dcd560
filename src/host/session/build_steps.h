/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* BuildBase by steps on another base. */

#include "api/call.h"
#include "api/cay_v1.h"

struct cay_host;

/* Of the sessions that steps run in: not listed unless asked for, never kept over a restart. */
#define CAY_BUILD_LABEL "cay.build"

[[nodiscard]] struct cay_pb_pairs cay_build_labels(void);
[[nodiscard]] bool cay_build_is_label(struct cay_pb_pairs labels);

/* The caller may build bases. Answers the call; the request is in its arena, or its own. */
void cay_build_by_steps(struct cay_host *host, struct cay_call *call,
                        const struct cay_v1_build_base_request *request);

/* A path as a step means it; empty when the arena is full. */
[[nodiscard]] struct cay_str cay_build_path(struct cay_arena *arena, struct cay_str cwd,
                                            struct cay_str path);

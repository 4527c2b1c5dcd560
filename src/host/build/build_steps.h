/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* BuildBase by steps on another base. */

#include "api/call.h"
#include "api/cay_v1.h"

struct cay_host;

/* The caller may build bases. Answers the call; the request is in its arena, or its own. */
void cay_build_by_steps(struct cay_host *host, struct cay_call *call,
                        const struct cay_v1_build_base_request *request);

/* A path as a step means it; empty when the arena is full. */
[[nodiscard]] struct cay_str cay_build_path(struct cay_arena *arena, struct cay_str cwd,
                                            struct cay_str path);

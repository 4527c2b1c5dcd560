/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A change that the store found, as clients see it. */

#include "api/cay_v1.h"
#include "base/arena.h"
#include "host/store/diff.h"

/* Without a patch. False when the arena is full. */
[[nodiscard]] bool cay_change_message(const struct cay_diff_entry *change, struct cay_arena *arena,
                                      struct cay_v1_diff_entry *out_entry);

/* Whether one of the paths (of a request; all when there are none) is `path` or above it. */
[[nodiscard]] bool cay_change_is_wanted(struct cay_pb_strs paths, struct cay_str path);

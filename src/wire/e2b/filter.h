/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The filter by metadata of a list of sandboxes. */

#include "base/arena.h"
#include "wire/pb/pb.h"

/*
 * "a=b%2520c&d=e", what is left of the query's value after it was unescaped once: a form, whose
 * keys and values were escaped before it was made. -EINVAL when it is no such text, -E2BIG with
 * more than `count_max` pairs, -ENOMEM.
 */
[[nodiscard]] int cay_e2b_filter_parse(struct cay_str text, size_t count_max,
                                       struct cay_arena *arena, struct cay_pb_pairs *out_pairs);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Small helpers for the nouns of the contract. */

#include "api/cay_v1.h"
#include "base/arena.h"

/* A label of sessions that stand for something else, which is its value: lists leave them out
 * unless they are asked for. */
#define CAY_LABEL_HIDDEN "cay.hidden"

/* A deep copy that borrows nothing: through the binary codec. NULL when the arena is full. */
[[nodiscard]] void *cay_noun_copy(const struct cay_pb_message *desc, const void *message,
                                  struct cay_arena *arena);

/* The same for what stays: the arena gets no more memory than the copy needs. */
[[nodiscard]] void *cay_noun_keep(const struct cay_pb_message *desc, const void *message,
                                  struct cay_arena *arena);

/* NULL for 0, which means never. */
[[nodiscard]] struct google_protobuf_timestamp *cay_noun_time(struct cay_arena *arena,
                                                              int64_t wall_ns);
[[nodiscard]] struct google_protobuf_duration *cay_noun_duration(struct cay_arena *arena,
                                                                 int64_t duration_ns);

/* Nanoseconds since 1970; the nearest that fits. */
[[nodiscard]] int64_t cay_noun_time_ns(const struct google_protobuf_timestamp *stamp);

/* 0 when absent; bounded to what an int64_t of milliseconds holds. */
[[nodiscard]] int64_t cay_noun_duration_ms(const struct google_protobuf_duration *duration);

/* `own`, with those of `over` added or in their place. False when the arena is full. */
[[nodiscard]] bool cay_noun_merge(struct cay_arena *arena, struct cay_pb_pairs own,
                                  struct cay_pb_pairs over, struct cay_pb_pairs *out_pairs);

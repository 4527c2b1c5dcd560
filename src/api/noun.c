/* SPDX-License-Identifier: Apache-2.0 */
#include "api/noun.h"

#include "base/clock.h"

void *cay_noun_copy(const struct cay_pb_message *desc, const void *message, struct cay_arena *arena)
{
    int64_t size = cay_pb_encoded_size(desc, message);
    char *bytes = size < 0 ? NULL : cay_arena_alloc(arena, (size_t)size);
    void *copy = cay_arena_alloc(arena, desc->size_bytes);
    if (!bytes || !copy)
        return NULL;
    /* A buffer over memory the arena owns: full to the byte, so it never grows. */
    struct cay_buf buf = {.data = bytes, .cap = (size_t)size, .size_bytes_max = (size_t)size};
    if (cay_pb_encode(desc, message, &buf) < 0 ||
        cay_pb_decode(desc, cay_buf_str(&buf), arena, copy) < 0)
        return NULL;
    return copy;
}

void *cay_noun_keep(const struct cay_pb_message *desc, const void *message, struct cay_arena *arena)
{
    /* Made once to see how much it takes. */
    cay_auto(cay_arena_finish) struct cay_arena trial;
    cay_arena_init(&trial, arena->size_bytes_max);
    if (!cay_noun_copy(desc, message, &trial) || !cay_arena_reserve(arena, cay_arena_taken(&trial)))
        return NULL;
    return cay_noun_copy(desc, message, arena);
}

struct google_protobuf_timestamp *cay_noun_time(struct cay_arena *arena, int64_t wall_ns)
{
    struct google_protobuf_timestamp *stamp =
        wall_ns ? cay_arena_new(arena, struct google_protobuf_timestamp) : NULL;
    if (stamp) {
        stamp->seconds = wall_ns / CAY_NS_PER_SEC;
        stamp->nanos = (int32_t)(wall_ns % CAY_NS_PER_SEC);
    }
    return stamp;
}

int64_t cay_noun_time_ns(const struct google_protobuf_timestamp *stamp)
{
    int64_t ns = 0;
    if (__builtin_mul_overflow(stamp->seconds, CAY_NS_PER_SEC, &ns) ||
        __builtin_add_overflow(ns, stamp->nanos, &ns))
        return stamp->seconds < 0 ? INT64_MIN : INT64_MAX;
    return ns;
}

struct google_protobuf_duration *cay_noun_duration(struct cay_arena *arena, int64_t duration_ns)
{
    struct google_protobuf_duration *duration =
        cay_arena_new(arena, struct google_protobuf_duration);
    if (duration) {
        duration->seconds = duration_ns / CAY_NS_PER_SEC;
        duration->nanos = (int32_t)(duration_ns % CAY_NS_PER_SEC);
    }
    return duration;
}

int64_t cay_noun_duration_ms(const struct google_protobuf_duration *duration)
{
    int64_t ms = 0;
    if (!duration)
        return 0;
    if (__builtin_mul_overflow(duration->seconds, 1000, &ms) ||
        __builtin_add_overflow(ms, duration->nanos / CAY_NS_PER_MS, &ms))
        return duration->seconds < 0 ? 0 : INT64_MAX;
    return ms;
}

bool cay_noun_merge(struct cay_arena *arena, struct cay_pb_pairs own, struct cay_pb_pairs over,
                    struct cay_pb_pairs *out_pairs)
{
    struct cay_pb_pairs merged = {
        .items = cay_arena_array(arena, own.count + over.count, sizeof(*merged.items))};
    if (!merged.items)
        return false;
    for (size_t i = 0; i < own.count; i++) {
        bool is_replaced = false;
        for (size_t j = 0; j < over.count; j++)
            is_replaced = is_replaced || cay_str_equal(own.items[i].key, over.items[j].key);
        if (!is_replaced)
            merged.items[merged.count++] = own.items[i];
    }
    for (size_t j = 0; j < over.count; j++)
        merged.items[merged.count++] = over.items[j];
    *out_pairs = merged;
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the codecs. Members of generated structs are read and written with memcpy only: the
 * tables know offsets, not C types, and a cast would break the aliasing rules.
 */

#include "wire/pb/pb.h"

enum cay_pb_wire {
    CAY_PB_WIRE_VARINT = 0,
    CAY_PB_WIRE_64 = 1,
    CAY_PB_WIRE_BYTES = 2,
    CAY_PB_WIRE_32 = 5,
};

/* Any repeated field or map: all generated array structs have this layout. */
struct cay_pb_list {
    void *items;
    size_t count;
};

/* The bytes of one value of a scalar type; what a singular field has in its struct. */
static inline size_t cay_pb_scalar_size(uint8_t type)
{
    static const uint8_t sizes[] = {
        [CAY_PB_DOUBLE] = 8,
        [CAY_PB_FLOAT] = 4,
        [CAY_PB_INT64] = 8,
        [CAY_PB_UINT64] = 8,
        [CAY_PB_INT32] = 4,
        [CAY_PB_FIXED64] = 8,
        [CAY_PB_FIXED32] = 4,
        [CAY_PB_BOOL] = 1,
        [CAY_PB_STRING] = sizeof(struct cay_str),
        [CAY_PB_MESSAGE] = sizeof(void *),
        [CAY_PB_BYTES] = sizeof(struct cay_str),
        [CAY_PB_UINT32] = 4,
        [CAY_PB_ENUM] = 4,
        [CAY_PB_SFIXED32] = 4,
        [CAY_PB_SFIXED64] = 8,
        [CAY_PB_SINT32] = 4,
        [CAY_PB_SINT64] = 8,
    };
    return sizes[type];
}

/* How one value of a type travels. */
static inline enum cay_pb_wire cay_pb_wire_of(uint8_t type)
{
    static const uint8_t wires[] = {
        [CAY_PB_DOUBLE] = CAY_PB_WIRE_64,     [CAY_PB_FIXED64] = CAY_PB_WIRE_64,
        [CAY_PB_SFIXED64] = CAY_PB_WIRE_64,   [CAY_PB_FLOAT] = CAY_PB_WIRE_32,
        [CAY_PB_FIXED32] = CAY_PB_WIRE_32,    [CAY_PB_SFIXED32] = CAY_PB_WIRE_32,
        [CAY_PB_STRING] = CAY_PB_WIRE_BYTES,  [CAY_PB_BYTES] = CAY_PB_WIRE_BYTES,
        [CAY_PB_MESSAGE] = CAY_PB_WIRE_BYTES, [CAY_PB_SINT64] = CAY_PB_WIRE_VARINT,
    };
    return (enum cay_pb_wire)wires[type];
}

/* The bytes of one item of a repeated field: messages lie in the array itself. */
static inline size_t cay_pb_item_size(const struct cay_pb_field *field)
{
    return field->type == CAY_PB_MESSAGE ? field->message->size_bytes
                                         : cay_pb_scalar_size(field->type);
}

static inline void *cay_pb_slot(void *message, const struct cay_pb_field *field)
{
    return (char *)message + field->offset;
}

static inline const void *cay_pb_const_slot(const void *message, const struct cay_pb_field *field)
{
    return (const char *)message + field->offset;
}

#define CAY_PB_LOAD(type, slot)                    \
    ({                                             \
        type loaded_;                              \
        memcpy(&loaded_, (slot), sizeof(loaded_)); \
        loaded_;                                   \
    })

#define CAY_PB_STORE(type, slot, value)            \
    do {                                           \
        type stored_ = (value);                    \
        memcpy((slot), &stored_, sizeof(stored_)); \
    } while (0)

/* Whether a field that is neither repeated nor a map is to be written. */
static inline bool cay_pb_is_present(const void *message, const struct cay_pb_field *field)
{
    const void *slot = cay_pb_const_slot(message, field);
    if (field->label == CAY_PB_OPTIONAL)
        return CAY_PB_LOAD(bool, (const char *)message + field->presence);
    if (field->label == CAY_PB_ONEOF)
        return CAY_PB_LOAD(uint32_t, (const char *)message + field->presence) == field->number;
    /* All bits count: a pointer, a length, or a number that is not +0. */
    switch (cay_pb_scalar_size(field->type)) {
    case sizeof(struct cay_str): return CAY_PB_LOAD(struct cay_str, slot).len != 0;
    case sizeof(bool): return CAY_PB_LOAD(bool, slot);
    case sizeof(uint32_t): return CAY_PB_LOAD(uint32_t, slot) != 0;
    default: return CAY_PB_LOAD(uint64_t, slot) != 0;
    }
}

/* Says that such a field is present; for a oneof this decides which of them is. */
void cay_pb_set_present(void *message, const struct cay_pb_field *field);

/* Room for `extra` more items behind the last; zeroed. The caller raises list->count. The capacity
 * follows from the count, so it is stored nowhere. NULL when the arena is full. */
[[nodiscard]] void *cay_pb_list_grow(struct cay_pb_list *list, size_t item_size, size_t extra,
                                     struct cay_arena *arena);

/* Drops all but the last entry of each key, keeps the order otherwise. 0 or -ENOMEM. */
[[nodiscard]] int cay_pb_map_unique(const struct cay_pb_message *entry, struct cay_pb_list *map);

/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/pb/pb.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>

#include "base/utf8.h"
#include "wire/pb/pb_internal.h"

/*
 * Two walks. The first adds up the size, the second writes from the end to the front: when the
 * length of a submessage is due, its bytes are already there. So no length is computed twice,
 * nothing is moved, and nothing is allocated but the room in the buffer.
 */

struct sizer {
    unsigned depth;
    bool too_deep;
};

static size_t message_size(struct sizer *sizer, const struct cay_pb_message *desc,
                           const void *message);
static char *put_message(char *at, const struct cay_pb_message *desc, const void *message);

static size_t varint_size(uint64_t value)
{
    unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);
    return (bits * 9 + 64) / 64;
}

/* A varint field's value as the wire has it: negative 32-bit numbers are sign-extended. */
static uint64_t varint_value(uint8_t type, const void *slot)
{
    switch (type) {
    case CAY_PB_BOOL: return CAY_PB_LOAD(bool, slot);
    case CAY_PB_UINT32: return CAY_PB_LOAD(uint32_t, slot);
    case CAY_PB_INT32:
    case CAY_PB_ENUM: return (uint64_t)(int64_t)CAY_PB_LOAD(int32_t, slot);
    case CAY_PB_SINT32: {
        uint32_t value = CAY_PB_LOAD(uint32_t, slot);
        return value << 1 ^ (0 - (value >> 31));
    }
    case CAY_PB_SINT64: {
        uint64_t value = CAY_PB_LOAD(uint64_t, slot);
        return value << 1 ^ (0 - (value >> 63));
    }
    default: return CAY_PB_LOAD(uint64_t, slot);
    }
}

/* Without the tag; with the length where there is one. Not for messages. */
static size_t scalar_size(uint8_t type, const void *slot)
{
    switch (cay_pb_wire_of(type)) {
    case CAY_PB_WIRE_VARINT: return varint_size(varint_value(type, slot));
    case CAY_PB_WIRE_64: return 8;
    case CAY_PB_WIRE_32: return 4;
    case CAY_PB_WIRE_BYTES: break;
    }
    struct cay_str text = CAY_PB_LOAD(struct cay_str, slot);
    size_t len = type == CAY_PB_STRING ? cay_utf8_repaired_len(text) : text.len;
    return varint_size(len) + len;
}

static size_t submessage_size(struct sizer *sizer, const struct cay_pb_message *desc,
                              const void *message)
{
    size_t len = message ? message_size(sizer, desc, message) : 0;
    return varint_size(len) + len;
}

/* Entries always carry both key and value. */
static size_t entry_size(struct sizer *sizer, const struct cay_pb_message *desc, const void *entry)
{
    const struct cay_pb_field *value = &desc->fields[1];
    const void *slot = cay_pb_const_slot(entry, value);
    size_t len = 2 + scalar_size(desc->fields[0].type, cay_pb_const_slot(entry, &desc->fields[0]));
    if (value->type == CAY_PB_MESSAGE)
        len += submessage_size(sizer, value->message, CAY_PB_LOAD(const void *, slot));
    else
        len += scalar_size(value->type, slot);
    return varint_size(len) + len;
}

static size_t packed_size(const struct cay_pb_field *field, struct cay_pb_list list)
{
    size_t item_size = cay_pb_scalar_size(field->type);
    if (cay_pb_wire_of(field->type) != CAY_PB_WIRE_VARINT)
        return list.count * item_size;
    size_t size = 0;
    for (size_t i = 0; i < list.count; i++)
        size += scalar_size(field->type, (const char *)list.items + i * item_size);
    return size;
}

static size_t list_size(struct sizer *sizer, const struct cay_pb_field *field,
                        struct cay_pb_list list)
{
    size_t tag_size = varint_size((uint64_t)field->number << 3);
    if (!list.count)
        return 0;
    if (field->flags & CAY_PB_PACKED) {
        size_t len = packed_size(field, list);
        return tag_size + varint_size(len) + len;
    }
    size_t item_size = cay_pb_item_size(field);
    size_t size = list.count * tag_size;
    for (size_t i = 0; i < list.count; i++) {
        const char *item = (const char *)list.items + i * item_size;
        if (field->label == CAY_PB_MAP)
            size += entry_size(sizer, field->message, item);
        else if (field->type == CAY_PB_MESSAGE)
            size += submessage_size(sizer, field->message, item);
        else
            size += scalar_size(field->type, item);
    }
    return size;
}

static size_t message_size(struct sizer *sizer, const struct cay_pb_message *desc,
                           const void *message)
{
    size_t size = 0;
    if (sizer->depth == CAY_PB_DEPTH_MAX) {
        sizer->too_deep = true;
        return 0;
    }
    sizer->depth++;
    for (size_t i = 0; i < desc->field_count; i++) {
        const struct cay_pb_field *field = &desc->fields[i];
        const void *slot = cay_pb_const_slot(message, field);
        if (field->label == CAY_PB_REPEATED || field->label == CAY_PB_MAP) {
            size += list_size(sizer, field, CAY_PB_LOAD(struct cay_pb_list, slot));
            continue;
        }
        if (!cay_pb_is_present(message, field))
            continue;
        size += varint_size((uint64_t)field->number << 3);
        if (field->type == CAY_PB_MESSAGE)
            size += submessage_size(sizer, field->message, CAY_PB_LOAD(const void *, slot));
        else
            size += scalar_size(field->type, slot);
    }
    sizer->depth--;
    return size;
}

/* All put_ functions write what ends at `at` and return where it starts. */

static char *put_varint(char *at, uint64_t value)
{
    size_t size = varint_size(value);
    at -= size;
    for (size_t i = 0; i + 1 < size; i++, value >>= 7)
        at[i] = (char)(value | 0x80);
    at[size - 1] = (char)value;
    return at;
}

static char *put_tag(char *at, uint32_t number, unsigned wire)
{
    return put_varint(at, (uint64_t)number << 3 | wire);
}

static char *put_text(char *at, uint8_t type, struct cay_str text)
{
    size_t len = text.len;
    if (type == CAY_PB_BYTES || cay_utf8_valid(text)) {
        at -= len;
        if (len)
            memcpy(at, text.ptr, len);
    } else {
        len = cay_utf8_repaired_len(text);
        at -= len;
        cay_utf8_repair(text, at);
    }
    return put_varint(at, len);
}

static char *put_scalar(char *at, uint8_t type, const void *slot)
{
    switch (cay_pb_wire_of(type)) {
    case CAY_PB_WIRE_VARINT: return put_varint(at, varint_value(type, slot));
    case CAY_PB_WIRE_64: {
        uint64_t value = htole64(CAY_PB_LOAD(uint64_t, slot));
        return memcpy(at - sizeof(value), &value, sizeof(value));
    }
    case CAY_PB_WIRE_32: {
        uint32_t value = htole32(CAY_PB_LOAD(uint32_t, slot));
        return memcpy(at - sizeof(value), &value, sizeof(value));
    }
    case CAY_PB_WIRE_BYTES: break;
    }
    return put_text(at, type, CAY_PB_LOAD(struct cay_str, slot));
}

static char *put_submessage(char *at, const struct cay_pb_message *desc, const void *message)
{
    char *end = at;
    if (message)
        at = put_message(at, desc, message);
    return put_varint(at, (uint64_t)(end - at));
}

static char *put_value(char *at, const struct cay_pb_field *field, const void *slot)
{
    if (field->type == CAY_PB_MESSAGE)
        at = put_submessage(at, field->message, CAY_PB_LOAD(const void *, slot));
    else
        at = put_scalar(at, field->type, slot);
    return put_tag(at, field->number, cay_pb_wire_of(field->type));
}

static char *put_entry(char *at, const struct cay_pb_message *desc, const void *entry)
{
    char *end = at;
    at = put_value(at, &desc->fields[1], cay_pb_const_slot(entry, &desc->fields[1]));
    at = put_value(at, &desc->fields[0], cay_pb_const_slot(entry, &desc->fields[0]));
    return put_varint(at, (uint64_t)(end - at));
}

static char *put_list(char *at, const struct cay_pb_field *field, struct cay_pb_list list)
{
    char *end = at;
    size_t item_size = cay_pb_item_size(field);
    bool packed = field->flags & CAY_PB_PACKED;
    for (size_t i = list.count; i-- > 0;) {
        const char *item = (const char *)list.items + i * item_size;
        if (field->label == CAY_PB_MAP)
            at = put_entry(at, field->message, item);
        else if (field->type == CAY_PB_MESSAGE)
            at = put_submessage(at, field->message, item);
        else
            at = put_scalar(at, field->type, item);
        if (!packed)
            at = put_tag(at, field->number, cay_pb_wire_of(field->type));
    }
    if (packed && list.count)
        at = put_tag(put_varint(at, (uint64_t)(end - at)), field->number, CAY_PB_WIRE_BYTES);
    return at;
}

static char *put_message(char *at, const struct cay_pb_message *desc, const void *message)
{
    for (size_t i = desc->field_count; i-- > 0;) {
        const struct cay_pb_field *field = &desc->fields[i];
        const void *slot = cay_pb_const_slot(message, field);
        if (field->label == CAY_PB_REPEATED || field->label == CAY_PB_MAP)
            at = put_list(at, field, CAY_PB_LOAD(struct cay_pb_list, slot));
        else if (cay_pb_is_present(message, field))
            at = put_value(at, field, slot);
    }
    return at;
}

int64_t cay_pb_encoded_size(const struct cay_pb_message *desc, const void *message)
{
    struct sizer sizer = {};
    size_t size = message_size(&sizer, desc, message);
    return sizer.too_deep || size > CAY_PB_SIZE_MAX ? -EMSGSIZE : (int64_t)size;
}

int cay_pb_encode(const struct cay_pb_message *desc, const void *message, struct cay_buf *buf)
{
    int64_t size = cay_pb_encoded_size(desc, message);
    if (size < 0)
        return (int)size;
    if (size == 0)
        return buf->failed ? -ENOBUFS : 0;
    char *room = cay_buf_reserve(buf, (size_t)size);
    if (!room)
        return -ENOBUFS;
    char *start = put_message(room + size, desc, message);
    assert(start == room);
    cay_buf_grew(buf, (size_t)size);
    return 0;
}

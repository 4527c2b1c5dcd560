/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/pb/pb.h"

#include <endian.h>
#include <errno.h>

#include "base/utf8.h"
#include "wire/pb/pb_internal.h"

/* What is left to read. Moves forward only. */
struct span {
    const unsigned char *at;
    const unsigned char *end;
};

struct decoder {
    struct cay_arena *arena;
    unsigned depth;
    bool maps_may_repeat; /* a map got a second entry; keys are made unique at the end */
};

static int decode_message(struct decoder *decoder, const struct cay_pb_message *desc,
                          struct span in, void *message);

static size_t span_len(struct span in)
{
    return (size_t)(in.end - in.at);
}

static bool read_varint_slow(struct span *in, uint64_t *out_value)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && in->at < in->end; shift += 7) {
        unsigned char byte = *in->at++;
        if (shift == 63 && byte > 1)
            return false;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *out_value = value;
            return true;
        }
    }
    return false;
}

static inline bool read_varint(struct span *in, uint64_t *out_value)
{
    if (in->at < in->end && *in->at < 0x80) {
        *out_value = *in->at++;
        return true;
    }
    return read_varint_slow(in, out_value);
}

static bool read_length(struct span *in, struct span *out_part)
{
    uint64_t len = 0;
    if (!read_varint(in, &len) || len > span_len(*in))
        return false;
    *out_part = (struct span){in->at, in->at + len};
    in->at += len;
    return true;
}

static bool read_fixed(struct span *in, size_t size, void *out)
{
    if (span_len(*in) < size)
        return false;
    memcpy(out, in->at, size);
    in->at += size;
    return true;
}

static bool read_varint_into(struct span *in, uint8_t type, void *slot)
{
    uint64_t value = 0;
    if (!read_varint(in, &value))
        return false;
    if (type == CAY_PB_BOOL)
        CAY_PB_STORE(bool, slot, value != 0);
    else if (type == CAY_PB_SINT32)
        CAY_PB_STORE(uint32_t, slot, (uint32_t)value >> 1 ^ (0 - ((uint32_t)value & 1)));
    else if (type == CAY_PB_SINT64)
        CAY_PB_STORE(uint64_t, slot, value >> 1 ^ (0 - (value & 1)));
    else if (cay_pb_scalar_size(type) == 4)
        CAY_PB_STORE(uint32_t, slot, (uint32_t)value);
    else
        CAY_PB_STORE(uint64_t, slot, value);
    return true;
}

/* One value that is not a message. */
static bool read_scalar(struct span *in, uint8_t type, void *slot)
{
    struct span part;
    struct cay_str text;
    uint64_t wide = 0;
    uint32_t narrow = 0;
    switch (cay_pb_wire_of(type)) {
    case CAY_PB_WIRE_VARINT: return read_varint_into(in, type, slot);
    case CAY_PB_WIRE_64:
        if (!read_fixed(in, sizeof(wide), &wide))
            return false;
        CAY_PB_STORE(uint64_t, slot, le64toh(wide));
        return true;
    case CAY_PB_WIRE_32:
        if (!read_fixed(in, sizeof(narrow), &narrow))
            return false;
        CAY_PB_STORE(uint32_t, slot, le32toh(narrow));
        return true;
    case CAY_PB_WIRE_BYTES: break;
    }
    if (!read_length(in, &part))
        return false;
    text = (struct cay_str){(const char *)part.at, span_len(part)};
    if (type == CAY_PB_STRING && !cay_utf8_valid(text))
        return false;
    CAY_PB_STORE(struct cay_str, slot, text);
    return true;
}

static int skip_field(struct span *in, unsigned wire)
{
    uint64_t value = 0;
    struct span part;
    bool ok = false;
    switch (wire) {
    case CAY_PB_WIRE_VARINT: ok = read_varint(in, &value); break;
    case CAY_PB_WIRE_64: ok = read_fixed(in, 8, &value); break;
    case CAY_PB_WIRE_32: ok = read_fixed(in, 4, &value); break;
    case CAY_PB_WIRE_BYTES: ok = read_length(in, &part); break;
    default: break; /* groups are older than proto3; 6 and 7 never existed */
    }
    return ok ? 0 : -EBADMSG;
}

/* A message that comes in several pieces is merged, as the format demands. */
static int read_submessage(struct decoder *decoder, const struct cay_pb_message *desc,
                           struct span *in, void **message)
{
    struct span part;
    if (!read_length(in, &part))
        return -EBADMSG;
    if (!*message)
        *message = cay_arena_alloc(decoder->arena, desc->size_bytes);
    if (!*message)
        return -ENOMEM;
    return decode_message(decoder, desc, part, *message);
}

static int read_single(struct decoder *decoder, const struct cay_pb_field *field, struct span *in,
                       void *message)
{
    void *slot = cay_pb_slot(message, field);
    if (field->type != CAY_PB_MESSAGE) {
        if (!read_scalar(in, field->type, slot))
            return -EBADMSG;
        cay_pb_set_present(message, field);
        return 0;
    }
    /* The union may hold another member of the oneof. */
    bool other = field->label == CAY_PB_ONEOF && !cay_pb_is_present(message, field);
    void *sub = other ? NULL : CAY_PB_LOAD(void *, slot);
    int r = read_submessage(decoder, field->message, in, &sub);
    CAY_PB_STORE(void *, slot, sub);
    cay_pb_set_present(message, field);
    return r;
}

/* How many values a packed field holds; also checks that the last one is whole. */
static bool count_packed(struct span in, uint8_t type, size_t *out_count)
{
    enum cay_pb_wire wire = cay_pb_wire_of(type);
    size_t len = span_len(in);
    if (wire != CAY_PB_WIRE_VARINT) {
        size_t size = wire == CAY_PB_WIRE_64 ? 8 : 4;
        *out_count = len / size;
        return len % size == 0;
    }
    size_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += in.at[i] < 0x80;
    *out_count = count;
    return !len || in.end[-1] < 0x80;
}

static int read_packed(struct decoder *decoder, const struct cay_pb_field *field, struct span *in,
                       struct cay_pb_list *list)
{
    struct span part;
    size_t count = 0;
    if (!read_length(in, &part) || !count_packed(part, field->type, &count))
        return -EBADMSG;
    if (!count)
        return 0;
    size_t size = cay_pb_scalar_size(field->type);
    char *item = cay_pb_list_grow(list, size, count, decoder->arena);
    if (!item)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++, item += size) {
        if (!read_scalar(&part, field->type, item))
            return -EBADMSG;
    }
    list->count += count;
    return 0;
}

/* An entry is a message of its own with fields 1 and 2, either of which may be missing. */
static int read_entry(struct decoder *decoder, const struct cay_pb_message *desc, struct span *in,
                      void *entry)
{
    struct span part;
    if (!read_length(in, &part))
        return -EBADMSG;
    decoder->depth--;
    int r = decode_message(decoder, desc, part, entry);
    decoder->depth++;
    const struct cay_pb_field *value = &desc->fields[1];
    if (r < 0 || value->type != CAY_PB_MESSAGE)
        return r;
    void *slot = cay_pb_slot(entry, value);
    if (CAY_PB_LOAD(void *, slot))
        return 0;
    void *empty = cay_arena_alloc(decoder->arena, value->message->size_bytes);
    CAY_PB_STORE(void *, slot, empty);
    return empty ? 0 : -ENOMEM;
}

static int read_repeated(struct decoder *decoder, const struct cay_pb_field *field, struct span *in,
                         unsigned wire, struct cay_pb_list *list)
{
    if (wire == CAY_PB_WIRE_BYTES && cay_pb_wire_of(field->type) != CAY_PB_WIRE_BYTES)
        return read_packed(decoder, field, in, list);
    void *item = cay_pb_list_grow(list, cay_pb_item_size(field), 1, decoder->arena);
    if (!item)
        return -ENOMEM;
    int r = 0;
    if (field->label == CAY_PB_MAP)
        r = read_entry(decoder, field->message, in, item);
    else if (field->type == CAY_PB_MESSAGE)
        r = read_submessage(decoder, field->message, in, &item);
    else
        r = read_scalar(in, field->type, item) ? 0 : -EBADMSG;
    list->count += r == 0;
    decoder->maps_may_repeat |= field->label == CAY_PB_MAP && list->count > 1;
    return r;
}

static int read_field(struct decoder *decoder, const struct cay_pb_field *field, struct span *in,
                      unsigned wire, void *message)
{
    bool repeated = field->label == CAY_PB_REPEATED || field->label == CAY_PB_MAP;
    /* A known number with another type of value counts as unknown. */
    if (wire != cay_pb_wire_of(field->type) && !(repeated && wire == CAY_PB_WIRE_BYTES))
        return skip_field(in, wire);
    if (!repeated)
        return read_single(decoder, field, in, message);
    void *slot = cay_pb_slot(message, field);
    struct cay_pb_list list = CAY_PB_LOAD(struct cay_pb_list, slot);
    int r = read_repeated(decoder, field, in, wire, &list);
    CAY_PB_STORE(struct cay_pb_list, slot, list);
    return r;
}

static int decode_message(struct decoder *decoder, const struct cay_pb_message *desc,
                          struct span in, void *message)
{
    if (decoder->depth == CAY_PB_DEPTH_MAX)
        return -EBADMSG;
    decoder->depth++;
    while (in.at < in.end) {
        uint64_t tag = 0;
        if (!read_varint(&in, &tag) || tag > UINT32_MAX || tag < 8)
            return -EBADMSG;
        const struct cay_pb_field *field = cay_pb_field_by_number(desc, (uint32_t)tag >> 3);
        int r =
            field ? read_field(decoder, field, &in, tag & 7, message) : skip_field(&in, tag & 7);
        if (r < 0)
            return r;
    }
    decoder->depth--;
    return 0;
}

/* Only now, in one walk: doing it at the end of each piece of a merged message would let a peer
 * make us sort the same map again and again. Reading has bounded the depth. */
static int make_keys_unique(const struct cay_pb_message *desc, void *message)
{
    for (size_t i = 0; i < desc->field_count; i++) {
        const struct cay_pb_field *field = &desc->fields[i];
        void *slot = cay_pb_slot(message, field);
        int r = 0;
        if (field->type != CAY_PB_MESSAGE)
            continue;
        if (field->label == CAY_PB_REPEATED || field->label == CAY_PB_MAP) {
            struct cay_pb_list list = CAY_PB_LOAD(struct cay_pb_list, slot);
            if (field->label == CAY_PB_MAP)
                r = cay_pb_map_unique(field->message, &list);
            for (size_t at = 0; at < list.count && r == 0; at++)
                r = make_keys_unique(field->message,
                                     (char *)list.items + at * field->message->size_bytes);
            CAY_PB_STORE(struct cay_pb_list, slot, list);
        } else if (cay_pb_is_present(message, field)) {
            r = make_keys_unique(field->message, CAY_PB_LOAD(void *, slot));
        }
        if (r < 0)
            return r;
    }
    return 0;
}

int cay_pb_decode(const struct cay_pb_message *desc, struct cay_str bytes, struct cay_arena *arena,
                  void *out_message)
{
    struct decoder decoder = {.arena = arena};
    const unsigned char *at = (const unsigned char *)(bytes.len ? bytes.ptr : "");
    memset(out_message, 0, desc->size_bytes);
    if (bytes.len > CAY_PB_SIZE_MAX)
        return -EBADMSG;
    int r = decode_message(&decoder, desc, (struct span){at, at + bytes.len}, out_message);
    if (r == 0 && decoder.maps_may_repeat)
        r = make_keys_unique(desc, out_message);
    return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/pb/pb.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "wire/pb/pb_json_internal.h"

enum { ANY_DECODED_BYTES_MAX = 16 * 1024 * 1024 };

static void write_enum(struct cay_pb_writer *writer, const struct cay_pb_enum *enumeration,
                       int32_t number)
{
    const char *name = cay_pb_enum_name(enumeration, number);
    if (enumeration->is_null_value)
        cay_json_null(&writer->json);
    else if (name)
        cay_json_text(&writer->json, name);
    else
        cay_json_i64(&writer->json, number);
}

/* 64-bit numbers are strings, because JavaScript would round them. */
static void write_quoted(struct cay_pb_writer *writer, bool is_signed, const void *slot)
{
    char text[24];
    if (is_signed)
        snprintf(text, sizeof(text), "\"%" PRId64 "\"", CAY_PB_LOAD(int64_t, slot));
    else
        snprintf(text, sizeof(text), "\"%" PRIu64 "\"", CAY_PB_LOAD(uint64_t, slot));
    cay_json_raw(&writer->json, cay_str(text));
}

void cay_pb_write_scalar(struct cay_pb_writer *writer, const struct cay_pb_field *field,
                         const void *slot)
{
    struct cay_json_writer *json = &writer->json;
    switch ((enum cay_pb_type)field->type) {
    case CAY_PB_DOUBLE: cay_json_double(json, CAY_PB_LOAD(double, slot)); break;
    case CAY_PB_FLOAT: cay_json_float(json, CAY_PB_LOAD(float, slot)); break;
    case CAY_PB_INT64:
    case CAY_PB_SINT64:
    case CAY_PB_SFIXED64: write_quoted(writer, true, slot); break;
    case CAY_PB_UINT64:
    case CAY_PB_FIXED64: write_quoted(writer, false, slot); break;
    case CAY_PB_INT32:
    case CAY_PB_SINT32:
    case CAY_PB_SFIXED32: cay_json_i64(json, CAY_PB_LOAD(int32_t, slot)); break;
    case CAY_PB_UINT32:
    case CAY_PB_FIXED32: cay_json_u64(json, CAY_PB_LOAD(uint32_t, slot)); break;
    case CAY_PB_BOOL: cay_json_bool(json, CAY_PB_LOAD(bool, slot)); break;
    case CAY_PB_STRING: cay_json_string(json, CAY_PB_LOAD(struct cay_str, slot)); break;
    case CAY_PB_BYTES: cay_json_base64(json, CAY_PB_LOAD(struct cay_str, slot)); break;
    case CAY_PB_ENUM: write_enum(writer, field->enumeration, CAY_PB_LOAD(int32_t, slot)); break;
    case CAY_PB_MESSAGE: break;
    }
}

static void write_map_key(struct cay_pb_writer *writer, const struct cay_pb_field *key,
                          const void *slot)
{
    char text[24] = {};
    switch (key->type) {
    case CAY_PB_STRING: cay_json_key_str(&writer->json, CAY_PB_LOAD(struct cay_str, slot)); return;
    case CAY_PB_BOOL:
        cay_json_key(&writer->json, CAY_PB_LOAD(bool, slot) ? "true" : "false");
        return;
    case CAY_PB_UINT32:
    case CAY_PB_FIXED32:
        snprintf(text, sizeof(text), "%" PRIu32, CAY_PB_LOAD(uint32_t, slot));
        break;
    case CAY_PB_INT32:
    case CAY_PB_SINT32:
    case CAY_PB_SFIXED32:
        snprintf(text, sizeof(text), "%" PRId32, CAY_PB_LOAD(int32_t, slot));
        break;
    case CAY_PB_UINT64:
    case CAY_PB_FIXED64:
        snprintf(text, sizeof(text), "%" PRIu64, CAY_PB_LOAD(uint64_t, slot));
        break;
    default: snprintf(text, sizeof(text), "%" PRId64, CAY_PB_LOAD(int64_t, slot)); break;
    }
    cay_json_key(&writer->json, text);
}

static int write_value(struct cay_pb_writer *writer, const struct cay_pb_field *field,
                       const void *slot)
{
    if (field->type == CAY_PB_MESSAGE)
        return cay_pb_write_message(writer, field->message, CAY_PB_LOAD(const void *, slot));
    cay_pb_write_scalar(writer, field, slot);
    return 0;
}

static int write_map(struct cay_pb_writer *writer, const struct cay_pb_message *entry,
                     struct cay_pb_list map)
{
    const struct cay_pb_field *key = &entry->fields[0];
    const struct cay_pb_field *value = &entry->fields[1];
    cay_json_object_begin(&writer->json);
    for (size_t i = 0; i < map.count; i++) {
        const char *item = (const char *)map.items + i * entry->size_bytes;
        write_map_key(writer, key, cay_pb_const_slot(item, key));
        int r = write_value(writer, value, cay_pb_const_slot(item, value));
        if (r < 0)
            return r;
    }
    cay_json_object_end(&writer->json);
    return 0;
}

static int write_array(struct cay_pb_writer *writer, const struct cay_pb_field *field,
                       struct cay_pb_list list)
{
    size_t item_size = cay_pb_item_size(field);
    cay_json_array_begin(&writer->json);
    for (size_t i = 0; i < list.count; i++) {
        const char *item = (const char *)list.items + i * item_size;
        int r = 0;
        if (field->type == CAY_PB_MESSAGE)
            r = cay_pb_write_message(writer, field->message, item);
        else
            cay_pb_write_scalar(writer, field, item);
        if (r < 0)
            return r;
    }
    cay_json_array_end(&writer->json);
    return 0;
}

int cay_pb_write_members(struct cay_pb_writer *writer, const struct cay_pb_message *desc,
                         const void *message)
{
    for (size_t i = 0; i < desc->field_count; i++) {
        const struct cay_pb_field *field = &desc->fields[i];
        const void *slot = cay_pb_const_slot(message, field);
        bool is_list = field->label == CAY_PB_REPEATED || field->label == CAY_PB_MAP;
        struct cay_pb_list list =
            is_list ? CAY_PB_LOAD(struct cay_pb_list, slot) : (struct cay_pb_list){};
        if (is_list ? !list.count : !cay_pb_is_present(message, field))
            continue;
        int r = 0;
        cay_json_key_str(&writer->json, (struct cay_str){field->json_name, field->json_name_len});
        if (field->label == CAY_PB_MAP)
            r = write_map(writer, field->message, list);
        else if (field->label == CAY_PB_REPEATED)
            r = write_array(writer, field, list);
        else
            r = write_value(writer, field, slot);
        if (r < 0)
            return r;
    }
    return 0;
}

/* NULL, which a map's value or a oneof may be, is written as the empty message. */
int cay_pb_write_message(struct cay_pb_writer *writer, const struct cay_pb_message *desc,
                         const void *message)
{
    int r = 0;
    if (writer->depth == CAY_PB_DEPTH_MAX)
        return -EMSGSIZE;
    if (writer->json.buf->failed)
        return -ENOBUFS;
    writer->depth++;
    if (desc->form != CAY_PB_FORM_PLAIN) {
        r = cay_pb_write_form(writer, desc, message);
    } else {
        cay_json_object_begin(&writer->json);
        r = message ? cay_pb_write_members(writer, desc, message) : 0;
        cay_json_object_end(&writer->json);
    }
    writer->depth--;
    return r;
}

int cay_pb_json_write(const struct cay_pb_message *desc, const void *message,
                      const struct cay_pb_json_options *options, struct cay_buf *buf)
{
    static const struct cay_pb_json_options defaults;
    struct cay_pb_writer writer = {
        .json.buf = buf,
        .options = options ? options : &defaults,
        .arena.size_bytes_max = ANY_DECODED_BYTES_MAX,
    };
    size_t len = buf->len;
    int r = cay_pb_write_message(&writer, desc, message);
    if (r == 0 && buf->failed)
        r = -ENOBUFS;
    cay_arena_finish(&writer.arena);
    if (r < 0)
        buf->len = len; /* half a message is of no use to anybody */
    return r;
}

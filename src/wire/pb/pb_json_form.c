/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <math.h>

#include "wire/pb/pb_json_internal.h"
#include "wire/pb/pb_wkt.h"

/*
 * The messages whose JSON is not an object of their fields: times, masks, wrappers, and the ones
 * that hold JSON of any shape. Any has a file of its own.
 */

static int read_text_form(struct cay_pb_reader *reader, const struct cay_pb_message *desc,
                          void *message)
{
    struct cay_str text = reader->json.text;
    const char *what = NULL;
    int r = 0;
    if (desc->form == CAY_PB_FORM_TIMESTAMP) {
        what = "a time such as \"2024-01-31T12:00:00Z\"";
        if (reader->json.token == CAY_JSON_STRING)
            r = cay_pb_timestamp_parse(text, message);
    } else if (desc->form == CAY_PB_FORM_DURATION) {
        what = "a duration such as \"1.5s\"";
        if (reader->json.token == CAY_JSON_STRING)
            r = cay_pb_duration_parse(text, message);
    } else {
        what = "field paths such as \"name,limits.memoryBytes\"";
        if (reader->json.token == CAY_JSON_STRING)
            r = cay_pb_field_mask_parse(text, reader->arena, message);
    }
    if (reader->json.token != CAY_JSON_STRING)
        return cay_pb_reader_expected(reader, what);
    if (r == -ENOMEM)
        return cay_pb_reader_no_memory(reader);
    if (r < 0)
        return cay_pb_reader_fail(reader, "expected %s%s", what,
                                  r == -ERANGE ? "; this one is out of range" : "");
    return 0;
}

static int read_list_value(struct cay_pb_reader *reader, struct google_protobuf_list_value *message)
{
    struct cay_pb_list list = {};
    if (reader->json.token != CAY_JSON_ARRAY_BEGIN)
        return cay_pb_reader_expected(reader, "an array");
    while (cay_json_next(&reader->json) != CAY_JSON_ARRAY_END) {
        if (reader->json.token == CAY_JSON_ERROR)
            return cay_pb_reader_expected(reader, "a value");
        struct google_protobuf_value *item =
            cay_pb_list_grow(&list, sizeof(*item), 1, reader->arena);
        if (!item)
            return cay_pb_reader_no_memory(reader);
        int r = cay_pb_read_message(reader, &google_protobuf_value_desc, item);
        if (r < 0)
            return r;
        list.count++;
    }
    message->values = (struct google_protobuf_value_array){list.items, list.count};
    return 0;
}

static int read_submessage(struct cay_pb_reader *reader, const struct cay_pb_message *desc,
                           void **out_message)
{
    *out_message = cay_arena_alloc(reader->arena, desc->size_bytes);
    if (!*out_message)
        return cay_pb_reader_no_memory(reader);
    return cay_pb_read_message(reader, desc, *out_message);
}

static int read_struct(struct cay_pb_reader *reader, struct google_protobuf_struct *message)
{
    struct cay_pb_list list = {};
    if (reader->json.token != CAY_JSON_OBJECT_BEGIN)
        return cay_pb_reader_expected(reader, "an object");
    while (cay_json_next(&reader->json) == CAY_JSON_KEY) {
        struct google_protobuf_struct_fields_entry *entry =
            cay_pb_list_grow(&list, sizeof(*entry), 1, reader->arena);
        void *value = NULL;
        if (!entry)
            return cay_pb_reader_no_memory(reader);
        entry->key = reader->json.text;
        cay_json_next(&reader->json);
        int r = read_submessage(reader, &google_protobuf_value_desc, &value);
        if (r < 0)
            return r;
        entry->value = value;
        list.count++;
    }
    if (reader->json.token != CAY_JSON_OBJECT_END)
        return cay_pb_reader_expected(reader, "a key");
    size_t count = list.count;
    if (cay_pb_map_unique(&google_protobuf_struct_fields_entry_desc, &list) < 0)
        return cay_pb_reader_no_memory(reader);
    if (list.count != count)
        return cay_pb_reader_fail(reader, "a key is there twice");
    message->fields = (struct google_protobuf_struct_fields_entry_array){list.items, list.count};
    return 0;
}

static int read_value(struct cay_pb_reader *reader, struct google_protobuf_value *message)
{
    void *sub = NULL;
    int r = 0;
    switch (reader->json.token) {
    case CAY_JSON_NULL: message->which_kind = GOOGLE_PROTOBUF_VALUE_KIND_NULL_VALUE; return 0;
    case CAY_JSON_TRUE:
    case CAY_JSON_FALSE:
        message->which_kind = GOOGLE_PROTOBUF_VALUE_KIND_BOOL_VALUE;
        message->kind.bool_value = reader->json.token == CAY_JSON_TRUE;
        return 0;
    case CAY_JSON_NUMBER:
        message->which_kind = GOOGLE_PROTOBUF_VALUE_KIND_NUMBER_VALUE;
        if (cay_json_to_double(reader->json.text, &message->kind.number_value) < 0)
            return cay_pb_reader_fail(reader, "the number is out of range");
        return 0;
    case CAY_JSON_STRING:
        message->which_kind = GOOGLE_PROTOBUF_VALUE_KIND_STRING_VALUE;
        message->kind.string_value = reader->json.text;
        return 0;
    case CAY_JSON_OBJECT_BEGIN:
        r = read_submessage(reader, &google_protobuf_struct_desc, &sub);
        message->which_kind = GOOGLE_PROTOBUF_VALUE_KIND_STRUCT_VALUE;
        message->kind.struct_value = sub;
        return r;
    case CAY_JSON_ARRAY_BEGIN:
        r = read_submessage(reader, &google_protobuf_list_value_desc, &sub);
        message->which_kind = GOOGLE_PROTOBUF_VALUE_KIND_LIST_VALUE;
        message->kind.list_value = sub;
        return r;
    case CAY_JSON_ERROR:
    case CAY_JSON_END:
    case CAY_JSON_OBJECT_END:
    case CAY_JSON_ARRAY_END:
    case CAY_JSON_KEY: break;
    }
    return cay_pb_reader_expected(reader, "a value");
}

int cay_pb_read_form(struct cay_pb_reader *reader, const struct cay_pb_message *desc, void *message)
{
    switch ((enum cay_pb_form)desc->form) {
    case CAY_PB_FORM_TIMESTAMP:
    case CAY_PB_FORM_DURATION:
    case CAY_PB_FORM_FIELD_MASK: return read_text_form(reader, desc, message);
    case CAY_PB_FORM_STRUCT: return read_struct(reader, message);
    case CAY_PB_FORM_VALUE: return read_value(reader, message);
    case CAY_PB_FORM_LIST_VALUE: return read_list_value(reader, message);
    case CAY_PB_FORM_WRAPPER:
        return cay_pb_read_scalar(reader, &desc->fields[0], cay_pb_slot(message, &desc->fields[0]));
    case CAY_PB_FORM_ANY: return cay_pb_read_any(reader, message);
    case CAY_PB_FORM_PLAIN: break;
    }
    assert(!"a plain message has no form of its own");
    return -EBADMSG;
}

static int write_struct(struct cay_pb_writer *writer, const struct google_protobuf_struct *message)
{
    cay_json_object_begin(&writer->json);
    for (size_t i = 0; i < message->fields.count; i++) {
        const struct google_protobuf_struct_fields_entry *entry = &message->fields.items[i];
        cay_json_key_str(&writer->json, entry->key);
        int r = cay_pb_write_message(writer, &google_protobuf_value_desc, entry->value);
        if (r < 0)
            return r;
    }
    cay_json_object_end(&writer->json);
    return 0;
}

static int write_list_value(struct cay_pb_writer *writer,
                            const struct google_protobuf_list_value *message)
{
    cay_json_array_begin(&writer->json);
    for (size_t i = 0; i < message->values.count; i++) {
        int r =
            cay_pb_write_message(writer, &google_protobuf_value_desc, &message->values.items[i]);
        if (r < 0)
            return r;
    }
    cay_json_array_end(&writer->json);
    return 0;
}

static int write_value(struct cay_pb_writer *writer, const struct google_protobuf_value *message)
{
    switch (message->which_kind) {
    case GOOGLE_PROTOBUF_VALUE_KIND_NUMBER_VALUE:
        if (!isfinite(message->kind.number_value))
            return -EINVAL;
        cay_json_double(&writer->json, message->kind.number_value);
        return 0;
    case GOOGLE_PROTOBUF_VALUE_KIND_STRING_VALUE:
        cay_json_string(&writer->json, message->kind.string_value);
        return 0;
    case GOOGLE_PROTOBUF_VALUE_KIND_BOOL_VALUE:
        cay_json_bool(&writer->json, message->kind.bool_value);
        return 0;
    case GOOGLE_PROTOBUF_VALUE_KIND_STRUCT_VALUE:
        return cay_pb_write_message(writer, &google_protobuf_struct_desc,
                                    message->kind.struct_value);
    case GOOGLE_PROTOBUF_VALUE_KIND_LIST_VALUE:
        return cay_pb_write_message(writer, &google_protobuf_list_value_desc,
                                    message->kind.list_value);
    case GOOGLE_PROTOBUF_VALUE_KIND_NULL_VALUE:
    case GOOGLE_PROTOBUF_VALUE_KIND_NOT_SET: break;
    }
    cay_json_null(&writer->json);
    return 0;
}

static int write_text_form(struct cay_pb_writer *writer, const struct cay_pb_message *desc,
                           const void *message)
{
    char text[CAY_PB_TIME_TEXT_MAX];
    int r = desc->form == CAY_PB_FORM_TIMESTAMP ? cay_pb_timestamp_format(message, text)
                                                : cay_pb_duration_format(message, text);
    if (r < 0)
        return -EINVAL;
    cay_json_text(&writer->json, text);
    return 0;
}

static int write_field_mask(struct cay_pb_writer *writer,
                            const struct google_protobuf_field_mask *message)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, writer->json.buf->size_bytes_max);
    int r = cay_pb_field_mask_format(message, &text);
    if (r == 0)
        cay_json_string(&writer->json, cay_buf_str(&text));
    return r < 0 ? r : text.failed ? -ENOBUFS : 0;
}

int cay_pb_write_form(struct cay_pb_writer *writer, const struct cay_pb_message *desc,
                      const void *message)
{
    /* An absent message is written as an empty one; this is large enough for every form. */
    static const union {
        struct google_protobuf_timestamp timestamp;
        struct google_protobuf_any any;
        struct google_protobuf_value value;
        struct google_protobuf_struct fields;
        struct google_protobuf_list_value list;
        struct google_protobuf_field_mask mask;
        struct google_protobuf_duration duration;
        struct google_protobuf_string_value wrapper;
    } empty;
    const void *slot = message ? message : &empty;
    switch ((enum cay_pb_form)desc->form) {
    case CAY_PB_FORM_TIMESTAMP:
    case CAY_PB_FORM_DURATION: return write_text_form(writer, desc, slot);
    case CAY_PB_FORM_FIELD_MASK: return write_field_mask(writer, slot);
    case CAY_PB_FORM_STRUCT: return write_struct(writer, slot);
    case CAY_PB_FORM_VALUE: return write_value(writer, slot);
    case CAY_PB_FORM_LIST_VALUE: return write_list_value(writer, slot);
    case CAY_PB_FORM_ANY: return cay_pb_write_any(writer, slot);
    case CAY_PB_FORM_WRAPPER:
        cay_pb_write_scalar(writer, &desc->fields[0], cay_pb_const_slot(slot, &desc->fields[0]));
        return 0;
    case CAY_PB_FORM_PLAIN: break;
    }
    assert(!"a plain message has no form of its own");
    return -EINVAL;
}

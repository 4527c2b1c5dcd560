/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/pb/pb.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

#include "base/base64.h"
#include "base/nearest.h"
#include "wire/pb/pb_json_internal.h"

enum {
    KEY_SHOWN_MAX = 32, /* characters of a peer's key in an error text */
    ENUM_VALUES_SHOWN_MAX = 64,
    CAY_PB_GUESS_BYTES = 96,
};

/* What a peer sent, fit for an error text: printable ASCII, not long. */
static const char *shown(struct cay_str text, char out[KEY_SHOWN_MAX + 4])
{
    size_t len = CAY_MIN(text.len, (size_t)KEY_SHOWN_MAX);
    for (size_t i = 0; i < len; i++)
        out[i] = text.ptr[i] >= 0x20 && text.ptr[i] < 0x7F ? text.ptr[i] : '?';
    memcpy(out + len, text.len > len ? "..." : "", text.len > len ? 4 : 1);
    return out;
}

CAY_PRINTF(4, 5)
static size_t print(char *out, size_t size, size_t at, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int len = at < size ? vsnprintf(out + at, size - at, fmt, args) : 0;
    va_end(args);
    return at + (size_t)CAY_MAX(len, 0);
}

/* "limits.env["A"].items[3]" */
static size_t print_path(char *out, size_t size, const struct cay_pb_step *step)
{
    char key[KEY_SHOWN_MAX + 4];
    if (!step)
        return 0;
    size_t at = print_path(out, size, step->up);
    if (step->name)
        return print(out, size, at, "%s%s", at ? "." : "", step->name);
    if (step->key.ptr)
        return print(out, size, at, "[\"%s\"]", shown(step->key, key));
    return print(out, size, at, "[%zu]", step->index);
}

int cay_pb_reader_fail(struct cay_pb_reader *reader, const char *fmt, ...)
{
    va_list args;
    size_t at = print_path(reader->error, reader->error_size, reader->path);
    if (at)
        at = print(reader->error, reader->error_size, at, ": ");
    va_start(args, fmt);
    if (at < reader->error_size)
        vsnprintf(reader->error + at, reader->error_size - at, fmt, args);
    va_end(args);
    return -EBADMSG;
}

int cay_pb_reader_no_memory(struct cay_pb_reader *reader)
{
    (void)cay_pb_reader_fail(reader, "the message needs too much memory");
    return -ENOMEM;
}

int cay_pb_reader_expected(struct cay_pb_reader *reader, const char *what)
{
    if (reader->json.status == -ENOMEM)
        return cay_pb_reader_no_memory(reader);
    if (reader->json.token == CAY_JSON_ERROR)
        return cay_pb_reader_fail(reader, "bad JSON at byte %zu: %s", reader->json.error_at,
                                  reader->json.error);
    return cay_pb_reader_fail(reader, "expected %s, found %s", what,
                              cay_json_token_name(reader->json.token));
}

/* Any integer type: `low` and `high` bound it; unsigned 64-bit numbers are read by themselves. */
static int read_integer(struct cay_pb_reader *reader, int64_t low, int64_t high, int64_t *out_value)
{
    if (reader->json.token != CAY_JSON_NUMBER && reader->json.token != CAY_JSON_STRING)
        return cay_pb_reader_expected(reader, "an integer");
    int r = cay_json_to_i64(reader->json.text, out_value);
    if (r == -EINVAL)
        return cay_pb_reader_fail(reader, "expected an integer, found a %s that is none",
                                  reader->json.token == CAY_JSON_NUMBER ? "number" : "string");
    if (r < 0 || *out_value < low || *out_value > high)
        return cay_pb_reader_fail(reader, "the integer is out of range");
    return 0;
}

static int read_unsigned(struct cay_pb_reader *reader, uint64_t *out_value)
{
    if (reader->json.token != CAY_JSON_NUMBER && reader->json.token != CAY_JSON_STRING)
        return cay_pb_reader_expected(reader, "an integer");
    int r = cay_json_to_u64(reader->json.text, out_value);
    if (r == -EINVAL)
        return cay_pb_reader_fail(reader, "expected an integer, found a %s that is none",
                                  reader->json.token == CAY_JSON_NUMBER ? "number" : "string");
    if (r < 0)
        return cay_pb_reader_fail(reader, "the integer is out of range");
    return 0;
}

static int read_real(struct cay_pb_reader *reader, bool wide, void *slot)
{
    struct cay_str text = reader->json.text;
    double value = 0;
    float narrow = 0;
    if (reader->json.token != CAY_JSON_NUMBER && reader->json.token != CAY_JSON_STRING)
        return cay_pb_reader_expected(reader, "a number");
    int r = 0;
    if (cay_str_is(text, "NaN"))
        value = NAN;
    else if (cay_str_is(text, "Infinity"))
        value = INFINITY;
    else if (cay_str_is(text, "-Infinity"))
        value = -INFINITY;
    else if (wide)
        r = cay_json_to_double(text, &value);
    else
        r = cay_json_to_float(text, &narrow);
    if (r < 0)
        return cay_pb_reader_fail(reader, r == -ERANGE ? "the number is out of range"
                                                       : "expected a number, found a string");
    if (wide)
        CAY_PB_STORE(double, slot, value);
    else
        CAY_PB_STORE(float, slot, value != 0 || isnan(value) ? (float)value : narrow);
    return 0;
}

/* "; did you mean 'x'?", or nothing. */
static const char *guess(struct cay_pb_reader *reader, const char *nearest,
                         char out[CAY_PB_GUESS_BYTES])
{
    out[0] = '\0';
    if (nearest)
        snprintf(out, CAY_PB_GUESS_BYTES, "; did you mean '%s'?", nearest);
    if (reader->options->out_nearest)
        *reader->options->out_nearest = nearest;
    return out;
}

static const char *nearest_value(const struct cay_pb_enum *enumeration, struct cay_str name)
{
    const char *names[ENUM_VALUES_SHOWN_MAX];
    size_t count = CAY_MIN((size_t)enumeration->value_count, CAY_COUNT(names));
    for (size_t i = 0; i < count; i++)
        names[i] = enumeration->values[i].name;
    const char *nearest = cay_nearest(name, names, count);
    /* `PAUSE` stands for EXPIRY_ACTION_PAUSE. */
    for (size_t i = 0; i < count && !nearest; i++) {
        struct cay_str full = cay_str(names[i]);
        if (name.len && full.len > name.len && full.ptr[full.len - name.len - 1] == '_' &&
            strncasecmp(full.ptr + full.len - name.len, name.ptr, name.len) == 0)
            nearest = names[i];
    }
    return nearest;
}

static int read_enum(struct cay_pb_reader *reader, const struct cay_pb_enum *enumeration,
                     int32_t *out_number)
{
    char name[KEY_SHOWN_MAX + 4];
    char meant[CAY_PB_GUESS_BYTES];
    int64_t number = 0;
    if (reader->json.token == CAY_JSON_NULL && enumeration->is_null_value) {
        *out_number = 0;
        return 0;
    }
    if (reader->json.token == CAY_JSON_STRING) {
        if (cay_pb_enum_number(enumeration, reader->json.text, out_number))
            return 0;
        return cay_pb_reader_fail(
            reader, "'%s' is not a value of %s%s", shown(reader->json.text, name),
            enumeration->full_name,
            guess(reader, nearest_value(enumeration, reader->json.text), meant));
    }
    if (reader->json.token != CAY_JSON_NUMBER)
        return cay_pb_reader_expected(reader, "the name of an enum value");
    int r = read_integer(reader, INT32_MIN, INT32_MAX, &number);
    *out_number = (int32_t)number;
    return r;
}

static int read_bytes(struct cay_pb_reader *reader, struct cay_str *out_bytes)
{
    struct cay_str text = reader->json.text;
    if (reader->json.token != CAY_JSON_STRING)
        return cay_pb_reader_expected(reader, "a string of base64");
    char *bytes = cay_arena_alloc(reader->arena, cay_base64_decoded_len_max(text.len));
    if (!bytes)
        return cay_pb_reader_no_memory(reader);
    if (cay_base64_decode(text, bytes, &out_bytes->len) < 0)
        return cay_pb_reader_fail(reader, "the string is not base64");
    out_bytes->ptr = bytes;
    return 0;
}

static int read_integer_into(struct cay_pb_reader *reader, uint8_t type, void *slot)
{
    uint64_t wide = 0;
    int64_t value = 0;
    int r = 0;
    switch (type) {
    case CAY_PB_UINT64:
    case CAY_PB_FIXED64:
        r = read_unsigned(reader, &wide);
        CAY_PB_STORE(uint64_t, slot, wide);
        break;
    case CAY_PB_UINT32:
    case CAY_PB_FIXED32:
        r = read_integer(reader, 0, UINT32_MAX, &value);
        CAY_PB_STORE(uint32_t, slot, (uint32_t)value);
        break;
    case CAY_PB_INT32:
    case CAY_PB_SINT32:
    case CAY_PB_SFIXED32:
        r = read_integer(reader, INT32_MIN, INT32_MAX, &value);
        CAY_PB_STORE(int32_t, slot, (int32_t)value);
        break;
    default:
        r = read_integer(reader, INT64_MIN, INT64_MAX, &value);
        CAY_PB_STORE(int64_t, slot, value);
        break;
    }
    return r;
}

static int read_bool(struct cay_pb_reader *reader, void *slot)
{
    if (reader->json.token != CAY_JSON_TRUE && reader->json.token != CAY_JSON_FALSE)
        return cay_pb_reader_expected(reader, "true or false");
    CAY_PB_STORE(bool, slot, reader->json.token == CAY_JSON_TRUE);
    return 0;
}

int cay_pb_read_scalar(struct cay_pb_reader *reader, const struct cay_pb_field *field, void *slot)
{
    struct cay_str text = {};
    int32_t number = 0;
    int r = 0;
    switch (field->type) {
    case CAY_PB_DOUBLE:
    case CAY_PB_FLOAT: return read_real(reader, field->type == CAY_PB_DOUBLE, slot);
    case CAY_PB_BOOL: return read_bool(reader, slot);
    case CAY_PB_STRING:
        if (reader->json.token != CAY_JSON_STRING)
            return cay_pb_reader_expected(reader, "a string");
        CAY_PB_STORE(struct cay_str, slot, reader->json.text);
        return 0;
    case CAY_PB_BYTES:
        r = read_bytes(reader, &text);
        CAY_PB_STORE(struct cay_str, slot, text);
        return r;
    case CAY_PB_ENUM:
        r = read_enum(reader, field->enumeration, &number);
        CAY_PB_STORE(int32_t, slot, number);
        return r;
    default: return read_integer_into(reader, field->type, slot);
    }
}

/* A singular field's slot, or a map entry's value. */
static int read_value(struct cay_pb_reader *reader, const struct cay_pb_field *field, void *slot)
{
    if (field->type != CAY_PB_MESSAGE)
        return cay_pb_read_scalar(reader, field, slot);
    void *message = cay_arena_alloc(reader->arena, field->message->size_bytes);
    if (!message)
        return cay_pb_reader_no_memory(reader);
    CAY_PB_STORE(void *, slot, message);
    return cay_pb_read_message(reader, field->message, message);
}

/* Where null is a value rather than the absence of one. */
static bool takes_null(const struct cay_pb_field *field)
{
    if (field->type == CAY_PB_MESSAGE)
        return field->message->form == CAY_PB_FORM_VALUE;
    return field->type == CAY_PB_ENUM && field->enumeration->is_null_value;
}

static int read_array(struct cay_pb_reader *reader, const struct cay_pb_field *field,
                      struct cay_pb_list *list)
{
    struct cay_pb_step step = {.up = reader->path};
    if (reader->json.token != CAY_JSON_ARRAY_BEGIN)
        return cay_pb_reader_expected(reader, "an array");
    reader->path = &step;
    while (cay_json_next(&reader->json) != CAY_JSON_ARRAY_END) {
        step.index = list->count;
        if (reader->json.token == CAY_JSON_ERROR)
            return cay_pb_reader_expected(reader, "a value");
        if (reader->json.token == CAY_JSON_NULL && !takes_null(field))
            return cay_pb_reader_fail(reader, "null is not allowed in an array");
        void *item = cay_pb_list_grow(list, cay_pb_item_size(field), 1, reader->arena);
        if (!item)
            return cay_pb_reader_no_memory(reader);
        int r = field->type == CAY_PB_MESSAGE ? cay_pb_read_message(reader, field->message, item)
                                              : cay_pb_read_scalar(reader, field, item);
        if (r < 0)
            return r;
        list->count++;
    }
    reader->path = step.up;
    return 0;
}

/* Keys are strings in JSON whatever their type is. */
static int read_map_key(struct cay_pb_reader *reader, const struct cay_pb_field *key, void *slot)
{
    struct cay_str text = reader->json.text;
    if (key->type == CAY_PB_STRING) {
        CAY_PB_STORE(struct cay_str, slot, text);
        return 0;
    }
    if (key->type != CAY_PB_BOOL)
        return read_integer_into(reader, key->type, slot);
    if (!cay_str_is(text, "true") && !cay_str_is(text, "false"))
        return cay_pb_reader_fail(reader, "the key is neither \"true\" nor \"false\"");
    CAY_PB_STORE(bool, slot, cay_str_is(text, "true"));
    return 0;
}

static int read_map_entry(struct cay_pb_reader *reader, const struct cay_pb_message *desc,
                          void *entry)
{
    const struct cay_pb_field *key = &desc->fields[0];
    const struct cay_pb_field *value = &desc->fields[1];
    struct cay_pb_step step = {.up = reader->path, .key = reader->json.text};
    reader->path = &step;
    reader->json.token = CAY_JSON_STRING;
    int r = read_map_key(reader, key, cay_pb_slot(entry, key));
    if (r < 0)
        return r;
    cay_json_next(&reader->json);
    if (reader->json.token == CAY_JSON_NULL && !takes_null(value))
        return cay_pb_reader_fail(reader, "null is not allowed in a map");
    r = read_value(reader, value, cay_pb_slot(entry, value));
    reader->path = step.up;
    return r;
}

static int read_map(struct cay_pb_reader *reader, const struct cay_pb_message *desc,
                    struct cay_pb_list *map)
{
    if (reader->json.token != CAY_JSON_OBJECT_BEGIN)
        return cay_pb_reader_expected(reader, "an object");
    while (cay_json_next(&reader->json) == CAY_JSON_KEY) {
        void *entry = cay_pb_list_grow(map, desc->size_bytes, 1, reader->arena);
        if (!entry)
            return cay_pb_reader_no_memory(reader);
        int r = read_map_entry(reader, desc, entry);
        if (r < 0)
            return r;
        map->count++;
    }
    if (reader->json.token != CAY_JSON_OBJECT_END)
        return cay_pb_reader_expected(reader, "a key");
    size_t count = map->count;
    if (cay_pb_map_unique(desc, map) < 0)
        return cay_pb_reader_no_memory(reader);
    if (map->count != count)
        return cay_pb_reader_fail(reader, "a key is there twice");
    return 0;
}

static int read_field(struct cay_pb_reader *reader, const struct cay_pb_field *field, void *message)
{
    void *slot = cay_pb_slot(message, field);
    bool is_list = field->label == CAY_PB_REPEATED || field->label == CAY_PB_MAP;
    struct cay_pb_list list = {};
    int r = 0;
    cay_json_next(&reader->json);
    if (reader->json.token == CAY_JSON_NULL && (is_list || !takes_null(field)))
        return 0;
    if (field->label == CAY_PB_ONEOF &&
        CAY_PB_LOAD(uint32_t, (const char *)message + field->presence) != 0)
        return cay_pb_reader_fail(reader, "another field of the same oneof is set already");
    if (!is_list) {
        r = read_value(reader, field, slot);
        cay_pb_set_present(message, field);
        return r;
    }
    if (field->label == CAY_PB_MAP)
        r = read_map(reader, field->message, &list);
    else
        r = read_array(reader, field, &list);
    CAY_PB_STORE(struct cay_pb_list, slot, list);
    return r;
}

static bool is_called(const struct cay_pb_field *field, struct cay_str name)
{
    return (field->json_name_len == name.len &&
            memcmp(field->json_name, name.ptr, name.len) == 0) ||
           (field->name_len == name.len && memcmp(field->name, name.ptr, name.len) == 0);
}

/* Peers send fields mostly in the order of the schema: `hint` is where to look first. */
static const struct cay_pb_field *find_field(const struct cay_pb_message *desc, size_t hint,
                                             struct cay_str name)
{
    for (size_t i = 0; i < desc->field_count; i++) {
        size_t at = hint + i < desc->field_count ? hint + i : hint + i - desc->field_count;
        if (is_called(&desc->fields[at], name))
            return &desc->fields[at];
    }
    return NULL;
}

/* In the peer's own manner of writing: with capitals, or with underscores. */
static const char *nearest_field(const struct cay_pb_message *desc, struct cay_str name)
{
    const char *names[CAY_PB_FIELDS_MAX];
    bool is_camel = false;
    for (size_t i = 0; i < name.len; i++)
        is_camel |= name.ptr[i] >= 'A' && name.ptr[i] <= 'Z';
    for (size_t i = 0; i < desc->field_count; i++)
        names[i] = is_camel ? desc->fields[i].json_name : desc->fields[i].name;
    const char *nearest = cay_nearest(name, names, desc->field_count);
    /* `memory` stands for memory_bytes, `id` for session_id. */
    for (size_t i = 0; i < desc->field_count && !nearest && name.len > 1; i++) {
        struct cay_str full = cay_str(names[i]);
        bool begins = full.len > name.len && full.ptr[name.len] == '_' &&
                      memcmp(full.ptr, name.ptr, name.len) == 0;
        bool ends = full.len > name.len && full.ptr[full.len - name.len - 1] == '_' &&
                    memcmp(full.ptr + full.len - name.len, name.ptr, name.len) == 0;
        if (begins || ends)
            nearest = names[i];
    }
    return nearest;
}

static int read_unknown(struct cay_pb_reader *reader, const struct cay_pb_message *desc, bool any)
{
    char name[KEY_SHOWN_MAX + 4];
    char meant[CAY_PB_GUESS_BYTES];
    bool is_type = any && cay_str_is(reader->json.text, "@type");
    if (reader->options->reject_unknown_fields && !is_type) {
        (void)cay_pb_reader_fail(reader, "there is no field '%s'%s", shown(reader->json.text, name),
                                 guess(reader, nearest_field(desc, reader->json.text), meant));
        return -ENOKEY;
    }
    return cay_json_skip(&reader->json) < 0 ? cay_pb_reader_expected(reader, "a value") : 0;
}

int cay_pb_read_members(struct cay_pb_reader *reader, const struct cay_pb_message *desc,
                        void *message, bool any)
{
    uint64_t seen[CAY_PB_FIELDS_MAX / 64] = {};
    size_t hint = 0;
    int r = 0;
    while (r == 0 && cay_json_next(&reader->json) == CAY_JSON_KEY) {
        const struct cay_pb_field *field = find_field(desc, hint, reader->json.text);
        if (!field) {
            r = read_unknown(reader, desc, any);
            continue;
        }
        struct cay_pb_step step = {.up = reader->path, .name = field->name};
        size_t at = (size_t)(field - desc->fields);
        reader->path = &step;
        if (seen[at / 64] >> (at % 64) & 1)
            return cay_pb_reader_fail(reader, "the field is there twice");
        seen[at / 64] |= (uint64_t)1 << (at % 64);
        hint = at + 1 < desc->field_count ? at + 1 : 0;
        r = read_field(reader, field, message);
        reader->path = step.up;
    }
    if (r == 0 && reader->json.token != CAY_JSON_OBJECT_END)
        return cay_pb_reader_expected(reader, "a key");
    return r;
}

int cay_pb_read_message(struct cay_pb_reader *reader, const struct cay_pb_message *desc,
                        void *message)
{
    int r = 0;
    if (reader->depth == CAY_PB_DEPTH_MAX)
        return cay_pb_reader_fail(reader, "nested too deeply");
    reader->depth++;
    if (desc->form != CAY_PB_FORM_PLAIN)
        r = cay_pb_read_form(reader, desc, message);
    else if (reader->json.token != CAY_JSON_OBJECT_BEGIN)
        r = cay_pb_reader_expected(reader, "an object");
    else
        r = cay_pb_read_members(reader, desc, message, false);
    reader->depth--;
    return r;
}

int cay_pb_json_read(const struct cay_pb_message *desc, struct cay_str text,
                     const struct cay_pb_json_options *options, struct cay_arena *arena,
                     void *out_message, char *out_error, size_t error_size)
{
    static const struct cay_pb_json_options defaults;
    struct cay_pb_reader reader = {
        .options = options ? options : &defaults,
        .arena = arena,
        .error = out_error,
        .error_size = error_size,
    };
    memset(out_message, 0, desc->size_bytes);
    cay_json_reader_init(&reader.json, text, arena);
    cay_json_next(&reader.json);
    int r = cay_pb_read_message(&reader, desc, out_message);
    if (r == 0 && cay_json_next(&reader.json) != CAY_JSON_END)
        r = cay_pb_reader_expected(&reader, "the end");
    return r;
}

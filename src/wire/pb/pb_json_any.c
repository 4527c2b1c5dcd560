/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "wire/pb/google_protobuf.h"
#include "wire/pb/pb_json_internal.h"

/*
 * google.protobuf.Any holds another message as bytes; in JSON it is that message with "@type"
 * beside its fields, or {"@type", "value"} when the message has a form of its own. The types that
 * can be shown this way are the ones the caller names in the options.
 */

static const struct cay_pb_message *find_type(const struct cay_pb_json_options *options,
                                              struct cay_str type_url)
{
    const char *slash = type_url.len ? memrchr(type_url.ptr, '/', type_url.len) : NULL;
    if (!slash)
        return NULL;
    struct cay_str name = {slash + 1, (size_t)(type_url.ptr + type_url.len - slash - 1)};
    for (size_t i = 0; i < options->any_type_count; i++) {
        if (cay_str_is(name, options->any_types[i]->full_name))
            return options->any_types[i];
    }
    return NULL;
}

/* Reads ahead for "@type", which may stand anywhere in the object, and leaves the reader where it
 * was. An object without members is an empty Any: *out_type_url is empty then. */
static int find_type_url(struct cay_pb_reader *reader, struct cay_str *out_type_url)
{
    struct cay_json_reader before = reader->json;
    bool found = false;
    bool members = false;
    while (!found && cay_json_next(&reader->json) == CAY_JSON_KEY) {
        members = true;
        found = cay_str_is(reader->json.text, "@type");
        if (found && cay_json_next(&reader->json) != CAY_JSON_STRING)
            return cay_pb_reader_expected(reader, "a string as \"@type\"");
        if (found)
            *out_type_url = reader->json.text;
        else if (cay_json_skip(&reader->json) < 0)
            return cay_pb_reader_expected(reader, "a value");
    }
    if (reader->json.token == CAY_JSON_ERROR)
        return cay_pb_reader_expected(reader, "a key");
    if (members && !out_type_url->len)
        return cay_pb_reader_fail(reader, "\"@type\" is missing");
    reader->json = before;
    return 0;
}

/* {"@type": ..., "value": ...} */
static int read_wrapped(struct cay_pb_reader *reader, const struct cay_pb_message *desc,
                        void *message)
{
    bool seen = false;
    while (cay_json_next(&reader->json) == CAY_JSON_KEY) {
        int r = 0;
        if (cay_str_is(reader->json.text, "value")) {
            if (seen)
                return cay_pb_reader_fail(reader, "\"value\" is there twice");
            seen = true;
            cay_json_next(&reader->json);
            r = cay_pb_read_message(reader, desc, message);
        } else if (cay_json_skip(&reader->json) < 0) {
            r = cay_pb_reader_expected(reader, "a value");
        }
        if (r < 0)
            return r;
    }
    if (reader->json.token != CAY_JSON_OBJECT_END)
        return cay_pb_reader_expected(reader, "a key");
    return seen ? 0 : cay_pb_reader_fail(reader, "\"value\" is missing");
}

int cay_pb_read_any(struct cay_pb_reader *reader, void *message)
{
    struct google_protobuf_any *any = message;
    if (reader->json.token != CAY_JSON_OBJECT_BEGIN)
        return cay_pb_reader_expected(reader, "an object with \"@type\"");
    int r = find_type_url(reader, &any->type_url);
    if (r < 0)
        return r;
    if (!any->type_url.len)
        return cay_json_next(&reader->json) == CAY_JSON_OBJECT_END ? 0 : -EBADMSG;
    const struct cay_pb_message *desc = find_type(reader->options, any->type_url);
    if (!desc)
        return cay_pb_reader_fail(reader, "the type in \"@type\" is not known here");
    void *value = cay_arena_alloc(reader->arena, desc->size_bytes);
    if (!value)
        return cay_pb_reader_no_memory(reader);
    r = desc->form == CAY_PB_FORM_PLAIN ? cay_pb_read_members(reader, desc, value, true)
                                        : read_wrapped(reader, desc, value);
    if (r < 0)
        return r;
    int64_t size = cay_pb_encoded_size(desc, value);
    struct cay_buf bytes = {.size_bytes_max = size < 0 ? 0 : (size_t)size};
    bytes.data = cay_arena_alloc(reader->arena, bytes.size_bytes_max);
    bytes.cap = bytes.size_bytes_max; /* exact, so that it is never moved to the heap */
    if (size < 0 || !bytes.data || cay_pb_encode(desc, value, &bytes) < 0)
        return cay_pb_reader_no_memory(reader);
    any->value = cay_buf_str(&bytes);
    return 0;
}

int cay_pb_write_any(struct cay_pb_writer *writer, const void *message)
{
    const struct google_protobuf_any *any = message;
    cay_json_object_begin(&writer->json);
    if (!any->type_url.len && !any->value.len) {
        cay_json_object_end(&writer->json);
        return 0;
    }
    const struct cay_pb_message *desc = find_type(writer->options, any->type_url);
    void *value = desc ? cay_arena_alloc(&writer->arena, desc->size_bytes) : NULL;
    if (!value || cay_pb_decode(desc, any->value, &writer->arena, value) < 0)
        return -EINVAL;
    cay_json_key(&writer->json, "@type");
    cay_json_string(&writer->json, any->type_url);
    int r = 0;
    if (desc->form == CAY_PB_FORM_PLAIN) {
        r = cay_pb_write_members(writer, desc, value);
    } else {
        cay_json_key(&writer->json, "value");
        r = cay_pb_write_message(writer, desc, value);
    }
    cay_json_object_end(&writer->json);
    return r;
}

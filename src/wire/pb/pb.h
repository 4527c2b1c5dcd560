/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Protocol Buffers (proto3), driven by tables: binary and JSON, both ways. tools/pbgen.py turns a
 * descriptor set into plain C structs, one table per message, and tables of methods.
 *
 * How a message looks in C:
 *   string, bytes     struct cay_str
 *   message           pointer, NULL when absent
 *   optional scalar   `x` with `has_x`
 *   repeated          {items, count}
 *   map               {items, count} of entries with `key` and `value`; the value of a message map
 *                     is never NULL after reading, keys are unique, and their order is the wire's
 *   oneof             `which_x` (a number from its enum, 0 = unset) and the union `x`
 *   enum              the C enum; may hold a number this build has no name for
 *
 * A decoded message lives in the arena and borrows strings from the input: both must outlive it.
 * Nothing is freed singly. The arena's ceiling is what bounds a hostile message.
 */

#include "base/arena.h"
#include "base/base.h"
#include "base/buf.h"

enum {
    CAY_PB_DEPTH_MAX = 64,       /* messages inside each other; a map's entry does not count */
    CAY_PB_FIELDS_MAX = 256,     /* of one message; pbgen.py refuses more */
    CAY_PB_SIZE_MAX = INT32_MAX, /* of an encoded message, as in every implementation */
};

/* As in google.protobuf.FieldDescriptorProto.Type. */
enum cay_pb_type {
    CAY_PB_DOUBLE = 1,
    CAY_PB_FLOAT = 2,
    CAY_PB_INT64 = 3,
    CAY_PB_UINT64 = 4,
    CAY_PB_INT32 = 5,
    CAY_PB_FIXED64 = 6,
    CAY_PB_FIXED32 = 7,
    CAY_PB_BOOL = 8,
    CAY_PB_STRING = 9,
    CAY_PB_MESSAGE = 11,
    CAY_PB_BYTES = 12,
    CAY_PB_UINT32 = 13,
    CAY_PB_ENUM = 14,
    CAY_PB_SFIXED32 = 15,
    CAY_PB_SFIXED64 = 16,
    CAY_PB_SINT32 = 17,
    CAY_PB_SINT64 = 18,
};

enum cay_pb_label {
    CAY_PB_SINGULAR = 0, /* absent when it has the default value, or when the pointer is NULL */
    CAY_PB_OPTIONAL,     /* `presence` is the offset of has_x */
    CAY_PB_ONEOF,        /* `presence` is the offset of which_x */
    CAY_PB_REPEATED,
    CAY_PB_MAP, /* repeated entries; `message` describes the entry */
};

enum {
    CAY_PB_PACKED = 1 << 0,
    CAY_PB_DEPRECATED = 1 << 1,
};

struct cay_pb_message;

struct cay_pb_enum_value {
    const char *name;
    int32_t number;
    uint32_t name_len;
};

struct cay_pb_enum {
    const char *full_name;
    const struct cay_pb_enum_value *values; /* as declared; the first of two equal numbers counts */
    uint16_t value_count;
    uint16_t dense_count; /* values[i].number == i for i below this */
    bool is_null_value;   /* google.protobuf.NullValue: null in JSON */
};

/* 40 bytes. */
struct cay_pb_field {
    uint32_t number;
    uint16_t offset;
    uint16_t presence;
    uint8_t type;
    uint8_t label;
    uint8_t flags;
    uint8_t name_len;
    uint8_t json_name_len;
    const char *name;      /* as in the .proto file */
    const char *json_name; /* lowerCamelCase */
    union {
        const struct cay_pb_message *message;
        const struct cay_pb_enum *enumeration;
    };
};

/* Messages whose JSON form is not an object of their fields. */
enum cay_pb_form {
    CAY_PB_FORM_PLAIN = 0,
    CAY_PB_FORM_TIMESTAMP,
    CAY_PB_FORM_DURATION,
    CAY_PB_FORM_FIELD_MASK,
    CAY_PB_FORM_STRUCT,
    CAY_PB_FORM_VALUE,
    CAY_PB_FORM_LIST_VALUE,
    CAY_PB_FORM_ANY,
    CAY_PB_FORM_WRAPPER, /* one field, `value` */
};

struct cay_pb_message {
    const char *full_name;             /* "cay.v1.Session" */
    const struct cay_pb_field *fields; /* by ascending number */
    uint16_t field_count;
    uint16_t dense_count; /* fields[i].number == i + 1 for i below this */
    uint16_t size_bytes;  /* of the struct */
    uint8_t form;
};

struct cay_pb_method {
    const char *service; /* "cay.v1.SandboxService" */
    const char *name;    /* "CreateSession" */
    const char *path;    /* "/cay.v1.SandboxService/CreateSession" */
    const struct cay_pb_message *input;
    const struct cay_pb_message *output;
    uint16_t path_len;
    uint16_t index; /* in the package's array; also the generated enum's value */
    bool client_streaming;
    bool server_streaming;
    bool no_side_effects; /* idempotency_level = NO_SIDE_EFFECTS: may be called by GET */
    /* Of methods with the option cay.meta.v1.verb: */
    bool is_repeatable;  /* again does no harm and answers the same; also without side effects */
    bool takes_token;    /* may be called by who holds the token of its session */
    const char *session; /* where its (first) request names the session: "open.session_id"; NULL */
};

/* Repeated scalars. Generated code adds one such struct per message and enum. */
struct cay_pb_strs {
    struct cay_str *items;
    size_t count;
};
struct cay_pb_bools {
    bool *items;
    size_t count;
};
struct cay_pb_i32s {
    int32_t *items;
    size_t count;
};
struct cay_pb_i64s {
    int64_t *items;
    size_t count;
};
struct cay_pb_u32s {
    uint32_t *items;
    size_t count;
};
struct cay_pb_u64s {
    uint64_t *items;
    size_t count;
};
struct cay_pb_floats {
    float *items;
    size_t count;
};
struct cay_pb_doubles {
    double *items;
    size_t count;
};

/* map<string, string>; laid out like every generated entry of that kind. */
struct cay_pb_pair {
    struct cay_str key;
    struct cay_str value;
};
struct cay_pb_pairs {
    struct cay_pb_pair *items;
    size_t count;
};

/* Fills *out_message, the struct of `desc`, which need not be zeroed. Unknown fields are skipped.
 * -EBADMSG for what is not such a message (groups, bad UTF-8 and too deep nesting included),
 * -ENOMEM when the arena is full; the struct is not to be used then. */
[[nodiscard]] int cay_pb_decode(const struct cay_pb_message *desc, struct cay_str bytes,
                                struct cay_arena *arena, void *out_message);

/* Appends the message. The same struct gives the same bytes. Text in string fields that is not
 * UTF-8 is repaired with U+FFFD, because a peer would refuse the whole message for it. -EMSGSIZE
 * when it is too large or nested too deeply, -ENOBUFS when the buffer cannot take it. */
[[nodiscard]] int cay_pb_encode(const struct cay_pb_message *desc, const void *message,
                                struct cay_buf *buf);

/* What cay_pb_encode would append; -EMSGSIZE. */
[[nodiscard]] int64_t cay_pb_encoded_size(const struct cay_pb_message *desc, const void *message);

/* May be NULL where it is asked for. */
struct cay_pb_json_options {
    /* The messages that google.protobuf.Any may hold in JSON; others are an error. */
    const struct cay_pb_message *const *any_types;
    size_t any_type_count;
    bool reject_unknown_fields; /* they are ignored otherwise */
    /* Not NULL: where to put the field or enum value that an unknown one may stand for. */
    const char **out_nearest;
};

/* As cay_pb_decode, from JSON; -ENOKEY for a field that is unknown and rejected. On failure
 * out_error (never NULL) has a sentence with the path of the field, "limits.memory_bytes: expected
 * an integer, found a string". */
[[nodiscard]] int cay_pb_json_read(const struct cay_pb_message *desc, struct cay_str text,
                                   const struct cay_pb_json_options *options,
                                   struct cay_arena *arena, void *out_message, char *out_error,
                                   size_t error_size);

/* Appends the message as proto3 JSON. -ENOBUFS when the buffer cannot take it, -EMSGSIZE when it is
 * nested too deeply, -EINVAL for what has no JSON form (a timestamp out of range, an Any of a type
 * that is not in the options, NaN in a google.protobuf.Value). */
[[nodiscard]] int cay_pb_json_write(const struct cay_pb_message *desc, const void *message,
                                    const struct cay_pb_json_options *options, struct cay_buf *buf);

/* NULL when there is none. */
const struct cay_pb_field *cay_pb_field_by_number(const struct cay_pb_message *desc,
                                                  uint32_t number);
const struct cay_pb_method *cay_pb_method_by_path(const struct cay_pb_method *methods, size_t count,
                                                  struct cay_str path);
/* The text at a path of fields such as "open.session_id"; empty when a message on it is not there.
 */
[[nodiscard]] struct cay_str cay_pb_text_at(const struct cay_pb_message *desc, const void *message,
                                            const char *path);
const char *cay_pb_enum_name(const struct cay_pb_enum *enumeration, int32_t number);
[[nodiscard]] bool cay_pb_enum_number(const struct cay_pb_enum *enumeration, struct cay_str name,
                                      int32_t *out_number);

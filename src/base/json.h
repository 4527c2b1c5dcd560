/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON without a tree: a strict pull reader and an append-only writer.
 *
 * Reader. Call cay_json_next until it says CAY_JSON_END or CAY_JSON_ERROR; keys, strings and
 * numbers are in `text` until the next call. A string without escapes points into the input, one
 * with escapes into the arena; both may hold NUL bytes. Numbers stay text until the consumer
 * converts them, so that a 64-bit integer is exact. Whether keys repeat is the consumer's business.
 *
 *     struct cay_json_reader json;
 *     cay_json_reader_init(&json, text, arena);
 *     if (cay_json_next(&json) != CAY_JSON_OBJECT_BEGIN) ...
 *     while (cay_json_next(&json) == CAY_JSON_KEY) {
 *         if (cay_str_is(json.text, "name")) { cay_json_next(&json); ... }
 *         else if (cay_json_skip(&json) < 0) ...
 *     }
 *     if (json.token != CAY_JSON_OBJECT_END) ... json.error, json.error_at ...
 *
 * Writer. Commas and colons come by themselves; a buffer that is full says so in buf->failed.
 *
 *     struct cay_json_writer json = {.buf = &buf};
 *     cay_json_object_begin(&json);
 *     cay_json_key(&json, "name");
 *     cay_json_string(&json, name);
 *     cay_json_object_end(&json);
 */

#include "base/arena.h"
#include "base/base.h"
#include "base/buf.h"

enum {
    CAY_JSON_DEPTH_MAX = 128,       /* arrays and objects inside each other */
    CAY_JSON_NUMBER_LEN_MAX = 1024, /* characters of one number */
};

enum cay_json_token {
    CAY_JSON_ERROR = 0,
    CAY_JSON_END, /* of the text; nothing but blanks followed the value */
    CAY_JSON_OBJECT_BEGIN,
    CAY_JSON_OBJECT_END,
    CAY_JSON_ARRAY_BEGIN,
    CAY_JSON_ARRAY_END,
    CAY_JSON_KEY,
    CAY_JSON_STRING,
    CAY_JSON_NUMBER,
    CAY_JSON_TRUE,
    CAY_JSON_FALSE,
    CAY_JSON_NULL,
};

struct cay_json_reader {
    enum cay_json_token token; /* what the last call of cay_json_next returned */
    struct cay_str text;       /* of a key, string or number */
    const char *error;         /* a short sentence once token is CAY_JSON_ERROR */
    size_t error_at;           /* the byte it is about */
    int status;                /* 0, -EBADMSG, or -ENOMEM when the arena is full */

    /* The rest is the reader's own. */
    const char *start;
    const char *at;
    const char *end;
    struct cay_arena *arena;
    unsigned depth;
    unsigned char expect;
    bool skipping;
    uint64_t object_bits[CAY_JSON_DEPTH_MAX / 64]; /* bit set: that level is an object */
};

void cay_json_reader_init(struct cay_json_reader *json, struct cay_str text,
                          struct cay_arena *arena);
enum cay_json_token cay_json_next(struct cay_json_reader *json);

/* After a key: reads over its value. After the first token of a value: reads over the rest of it.
 * Checks what it skips. 0, or the reader's status. */
[[nodiscard]] int cay_json_skip(struct cay_json_reader *json);

/* "an object", "a string", "true": for error texts. */
const char *cay_json_token_name(enum cay_json_token token);

/* Exact conversions of a number's text: 1e3 and 1.0 are integers, 1.5 is not. -EINVAL for what is
 * not a JSON number or not integral, -ERANGE for what does not fit. */
[[nodiscard]] int cay_json_to_i64(struct cay_str text, int64_t *out_value);
[[nodiscard]] int cay_json_to_u64(struct cay_str text, uint64_t *out_value);
[[nodiscard]] int cay_json_to_double(struct cay_str text, double *out_value);
[[nodiscard]] int cay_json_to_float(struct cay_str text, float *out_value);

/* The length of the JSON number at the start of `text`, 0 when there is none. */
[[nodiscard]] size_t cay_json_number_len(struct cay_str text);

struct cay_json_writer {
    struct cay_buf *buf;
    bool comma; /* the next key or value needs one before it */
};

void cay_json_object_begin(struct cay_json_writer *json);
void cay_json_object_end(struct cay_json_writer *json);
void cay_json_array_begin(struct cay_json_writer *json);
void cay_json_array_end(struct cay_json_writer *json);
void cay_json_key(struct cay_json_writer *json, const char *key);
void cay_json_key_str(struct cay_json_writer *json, struct cay_str key);

/* Bad UTF-8 becomes U+FFFD. */
void cay_json_string(struct cay_json_writer *json, struct cay_str text);
void cay_json_text(struct cay_json_writer *json, const char *text);
void cay_json_base64(struct cay_json_writer *json, struct cay_str bytes);

void cay_json_i64(struct cay_json_writer *json, int64_t value);
void cay_json_u64(struct cay_json_writer *json, uint64_t value);
void cay_json_bool(struct cay_json_writer *json, bool value);
void cay_json_null(struct cay_json_writer *json);

/* The shortest digits that read back as the same value. NaN and the infinities, which JSON lacks,
 * are written as the strings proto3 JSON uses for them. */
void cay_json_double(struct cay_json_writer *json, double value);
void cay_json_float(struct cay_json_writer *json, float value);

/* One complete value that is JSON already. */
void cay_json_raw(struct cay_json_writer *json, struct cay_str value);

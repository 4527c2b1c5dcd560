/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/json_internal.h"
#include "base/utf8.h"

static void before_value(struct cay_json_writer *json)
{
    if (json->comma)
        cay_buf_append_byte(json->buf, ',');
    json->comma = true;
}

static void begin(struct cay_json_writer *json, unsigned char bracket)
{
    before_value(json);
    cay_buf_append_byte(json->buf, bracket);
    json->comma = false;
}

static void finish(struct cay_json_writer *json, unsigned char bracket)
{
    cay_buf_append_byte(json->buf, bracket);
    json->comma = true;
}

void cay_json_object_begin(struct cay_json_writer *json)
{
    begin(json, '{');
}

void cay_json_object_end(struct cay_json_writer *json)
{
    finish(json, '}');
}

void cay_json_array_begin(struct cay_json_writer *json)
{
    begin(json, '[');
}

void cay_json_array_end(struct cay_json_writer *json)
{
    finish(json, ']');
}

/* As many leading bytes as can be copied as they are: printable ASCII and well-formed UTF-8. */
static size_t plain_prefix(struct cay_str text)
{
    const char *at = text.ptr;
    const char *end = text.ptr + text.len;
    for (;;) {
        at = cay_json_skip_plain(at, end);
        size_t len = cay_utf8_multibyte_prefix((struct cay_str){at, (size_t)(end - at)});
        if (!len)
            break;
        at += len;
    }
    return (size_t)(at - text.ptr);
}

static void escape(struct cay_buf *buf, unsigned char c)
{
    static const char digits[] = "0123456789abcdef";
    static const char letters[256] = {['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f',
                                      ['\n'] = 'n', ['\r'] = 'r',  ['\t'] = 't'};
    char text[6] = {'\\', letters[c]};
    size_t len = 2;
    if (!letters[c]) {
        memcpy(text, "\\u00", 4);
        text[4] = digits[c >> 4];
        text[5] = digits[c & 15];
        len = 6;
    }
    cay_buf_append(buf, text, len);
}

/* The rest of a text from its first character that needs an escape or a repair. */
static void append_escaped(struct cay_buf *buf, struct cay_str text)
{
    while (text.len) {
        size_t plain_len = plain_prefix(text);
        cay_buf_append(buf, text.ptr, plain_len);
        text.ptr += plain_len;
        text.len -= plain_len;
        if (!text.len)
            break;
        size_t taken = 1;
        if ((unsigned char)*text.ptr < 0x80) {
            escape(buf, (unsigned char)*text.ptr);
        } else {
            taken = (size_t)-cay_utf8_step(text.ptr, text.len);
            cay_buf_append(buf, "\xEF\xBF\xBD", 3);
        }
        text.ptr += taken;
        text.len -= taken;
    }
}

/* Nearly every text needs neither, and is then one copy into room taken at once. A key has a
 * colon behind it. */
static void append_quoted(struct cay_json_writer *json, struct cay_str text, bool colon)
{
    char *at = cay_buf_reserve(json->buf, text.len + 4);
    size_t plain_len = text.len ? plain_prefix(text) : 0; /* ptr may be NULL */
    if (!at)
        return;
    char *start = at;
    if (json->comma)
        *at++ = ',';
    *at++ = '"';
    if (plain_len)
        memcpy(at, text.ptr, plain_len);
    at += plain_len;
    if (plain_len == text.len) {
        *at++ = '"';
        if (colon)
            *at++ = ':';
        cay_buf_grew(json->buf, (size_t)(at - start));
        return;
    }
    cay_buf_grew(json->buf, (size_t)(at - start));
    append_escaped(json->buf, (struct cay_str){text.ptr + plain_len, text.len - plain_len});
    cay_buf_append(json->buf, "\":", colon ? 2 : 1);
}

void cay_json_key_str(struct cay_json_writer *json, struct cay_str key)
{
    append_quoted(json, key, true);
    json->comma = false;
}

void cay_json_key(struct cay_json_writer *json, const char *key)
{
    cay_json_key_str(json, cay_str(key));
}

void cay_json_string(struct cay_json_writer *json, struct cay_str text)
{
    append_quoted(json, text, false);
    json->comma = true;
}

void cay_json_text(struct cay_json_writer *json, const char *text)
{
    cay_json_string(json, cay_str(text));
}

void cay_json_base64(struct cay_json_writer *json, struct cay_str bytes)
{
    before_value(json);
    cay_buf_append_byte(json->buf, '"');
    cay_base64_append(json->buf, bytes, true);
    cay_buf_append_byte(json->buf, '"');
}

void cay_json_raw(struct cay_json_writer *json, struct cay_str value)
{
    before_value(json);
    cay_buf_append_str(json->buf, value);
}

static void append_u64(struct cay_buf *buf, bool negative, uint64_t value)
{
    char text[21];
    char *at = text + sizeof(text);
    do {
        *--at = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    if (negative)
        *--at = '-';
    cay_buf_append(buf, at, (size_t)(text + sizeof(text) - at));
}

void cay_json_i64(struct cay_json_writer *json, int64_t value)
{
    before_value(json);
    append_u64(json->buf, value < 0, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void cay_json_u64(struct cay_json_writer *json, uint64_t value)
{
    before_value(json);
    append_u64(json->buf, false, value);
}

void cay_json_bool(struct cay_json_writer *json, bool value)
{
    cay_json_raw(json, value ? CAY_STR("true") : CAY_STR("false"));
}

void cay_json_null(struct cay_json_writer *json)
{
    cay_json_raw(json, CAY_STR("null"));
}

/* NaN, the infinities, and whole numbers up to where the type stops telling neighbours apart. */
static bool write_special(struct cay_json_writer *json, double value, double whole_max)
{
    if (isnan(value))
        cay_json_text(json, "NaN");
    else if (isinf(value))
        cay_json_text(json, value < 0 ? "-Infinity" : "Infinity");
    else if (value == 0 && signbit(value))
        cay_json_raw(json, CAY_STR("-0.0"));
    else if (fabs(value) <= whole_max && value == (double)(int64_t)value)
        cay_json_i64(json, (int64_t)value);
    else
        return false;
    return true;
}

void cay_json_double(struct cay_json_writer *json, double value)
{
    if (write_special(json, value, 0x1p53))
        return;
    /* 15 digits always survive the way there and back, so with them the shortest form is found at
     * once; only numbers that have lost digits to underflow need fewer. */
    char text[40];
    int len = 0;
    for (int digits = fabs(value) < 2.3e-308 ? 1 : 15; digits <= 17; digits++) {
        len = snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    cay_json_raw(json, (struct cay_str){text, (size_t)len});
}

void cay_json_float(struct cay_json_writer *json, float value)
{
    if (write_special(json, (double)value, 0x1p24))
        return;
    char text[40];
    int len = 0;
    for (int digits = fabsf(value) < 1.2e-38f ? 1 : 6; digits <= 9; digits++) {
        len = snprintf(text, sizeof(text), "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    cay_json_raw(json, (struct cay_str){text, (size_t)len});
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <errno.h>

#include "base/json_internal.h"
#include "base/utf8.h"

/* What the grammar allows next. */
enum expect {
    EXPECT_VALUE,        /* at the top, after a key, after a comma in an array */
    EXPECT_FIRST_KEY,    /* or the end of the object */
    EXPECT_FIRST_ITEM,   /* or the end of the array */
    EXPECT_COMMA_OR_END, /* after a value */
};

void cay_json_reader_init(struct cay_json_reader *json, struct cay_str text,
                          struct cay_arena *arena)
{
    const char *start = text.len ? text.ptr : "";
    *json = (struct cay_json_reader){
        .start = start,
        .at = start,
        .end = start + text.len,
        .arena = arena,
        .expect = EXPECT_VALUE,
    };
}

static enum cay_json_token fail(struct cay_json_reader *json, const char *at, const char *text)
{
    if (!json->error) {
        json->error = text;
        json->error_at = (size_t)(at - json->start);
        json->status = -EBADMSG;
    }
    return json->token = CAY_JSON_ERROR;
}

static void skip_blanks(struct cay_json_reader *json)
{
    while (json->at < json->end &&
           (*json->at == ' ' || *json->at == '\n' || *json->at == '\t' || *json->at == '\r'))
        json->at++;
}

static bool in_object(const struct cay_json_reader *json)
{
    unsigned level = json->depth - 1;
    return json->depth && (json->object_bits[level / 64] >> (level % 64) & 1);
}

static enum cay_json_token open_level(struct cay_json_reader *json, bool object)
{
    if (json->depth == CAY_JSON_DEPTH_MAX)
        return fail(json, json->at, "nested too deeply");
    uint64_t bit = (uint64_t)1 << (json->depth % 64);
    uint64_t *word = &json->object_bits[json->depth / 64];
    *word = object ? *word | bit : *word & ~bit;
    json->depth++;
    json->at++;
    json->expect = object ? EXPECT_FIRST_KEY : EXPECT_FIRST_ITEM;
    return json->token = object ? CAY_JSON_OBJECT_BEGIN : CAY_JSON_ARRAY_BEGIN;
}

static enum cay_json_token close_level(struct cay_json_reader *json, bool object)
{
    json->depth--;
    json->at++;
    json->expect = EXPECT_COMMA_OR_END;
    return json->token = object ? CAY_JSON_OBJECT_END : CAY_JSON_ARRAY_END;
}

/* Four hex digits, or -1. */
static int32_t hex4(const char *at, const char *end)
{
    int32_t value = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* The character a backslash at `at` stands for; sets *out_len to the length of the escape. False
 * when it is not one. */
static bool read_escape(const char *at, const char *end, uint32_t *out_code_point, size_t *out_len)
{
    static const char plain[256] = {
        ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
        ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
    };
    if (end - at < 2)
        return false;
    if (at[1] != 'u') {
        *out_code_point = (unsigned char)plain[(unsigned char)at[1]];
        *out_len = 2;
        return *out_code_point != 0;
    }
    int32_t unit = hex4(at + 2, end);
    if (unit < 0 || (unit >= 0xDC00 && unit <= 0xDFFF))
        return false;
    *out_code_point = (uint32_t)unit;
    *out_len = 6;
    if (unit < 0xD800 || unit > 0xDBFF)
        return true;
    if (end - at < 12 || at[6] != '\\' || at[7] != 'u')
        return false;
    int32_t low = hex4(at + 8, end);
    if (low < 0xDC00 || low > 0xDFFF)
        return false;
    *out_code_point = 0x10000u + (((uint32_t)unit - 0xD800u) << 10) + ((uint32_t)low - 0xDC00u);
    *out_len = 12;
    return true;
}

/* Checks the string whose opening quote is before `at`. Returns its closing quote, NULL when it is
 * bad; *out_escapes_bytes is how much longer it is than its value. */
static const char *check_string(struct cay_json_reader *json, const char *at,
                                size_t *out_escapes_bytes)
{
    size_t saved = 0;
    for (;;) {
        at = cay_json_skip_plain(at, json->end);
        if (at == json->end) {
            fail(json, at, "the string does not end");
            return NULL;
        }
        if (*at == '"')
            break;
        if (*at == '\\') {
            uint32_t code_point = 0;
            size_t len = 0;
            char encoded[4];
            if (!read_escape(at, json->end, &code_point, &len)) {
                fail(json, at, "bad escape in a string");
                return NULL;
            }
            saved += len - cay_utf8_put(code_point, encoded);
            at += len;
            continue;
        }
        bool control = (unsigned char)*at < 0x20;
        size_t len = cay_utf8_multibyte_prefix((struct cay_str){at, (size_t)(json->end - at)});
        if (!len) {
            fail(json, at, control ? "raw control character in a string" : "bad UTF-8 in a string");
            return NULL;
        }
        at += len;
    }
    *out_escapes_bytes = saved;
    return at;
}

/* Copies a string that check_string has passed, escapes resolved. */
static void unescape(const char *at, const char *end, char *out)
{
    while (at < end) {
        const char *backslash = memchr(at, '\\', (size_t)(end - at));
        size_t plain_len = (size_t)((backslash ? backslash : end) - at);
        memcpy(out, at, plain_len);
        out += plain_len;
        at += plain_len;
        if (!backslash)
            return;
        uint32_t code_point = 0;
        size_t len = 0;
        (void)read_escape(at, end, &code_point, &len);
        out += cay_utf8_put(code_point, out);
        at += len;
    }
}

static bool read_string(struct cay_json_reader *json)
{
    const char *start = json->at + 1;
    size_t saved = 0;
    const char *close = check_string(json, start, &saved);
    if (!close)
        return false;
    json->at = close + 1;
    json->text = (struct cay_str){start, (size_t)(close - start)};
    /* Every escape is longer than what it stands for, so 0 means there was none. */
    if (json->skipping || !saved)
        return true;
    size_t len = json->text.len - saved;
    char *copy = cay_arena_alloc(json->arena, len + 1);
    if (!copy) {
        fail(json, start, "out of memory");
        json->status = -ENOMEM;
        return false;
    }
    unescape(start, close, copy);
    json->text = (struct cay_str){copy, len};
    return true;
}

static enum cay_json_token read_key(struct cay_json_reader *json)
{
    if (json->at == json->end || *json->at != '"')
        return fail(json, json->at, "expected a key in quotes");
    if (!read_string(json))
        return CAY_JSON_ERROR;
    skip_blanks(json);
    if (json->at == json->end || *json->at != ':')
        return fail(json, json->at, "expected ':' after a key");
    json->at++;
    json->expect = EXPECT_VALUE;
    return json->token = CAY_JSON_KEY;
}

static enum cay_json_token read_word(struct cay_json_reader *json, struct cay_str word,
                                     enum cay_json_token token)
{
    if ((size_t)(json->end - json->at) < word.len || memcmp(json->at, word.ptr, word.len) != 0)
        return fail(json, json->at, "expected a value");
    json->at += word.len;
    json->expect = EXPECT_COMMA_OR_END;
    return json->token = token;
}

static enum cay_json_token read_number(struct cay_json_reader *json)
{
    size_t len = cay_json_number_len((struct cay_str){json->at, (size_t)(json->end - json->at)});
    if (!len)
        return fail(json, json->at, "bad number");
    if (len > CAY_JSON_NUMBER_LEN_MAX)
        return fail(json, json->at, "number too long");
    json->text = (struct cay_str){json->at, len};
    json->at += len;
    json->expect = EXPECT_COMMA_OR_END;
    return json->token = CAY_JSON_NUMBER;
}

static enum cay_json_token read_value(struct cay_json_reader *json)
{
    if (json->at == json->end)
        return fail(json, json->at, "expected a value, found the end");
    switch (*json->at) {
    case '{': return open_level(json, true);
    case '[': return open_level(json, false);
    case '"':
        if (!read_string(json))
            return CAY_JSON_ERROR;
        json->expect = EXPECT_COMMA_OR_END;
        return json->token = CAY_JSON_STRING;
    case 't': return read_word(json, CAY_STR("true"), CAY_JSON_TRUE);
    case 'f': return read_word(json, CAY_STR("false"), CAY_JSON_FALSE);
    case 'n': return read_word(json, CAY_STR("null"), CAY_JSON_NULL);
    case '-':
    case '0' ... '9': return read_number(json);
    default: return fail(json, json->at, "expected a value");
    }
}

static enum cay_json_token read_comma_or_end(struct cay_json_reader *json)
{
    if (!json->depth) {
        if (json->at != json->end)
            return fail(json, json->at, "something follows the value");
        return json->token = CAY_JSON_END;
    }
    bool object = in_object(json);
    if (json->at < json->end && *json->at == (object ? '}' : ']'))
        return close_level(json, object);
    if (json->at == json->end || *json->at != ',')
        return fail(json, json->at, object ? "expected ',' or '}'" : "expected ',' or ']'");
    json->at++;
    skip_blanks(json);
    return object ? read_key(json) : read_value(json);
}

enum cay_json_token cay_json_next(struct cay_json_reader *json)
{
    if (json->error)
        return json->token = CAY_JSON_ERROR;
    skip_blanks(json);
    switch ((enum expect)json->expect) {
    case EXPECT_FIRST_KEY:
        if (json->at < json->end && *json->at == '}')
            return close_level(json, true);
        return read_key(json);
    case EXPECT_FIRST_ITEM:
        if (json->at < json->end && *json->at == ']')
            return close_level(json, false);
        return read_value(json);
    case EXPECT_COMMA_OR_END: return read_comma_or_end(json);
    case EXPECT_VALUE: return read_value(json);
    }
    return CAY_JSON_ERROR;
}

int cay_json_skip(struct cay_json_reader *json)
{
    json->skipping = true;
    if (json->token == CAY_JSON_KEY)
        cay_json_next(json);
    if (json->token == CAY_JSON_OBJECT_BEGIN || json->token == CAY_JSON_ARRAY_BEGIN) {
        unsigned outside = json->depth - 1;
        while (json->depth > outside && cay_json_next(json) != CAY_JSON_ERROR) {
        }
    }
    json->skipping = false;
    return json->status;
}

const char *cay_json_token_name(enum cay_json_token token)
{
    static const char *const names[] = {
        [CAY_JSON_ERROR] = "bad JSON",
        [CAY_JSON_END] = "the end",
        [CAY_JSON_OBJECT_BEGIN] = "an object",
        [CAY_JSON_OBJECT_END] = "the end of an object",
        [CAY_JSON_ARRAY_BEGIN] = "an array",
        [CAY_JSON_ARRAY_END] = "the end of an array",
        [CAY_JSON_KEY] = "a key",
        [CAY_JSON_STRING] = "a string",
        [CAY_JSON_NUMBER] = "a number",
        [CAY_JSON_TRUE] = "true",
        [CAY_JSON_FALSE] = "false",
        [CAY_JSON_NULL] = "null",
    };
    return names[token];
}

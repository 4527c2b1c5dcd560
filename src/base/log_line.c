/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log_line.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/quantity.h"

enum {
    TAIL_BYTES = 64,       /* a closing quote, the cut mark, a colour reset, a brace, the newline */
    FIELD_BYTES_MIN = 128, /* a field that has less than this left is not begun */
    ESCAPE_BYTES_MAX = 16,
};

static const char *const level_colours[] = {
    [CAY_DEBUG] = "\x1b[90m",
    [CAY_INFO] = "\x1b[32m",
    [CAY_WARN] = "\x1b[33m",
    [CAY_ERROR] = "\x1b[31m",
};

#define DIM   "\x1b[2m"
#define BOLD  "\x1b[1m"
#define RESET "\x1b[0m"

/* Our own short texts; the tail has room for the last ones. */
static void put(struct cay_log_line *line, const char *text)
{
    size_t len = strlen(text);
    assert(len < sizeof(line->data) - line->len);
    memcpy(line->data + line->len, text, len);
    line->len += len;
}

static void put_coloured(struct cay_log_line *line, const char *colour, const char *text)
{
    bool coloured = line->style == CAY_LOG_STYLE_COLOUR;
    if (coloured)
        put(line, colour);
    put(line, text);
    if (coloured)
        put(line, RESET);
}

/* Decodes one character; returns its length, 0 for what is not UTF-8. */
static size_t decode(struct cay_str text, uint32_t *out_point)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char lead = (unsigned char)text.ptr[0];
    size_t len = lead < 0x80 ? 1 : lead < 0xC0 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (!len || len > text.len || lead > 0xF4)
        return 0;
    uint32_t point = len == 1 ? lead : lead & (0x7Fu >> len);
    for (size_t i = 1; i < len; i++) {
        unsigned char next = (unsigned char)text.ptr[i];
        if ((next & 0xC0) != 0x80)
            return 0;
        point = point << 6 | (next & 0x3F);
    }
    if (point < smallest[len] || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF))
        return 0;
    *out_point = point;
    return len;
}

/* Characters that steer a terminal or hide or reorder text instead of being seen: controls of both
 * sets (U+009B alone starts a terminal sequence), zero-width and direction marks, line and
 * paragraph separators, invisible operators, annotations, tags. */
static bool is_unseen(uint32_t point)
{
    return point < 0x20 || (point >= 0x7F && point < 0xA0) || point == 0xAD || point == 0x61C ||
           point == 0x180E || (point >= 0x200B && point <= 0x200F) ||
           (point >= 0x2028 && point <= 0x202E) || (point >= 0x2060 && point <= 0x206F) ||
           point == 0xFEFF || (point >= 0xFFF9 && point <= 0xFFFB) ||
           (point >= 0xE0000 && point <= 0xE0FFF);
}

static int escape_point(bool json, uint32_t point, char out[ESCAPE_BYTES_MAX])
{
    switch (point) {
    case '\n': return snprintf(out, ESCAPE_BYTES_MAX, "\\n");
    case '\r': return snprintf(out, ESCAPE_BYTES_MAX, "\\r");
    case '\t': return snprintf(out, ESCAPE_BYTES_MAX, "\\t");
    case '"':
    case '\\': return snprintf(out, ESCAPE_BYTES_MAX, "\\%c", (char)point);
    default: break;
    }
    if (!json && point < 0x80)
        return snprintf(out, ESCAPE_BYTES_MAX, "\\x%02x", (unsigned)point);
    if (!json && point > 0xFFFF)
        return snprintf(out, ESCAPE_BYTES_MAX, "\\U%08x", (unsigned)point);
    if (point <= 0xFFFF)
        return snprintf(out, ESCAPE_BYTES_MAX, "\\u%04x", (unsigned)point);
    point -= 0x10000;
    return snprintf(out, ESCAPE_BYTES_MAX, "\\u%04x\\u%04x", (unsigned)(0xD800 | point >> 10),
                    (unsigned)(0xDC00 | (point & 0x3FF)));
}

static int escape_byte(bool json, unsigned char byte, char out[ESCAPE_BYTES_MAX])
{
    if (json)
        return snprintf(out, ESCAPE_BYTES_MAX, "\\ufffd");
    return snprintf(out, ESCAPE_BYTES_MAX, "\\x%02x", byte);
}

/* Each character goes in whole or not at all. */
static void put_escaped(struct cay_log_line *line, struct cay_str text)
{
    bool json = line->style == CAY_LOG_STYLE_JSON;
    size_t line_end = sizeof(line->data) - TAIL_BYTES;
    size_t end = CAY_MIN(line->len + CAY_LOG_VALUE_BYTES_MAX, line_end);
    while (text.len) {
        char escape[ESCAPE_BYTES_MAX];
        const char *piece = text.ptr;
        uint32_t point = 0;
        size_t eaten = decode(text, &point);
        size_t len = eaten;
        if (!eaten || is_unseen(point) || point == '"' || point == '\\') {
            len = (size_t)(eaten ? escape_point(json, point, escape)
                                 : escape_byte(json, (unsigned char)*text.ptr, escape));
            eaten = CAY_MAX(eaten, (size_t)1);
            piece = escape;
        }
        if (line->len + len > end) {
            line->cut = true;
            return;
        }
        memcpy(line->data + line->len, piece, len);
        line->len += len;
        text.ptr += eaten;
        text.len -= eaten;
    }
}

/* What can stand in logfmt without quotes. */
static bool is_bare(struct cay_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c <= ' ' || c >= 0x7F || c == '"' || c == '=' || c == '\\')
            return false;
    }
    return text.len > 0;
}

static void put_text(struct cay_log_line *line, struct cay_str text)
{
    bool quoted = line->style == CAY_LOG_STYLE_JSON || !is_bare(text);
    if (quoted)
        put(line, "\"");
    put_escaped(line, text);
    if (quoted)
        put(line, "\"");
}

/* False when the line has no room for another field. */
static bool put_key(struct cay_log_line *line, const char *key, const char *json_suffix)
{
    size_t room = sizeof(line->data) - line->len;
    if (line->full || room < strlen(key) + FIELD_BYTES_MIN + TAIL_BYTES) {
        line->cut = true;
        line->full = true;
        return false;
    }
    if (line->style == CAY_LOG_STYLE_JSON) {
        put(line, ",\"");
        put(line, key);
        put(line, json_suffix);
        put(line, "\":");
        return true;
    }
    put(line, " ");
    put_coloured(line, DIM, key);
    put_coloured(line, DIM, "=");
    return true;
}

CAY_PRINTF(4, 5)
static void put_number(struct cay_log_line *line, const char *key, const char *json_suffix,
                       const char *fmt, ...)
{
    char text[64];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (put_key(line, key, json_suffix))
        put(line, text);
}

static void put_pair(struct cay_log_line *line, const char *key, struct cay_str text)
{
    if (put_key(line, key, ""))
        put_text(line, text);
}

static const char *errno_name(int sys_errno)
{
#ifdef __GLIBC__
    const char *name = strerrorname_np(sys_errno);
#else
    const char *name = strerror(sys_errno);
#endif
    return name ? name : "unknown";
}

static void put_error(struct cay_log_line *line, const struct cay_error *err)
{
    if (err->reason)
        put_pair(line, "reason", cay_str(cay_reason_info(err->reason)->name));
    put_pair(line, "error", (struct cay_str){err->text, strnlen(err->text, sizeof(err->text))});
    if (err->sys_errno)
        put_pair(line, "errno", cay_str(errno_name(err->sys_errno)));
}

static void put_duration(struct cay_log_line *line, const char *key, int64_t ns)
{
    char text[CAY_DURATION_BYTES];
    if (line->style == CAY_LOG_STYLE_JSON) {
        put_number(line, key, "_ns", "%lld", (long long)ns);
        return;
    }
    cay_duration_format_ns(ns, text);
    put_pair(line, key, cay_str(text));
}

void cay_log_line_begin(struct cay_log_line *line, enum cay_log_style style, const char *prefix,
                        const char *time, enum cay_log_level level, const char *event)
{
    line->style = style;
    line->cut = false;
    line->full = false;
    line->len = 0;
    put(line, prefix);
    const char *name = cay_log_level_name(level);
    if (style == CAY_LOG_STYLE_JSON) {
        put(line, "{\"time\":");
        put_text(line, cay_str(time ? time : ""));
        put_pair(line, "level", cay_str(name));
        put_pair(line, "event", cay_str(event));
        return;
    }
    if (time) {
        put_coloured(line, DIM, "time=");
        put_coloured(line, DIM, time);
        put(line, " ");
    }
    put_coloured(line, DIM, "level=");
    put_coloured(line, level_colours[level], name);
    put(line, " ");
    put_coloured(line, DIM, "event=");
    if (style == CAY_LOG_STYLE_COLOUR)
        put(line, BOLD);
    put_text(line, cay_str(event));
    if (style == CAY_LOG_STYLE_COLOUR)
        put(line, RESET);
}

void cay_log_line_field(struct cay_log_line *line, const struct cay_log_field *field)
{
    const char *key = field->key;
    bool json = line->style == CAY_LOG_STYLE_JSON;
    switch (field->type) {
    case CAY_LOG_TEXT: put_pair(line, key, field->text); break;
    case CAY_LOG_SECRET: put_pair(line, key, CAY_STR("***")); break;
    case CAY_LOG_UNSIGNED:
        put_number(line, key, "", "%llu", (unsigned long long)field->number);
        break;
    case CAY_LOG_SIGNED: put_number(line, key, "", "%lld", (long long)field->integer); break;
    case CAY_LOG_REAL:
        /* JSON has no word for infinity. */
        if (json && !isfinite(field->real))
            put_number(line, key, "", "null");
        else
            put_number(line, key, "", "%.6g", field->real);
        break;
    case CAY_LOG_BOOL: put_number(line, key, "", "%s", field->truth ? "true" : "false"); break;
    case CAY_LOG_DURATION: put_duration(line, key, field->integer); break;
    case CAY_LOG_ERROR: put_error(line, field->error); break;
    case CAY_LOG_END: break;
    }
}

void cay_log_line_end(struct cay_log_line *line)
{
    bool json = line->style == CAY_LOG_STYLE_JSON;
    if (line->cut)
        put(line, json ? ",\"cut\":true" : " cut=true");
    put(line, json ? "}\n" : "\n");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"

#include <locale.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
#include <wchar.h>

#include "api/limits.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/utf8.h"
#include "wire/pb/google_protobuf.h"
#include "wire/pb/pb.h"

enum {
    FIELD_NAME_COLUMNS = 10,
    /* Every byte of a message may become an escape of four to six. */
    JSON_BYTES_MAX = 6 * CAY_LIMIT_MESSAGE_BYTES,
    CLEAN_BYTES_MAX = 6 * CAY_LIMIT_MESSAGE_BYTES,
};

static const char *const style_codes[] = {
    [CAY_STYLE_PLAIN] = "",        [CAY_STYLE_BOLD] = "\033[1m",  [CAY_STYLE_DIM] = "\033[2m",
    [CAY_STYLE_GOOD] = "\033[32m", [CAY_STYLE_WARN] = "\033[33m", [CAY_STYLE_BAD] = "\033[31m",
};

static bool wants_colour(FILE *file)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    if ((no_color && *no_color) || (term && strcmp(term, "dumb") == 0))
        return false;
    return isatty(fileno(file));
}

void cay_output_init(struct cay_output *out)
{
    *out = (struct cay_output){
        .file = stdout,
        .is_terminal = isatty(STDOUT_FILENO),
        .has_colour = wants_colour(stdout),
    };
}

static uint32_t code_point(const char *at, int len)
{
    static const unsigned char lead_mask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    uint32_t value = (unsigned char)*at & lead_mask[len];
    for (int i = 1; i < len; i++)
        value = value << 6 | ((unsigned char)at[i] & 0x3F);
    return value;
}

/* What a terminal may obey instead of show: C0, DEL, C1, line and paragraph separators, and the
 * marks that reorder the text around them. */
static bool is_unsafe(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x061C || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

static void append_escape(struct cay_buf *buf, uint32_t c)
{
    if (c == '\n')
        cay_buf_append_text(buf, "\\n");
    else if (c == '\r')
        cay_buf_append_text(buf, "\\r");
    else if (c == '\t')
        cay_buf_append_text(buf, "\\t");
    else
        cay_buf_printf(buf, c < 0x80 ? "\\x%02x" : "\\u%04x", c);
}

void cay_output_clean(struct cay_buf *buf, struct cay_str text)
{
    for (size_t at = 0; at < text.len;) {
        int step = cay_utf8_step(text.ptr + at, text.len - at);
        if (step < 0) {
            cay_buf_append_text(buf, "\xEF\xBF\xBD");
            at += (size_t)-step;
            continue;
        }
        uint32_t c = code_point(text.ptr + at, step);
        if (is_unsafe(c))
            append_escape(buf, c);
        else
            cay_buf_append(buf, text.ptr + at, (size_t)step);
        at += (size_t)step;
    }
}

/* Texts are UTF-8 whatever the environment says. The table is read when the first character needs
 * it, which is as long a way as all else that a command does before it calls. */
static size_t columns_of(uint32_t c)
{
    static bool is_set;
    if (c < 0x80)
        return 1;
    if (!is_set)
        (void)setlocale(LC_CTYPE, "C.UTF-8");
    is_set = true;
    int columns = wcwidth((wchar_t)c);
    return columns < 0 ? 1 : (size_t)columns;
}

size_t cay_output_width(struct cay_str clean)
{
    size_t width = 0;
    for (size_t at = 0; at < clean.len;) {
        int step = cay_utf8_step(clean.ptr + at, clean.len - at);
        width += step > 0 ? columns_of(code_point(clean.ptr + at, step)) : 1;
        at += (size_t)(step > 0 ? step : -step);
    }
    return width;
}

static void begin_style(const struct cay_output *out, enum cay_style style)
{
    if (out->has_colour && style)
        fputs(style_codes[style], out->file);
}

static void end_style(const struct cay_output *out, enum cay_style style)
{
    if (out->has_colour && style)
        fputs("\033[0m", out->file);
}

void cay_output_text(struct cay_output *out, enum cay_style style, struct cay_str text)
{
    cay_auto(cay_buf_finish) struct cay_buf clean;
    cay_buf_init(&clean, CLEAN_BYTES_MAX);
    cay_output_clean(&clean, text);
    if (!clean.len)
        return;
    begin_style(out, style);
    fwrite(clean.data, 1, clean.len, out->file);
    end_style(out, style);
}

void cay_output_lines(struct cay_output *out, enum cay_style style, struct cay_str text)
{
    if (!out->is_terminal) {
        fwrite(text.ptr ? text.ptr : "", 1, text.len, out->file);
        return;
    }
    while (text.len) {
        const char *stop = memchr(text.ptr, '\n', text.len);
        const char *tab = memchr(text.ptr, '\t', text.len);
        if (tab && (!stop || tab < stop))
            stop = tab;
        size_t len = stop ? (size_t)(stop - text.ptr) : text.len;
        if (len)
            cay_output_text(out, style, (struct cay_str){text.ptr, len});
        if (stop)
            fputc(*stop, out->file);
        len += stop != NULL;
        text = (struct cay_str){text.ptr + len, text.len - len};
    }
}

void cay_output_printf(struct cay_output *out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vfprintf(out->file, fmt, args);
    va_end(args);
}

void cay_output_field(struct cay_output *out, const char *name, enum cay_style style,
                      struct cay_str text)
{
    begin_style(out, CAY_STYLE_DIM);
    fprintf(out->file, "  %-*s", FIELD_NAME_COLUMNS, name);
    end_style(out, CAY_STYLE_DIM);
    fputc(' ', out->file);
    cay_output_text(out, style, text);
    fputc('\n', out->file);
}

void cay_output_json(struct cay_output *out, struct cay_str json)
{
    fwrite(json.ptr, 1, json.len, out->file);
    fputc('\n', out->file);
    fflush(out->file);
}

void cay_output_names(struct cay_output *out, const char *what, struct cay_pb_strs names)
{
    if (!names.count)
        return;
    cay_output_printf(out, "%s", what);
    for (size_t i = 0; i < names.count; i++) {
        cay_output_printf(out, "%s", i ? ", " : " ");
        cay_output_text(out, CAY_STYLE_PLAIN, names.items[i]);
    }
    cay_output_printf(out, "\n");
}

bool cay_output_message(struct cay_output *out, const struct cay_pb_message *desc,
                        const void *message, struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf json;
    cay_buf_init(&json, JSON_BYTES_MAX);
    if (cay_pb_json_write(desc, message, NULL, &json) < 0)
        return cay_fail(err, CAY_R_INTERNAL, "the daemon's %s has no JSON form", desc->full_name);
    cay_output_json(out, cay_buf_str(&json));
    return true;
}

static void json_error(struct cay_output *out, const struct cay_error *err)
{
    const struct cay_reason_info *info = cay_reason_info(err->reason);
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, 8 * sizeof(err->text));
    struct cay_json_writer json = {.buf = &buf};
    cay_json_object_begin(&json);
    cay_json_key(&json, "error");
    cay_json_object_begin(&json);
    cay_json_key(&json, "code");
    cay_json_text(&json, cay_code_name(info->code));
    cay_json_key(&json, "reason");
    cay_json_text(&json, info->name);
    cay_json_key(&json, "message");
    cay_json_text(&json, err->text);
    cay_json_object_end(&json);
    cay_json_object_end(&json);
    cay_output_json(out, cay_buf_str(&buf));
}

void cay_output_error(struct cay_output *out, const struct cay_error *err)
{
    struct cay_output to_people = {.file = stderr, .has_colour = wants_colour(stderr)};
    fflush(out->file);
    if (out->is_json)
        json_error(out, err);
    cay_output_text(&to_people, CAY_STYLE_BAD, CAY_STR("cay: "));
    cay_output_text(&to_people, CAY_STYLE_PLAIN, cay_str(err->text));
    cay_output_printf(&to_people, "\n");
}

void cay_output_when(const struct google_protobuf_timestamp *time, int64_t now_ns,
                     char text[CAY_WHEN_BYTES])
{
    static const struct {
        int64_t seconds;
        const char *unit;
    } units[] = {{86400, "d"}, {3600, "h"}, {60, "m"}, {1, "s"}};
    if (!time) {
        snprintf(text, CAY_WHEN_BYTES, "never");
        return;
    }
    int64_t distance = 0;
    if (__builtin_sub_overflow(now_ns / CAY_NS_PER_SEC, time->seconds, &distance))
        distance = time->seconds < 0 ? INT64_MAX : -INT64_MAX;
    bool is_past = distance >= 0;
    if (!is_past)
        distance = -distance;
    size_t i = 0;
    while (i + 1 < CAY_COUNT(units) && distance < units[i].seconds)
        i++;
    if (!distance)
        snprintf(text, CAY_WHEN_BYTES, "now");
    else
        snprintf(text, CAY_WHEN_BYTES, "%s%lld%s%s", is_past ? "" : "in ",
                 (long long)(distance / units[i].seconds), units[i].unit, is_past ? " ago" : "");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/run.h"
#include "tool/search/text.h"

enum {
    LINES_DEFAULT = 2000,
    LINE_CHARACTERS_MAX = 2000,
    TRAILER_BYTES = 160, /* kept free for what is said at the end */
};

struct reading {
    struct cay_str content;
    struct cay_buf text;
    int64_t total_lines;
    int64_t shown_lines;
    int64_t cut_lines;
    size_t shown_bytes;
};

static int64_t count_lines(struct cay_str content)
{
    int64_t lines = 0;
    struct cay_str rest = content;
    while (rest.len > 0) {
        const char *newline = memchr(rest.ptr, '\n', rest.len);
        size_t len = newline ? (size_t)(newline - rest.ptr) + 1 : rest.len;
        rest = (struct cay_str){rest.ptr + len, rest.len - len};
        lines++;
    }
    return lines;
}

/* The next line with its newline; empty at the end. */
static struct cay_str next_line(struct cay_str *rest)
{
    const char *newline = rest->len ? memchr(rest->ptr, '\n', rest->len) : NULL;
    size_t len = newline ? (size_t)(newline - rest->ptr) + 1 : rest->len;
    struct cay_str line = {rest->ptr, len};
    *rest = (struct cay_str){rest->len ? rest->ptr + len : NULL, rest->len - len};
    return line;
}

/* Right-aligned, six wide, and a tab. By hand: this is most of the work of a short file. */
static void append_number(struct cay_buf *text, int64_t number)
{
    char digits[24];
    size_t at = sizeof(digits);
    digits[--at] = '\t';
    for (size_t width = 0; number > 0 || width < 6; number /= 10, width++)
        digits[--at] = number > 0 ? (char)('0' + number % 10) : ' ';
    cay_buf_append(text, digits + at, sizeof(digits) - at);
}

static void show_lines(struct reading *reading, int64_t offset, int64_t limit, size_t text_max)
{
    struct cay_str rest = reading->content;
    for (int64_t skipped = 0; skipped < offset; skipped++)
        (void)next_line(&rest);
    size_t room = text_max > TRAILER_BYTES ? text_max - TRAILER_BYTES : text_max / 2;
    while (reading->shown_lines < limit && rest.len > 0) {
        struct cay_str line = next_line(&rest);
        size_t whole = line.len;
        if (line.ptr[line.len - 1] == '\n')
            line.len--;
        size_t before = reading->text.len;
        append_number(&reading->text, offset + reading->shown_lines + 1);
        bool cut = cay_text_append_line(&reading->text, line, LINE_CHARACTERS_MAX);
        cay_buf_append_byte(&reading->text, '\n');
        if (reading->text.len > room) {
            reading->text.len = before;
            /* A first line that is too long alone is shown as far as it goes. */
            if (reading->shown_lines > 0)
                return;
            append_number(&reading->text, offset + 1);
            cut = cay_text_append_line(&reading->text, line, CAY_MAX(room, (size_t)64) / 8);
            cay_buf_append_byte(&reading->text, '\n');
        }
        reading->shown_lines++;
        reading->cut_lines += cut;
        reading->shown_bytes += whole;
    }
}

static void show_trailer(struct cay_tool_run *run, struct reading *reading, int64_t offset)
{
    int64_t next = offset + reading->shown_lines;
    bool more = next < reading->total_lines;
    if (offset > 0 || more) {
        cay_buf_printf(&reading->text, "(lines %lld to %lld of %lld", (long long)(offset + 1),
                       (long long)next, (long long)reading->total_lines);
        if (more)
            cay_buf_printf(&reading->text, "; offset=%lld goes on", (long long)next);
        cay_buf_append_text(&reading->text, ")\n");
    }
    if (!more && !offset && !reading->cut_lines)
        return;
    *cay_run_truncated(run) = (struct cay_v1_truncation){
        .total_items = reading->total_lines,
        .shown_items = reading->shown_lines,
        .total_bytes = (int64_t)reading->content.len,
        .shown_bytes = (int64_t)reading->shown_bytes,
        .cut_lines = reading->cut_lines,
        .has_next_offset = more,
        .next_offset = more ? next : 0,
    };
}

/* What can be shown to a model as a picture, by its first bytes. */
static const char *image_type(struct cay_str content)
{
    static const struct {
        const char *type, *magic;
        size_t at, len;
    } kinds[] = {
        {"image/png", "\x89PNG\r\n\x1a\n", 0, 8},
        {"image/jpeg", "\xff\xd8\xff", 0, 3},
        {"image/gif", "GIF87a", 0, 6},
        {"image/gif", "GIF89a", 0, 6},
        {"image/webp", "WEBP", 8, 4},
    };
    for (size_t i = 0; i < CAY_COUNT(kinds); i++) {
        bool is_long = content.len >= kinds[i].at + kinds[i].len;
        bool is_riff = kinds[i].at == 0 || cay_str_starts(content, "RIFF");
        if (is_long && is_riff &&
            memcmp(content.ptr + kinds[i].at, kinds[i].magic, kinds[i].len) == 0)
            return kinds[i].type;
    }
    return NULL;
}

static bool show_image(struct cay_tool_run *run, struct cay_str content, const char *type,
                       const char *shown)
{
    cay_run_fact_number(run, "size_bytes", (int64_t)content.len);
    cay_run_fact_text(run, "mime_type", type);
    if (content.len > CAY_TOOL_IMAGE_BYTES_MAX)
        return cay_run_fail(run, "file_too_large", "'%s' is an image of %zu bytes; at most %d MiB",
                            shown, content.len, CAY_TOOL_IMAGE_BYTES_MAX >> 20);
    return cay_run_done_image(run, type, content);
}

static bool show(struct cay_tool_run *run, struct reading *reading, const char *shown)
{
    int64_t offset = cay_run_number(run, "offset", 0);
    reading->total_lines = count_lines(reading->content);
    cay_run_fact_number(run, "total_lines", reading->total_lines);
    cay_run_fact_number(run, "size_bytes", (int64_t)reading->content.len);
    if (cay_text_is_binary(reading->content))
        return cay_run_fail(run, "binary_file", "'%s' is a binary file of %zu bytes", shown,
                            reading->content.len);
    if (offset > 0 && offset >= reading->total_lines)
        return cay_run_fail(run, "offset_out_of_range",
                            "'%s' has %lld lines; offset %lld is beyond its end", shown,
                            (long long)reading->total_lines, (long long)offset);
    cay_buf_init(&reading->text, CAY_TOOL_TEXT_BYTES_MAX + (size_t)64 * 1024);
    size_t likely = reading->content.len + (size_t)reading->total_lines * 7 + TRAILER_BYTES;
    (void)cay_buf_reserve(&reading->text, CAY_MIN(likely, run->text_bytes_max));
    if (!reading->total_lines) {
        cay_buf_append_text(&reading->text, "(the file is empty)\n");
    } else {
        bool newline = reading->content.ptr[reading->content.len - 1] == '\n';
        cay_run_fact_flag(run, "ends_with_newline", newline);
        show_lines(reading, offset, cay_run_number(run, "limit", LINES_DEFAULT),
                   run->text_bytes_max);
        show_trailer(run, reading, offset);
    }
    bool done = cay_run_done(run, &reading->text);
    cay_buf_finish(&reading->text);
    return done;
}

bool cay_tool_read_file(struct cay_tool_run *run)
{
    struct cay_path path;
    struct stat st;
    cay_auto(cay_buf_finish) struct cay_buf content = {};
    bool over = false;
    if (!cay_run_path(run, "path", (struct cay_str){}, &path, &over) ||
        !cay_run_read(run, &path, &content, &st, &over))
        return over;
    char shown[256];
    cay_path_excerpt((struct cay_str){path.bytes, path.len}, shown, sizeof(shown));
    struct reading reading = {.content = cay_buf_str(&content)};
    const char *image = image_type(reading.content);
    if (image)
        return show_image(run, reading.content, image, shown);
    return show(run, &reading, shown);
}

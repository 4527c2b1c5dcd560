/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/run.h"
#include "tool/search/text.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "tool/tree/write.h"

enum {
    WHOLE_FILE_LINES = 20, /* a file this short is shown whole when nothing matched */
    LINES_BEFORE = 2,
    LINES_AFTER = 5,
    LINE_CHARACTERS_MAX = 500,
    PART_BYTES_MIN = 4, /* shorter parts of a line say nothing */
    PLACES_SHOWN = 5,
};

struct edit {
    struct cay_path path;
    char shown[256];
    struct stat before;
    struct cay_str content, old_string, new_string;
};

static int64_t line_number(struct cay_str content, const char *at)
{
    int64_t line = 1;
    for (const char *p = content.ptr; (p = memchr(p, '\n', (size_t)(at - p))); p++)
        line++;
    return line;
}

static size_t count_matches(const struct edit *edit, struct cay_buf *places)
{
    size_t count = 0;
    const char *end = edit->content.ptr + edit->content.len;
    for (const char *at = edit->content.ptr;
         at && (at = memmem(at, (size_t)(end - at), edit->old_string.ptr, edit->old_string.len));
         at += edit->old_string.len) {
        if (count < PLACES_SHOWN)
            cay_buf_printf(places, "%s%lld", count ? ", " : "",
                           (long long)line_number(edit->content, at));
        count++;
    }
    return count;
}

/* The place where the longest beginning of the first line of old_string stands; NULL for none. */
static const char *nearest_place(const struct edit *edit)
{
    struct cay_str rest = edit->old_string;
    struct cay_str line = {};
    while (!line.len && cay_str_split(&rest, '\n', &line))
        line = cay_str_trim(line);
    for (size_t len = line.len; len >= PART_BYTES_MIN; len = len * 3 / 4) {
        const char *found = memmem(edit->content.ptr, edit->content.len, line.ptr, len);
        if (found)
            return found;
    }
    return NULL;
}

static void show_lines(const struct edit *edit, int64_t first, int64_t last, struct cay_buf *text)
{
    struct cay_str rest = edit->content;
    struct cay_str line;
    for (int64_t number = 1; number <= last && rest.len && cay_str_split(&rest, '\n', &line);
         number++) {
        if (number < first)
            continue;
        cay_buf_printf(text, "%6lld\t", (long long)number);
        (void)cay_text_append_line(text, line, LINE_CHARACTERS_MAX);
        cay_buf_append_byte(text, '\n');
    }
}

static bool fail_no_match(struct cay_tool_run *run, const struct edit *edit)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, CAY_TOOL_TEXT_BYTES_MAX);
    cay_buf_printf(&text, "old_string is not in '%s'", edit->shown);
    struct cay_str content = edit->content;
    bool crlf = content.len && memmem(content.ptr, content.len, "\r\n", 2);
    if (crlf && memchr(edit->old_string.ptr, '\n', edit->old_string.len))
        cay_buf_append_text(&text, " (its lines end in CR LF)");
    if (!content.len) {
        cay_buf_append_text(&text, ", which is empty\n");
        return cay_run_fail_text(run, "no_match", &text);
    }
    int64_t lines = line_number(content, content.ptr + content.len);
    const char *near = nearest_place(edit);
    if (lines <= WHOLE_FILE_LINES + 1) {
        cay_buf_append_text(&text, ". The file is:\n");
        show_lines(edit, 1, WHOLE_FILE_LINES + 1, &text);
    } else if (near) {
        int64_t line = line_number(content, near);
        cay_buf_printf(&text, ". Its first line is most like line %lld:\n", (long long)line);
        show_lines(edit, line - LINES_BEFORE, line + LINES_AFTER, &text);
    } else {
        cay_buf_append_text(&text, ", and no line of it is like its first line\n");
    }
    return cay_run_fail_text(run, "no_match", &text);
}

static void replace(const struct edit *edit, struct cay_buf *out)
{
    const char *at = edit->content.ptr;
    const char *end = at + edit->content.len;
    for (const char *found;
         (found = memmem(at, (size_t)(end - at), edit->old_string.ptr, edit->old_string.len));) {
        cay_buf_append(out, at, (size_t)(found - at));
        cay_buf_append_str(out, edit->new_string);
        at = found + edit->old_string.len;
    }
    cay_buf_append(out, at, (size_t)(end - at));
}

/* What was read is still what is there. */
static bool is_unchanged(const struct edit *edit, const struct stat *now)
{
    const struct stat *before = &edit->before;
    return now->st_dev == before->st_dev && now->st_ino == before->st_ino &&
           now->st_size == before->st_size && now->st_mtim.tv_sec == before->st_mtim.tv_sec &&
           now->st_mtim.tv_nsec == before->st_mtim.tv_nsec;
}

static bool save(struct cay_tool_run *run, const struct edit *edit, struct cay_str content,
                 bool *out_over)
{
    struct cay_write_options options = {.size = (int64_t)content.len};
    struct cay_write write;
    *out_over = false;
    if (!cay_write_open(run->tree, &edit->path, &options, &write, run->err)) {
        *out_over = cay_run_fail_error(run);
        return false;
    }
    if (!is_unchanged(edit, &write.old)) {
        cay_write_abort(&write);
        *out_over =
            cay_run_fail(run, "file_changed",
                         "'%s' was changed by somebody else meanwhile; read it again", edit->shown);
        return false;
    }
    bool written = cay_write_data(&write, content, run->err);
    if (!written)
        cay_write_abort(&write);
    if (!written || !cay_write_commit(&write, run->err)) {
        *out_over = cay_run_fail_error(run);
        return false;
    }
    return true;
}

static bool apply(struct cay_tool_run *run, const struct edit *edit)
{
    cay_auto(cay_buf_finish) struct cay_buf places;
    cay_buf_init(&places, 1024);
    size_t count = count_matches(edit, &places);
    if (places.no_memory)
        return cay_run_fail_memory(run);
    if (!count)
        return fail_no_match(run, edit);
    cay_run_fact_number(run, "match_count", (int64_t)count);
    if (count > 1 && !cay_run_flag(run, "replace_all", false))
        return cay_run_fail(run, "ambiguous_match",
                            "old_string is in '%s' %zu times (lines %.*s%s); make it longer, or "
                            "set replace_all",
                            edit->shown, count, (int)places.len, places.data,
                            count > PLACES_SHOWN ? ", ..." : "");
    cay_auto(cay_buf_finish) struct cay_buf content;
    cay_buf_init(&content, CAY_TOOL_FILE_BYTES_MAX);
    replace(edit, &content);
    if (content.no_memory)
        return cay_run_fail_memory(run);
    if (content.failed)
        return cay_run_fail(run, "file_too_large", "'%s' would become larger than %d MiB",
                            edit->shown, CAY_TOOL_FILE_BYTES_MAX >> 20);
    bool over = false;
    if (!save(run, edit, cay_buf_str(&content), &over))
        return over;
    cay_run_fact_number(run, "replacements", (int64_t)count);
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, CAY_TOOL_TEXT_BYTES_MAX);
    cay_buf_printf(&text, "edited %s: %zu replacement%s\n", edit->shown, count,
                   count == 1 ? "" : "s");
    return cay_run_done(run, &text);
}

bool cay_tool_edit_file(struct cay_tool_run *run)
{
    struct edit edit = {
        .old_string = cay_run_text(run, "old_string", (struct cay_str){}),
        .new_string = cay_run_text(run, "new_string", (struct cay_str){}),
    };
    cay_auto(cay_buf_finish) struct cay_buf content = {};
    bool over = false;
    if (!cay_run_path(run, "path", (struct cay_str){}, &edit.path, &over) ||
        !cay_run_read(run, &edit.path, &content, &edit.before, &over))
        return over;
    edit.content = cay_buf_str(&content);
    cay_path_excerpt((struct cay_str){edit.path.bytes, edit.path.len}, edit.shown,
                     sizeof(edit.shown));
    if (cay_str_equal(edit.old_string, edit.new_string))
        return cay_run_fail(run, "no_change", "old_string and new_string are the same");
    if (cay_text_is_binary(edit.content))
        return cay_run_fail(run, "binary_file", "'%s' is a binary file", edit.shown);
    return apply(run, &edit);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/search/search.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stop.h"
#include "tool/search/text.h"
#include "tool/tree/path.h"

/* One file on its way through the block. */
struct progress {
    struct cay_str path;
    size_t file;
    int64_t left; /* bytes that should still come */
    int64_t shown_max;
    int64_t shown;
    int64_t matches;
    struct cay_str text; /* whole lines, in the block */
    size_t kept;         /* the first bytes of text are lines of the last block, for context */
    size_t counted_to;   /* lines before here are counted in `line` */
    int64_t line;        /* number of the line at counted_to */
    size_t printed_to;   /* what stands before has been written (or is too far back) */
    unsigned after_left; /* lines of context still to write */
    bool gap;            /* something was left out since the last line written */
};

bool cay_searcher_init(struct cay_searcher *searcher, const struct cay_pattern *pattern,
                       unsigned context_lines, int64_t deadline_ms)
{
    *searcher = (struct cay_searcher){.context_lines = context_lines, .deadline_ms = deadline_ms};
    cay_buf_init(&searcher->text, CAY_SEARCH_TEXT_BYTES_MAX);
    searcher->block = malloc(CAY_SEARCH_BLOCK_BYTES);
    searcher->failed =
        !cay_matcher_init(&searcher->matcher, pattern, deadline_ms) || !searcher->block;
    return !searcher->failed;
}

void cay_searcher_finish(struct cay_searcher *searcher)
{
    cay_matcher_finish(&searcher->matcher);
    cay_buf_finish(&searcher->text);
    free(searcher->block);
    free(searcher->hits);
    *searcher = (struct cay_searcher){};
}

static size_t line_end(struct cay_str text, size_t at)
{
    const char *newline = memchr(text.ptr + at, '\n', text.len - at);
    return newline ? (size_t)(newline - text.ptr) : text.len;
}

static int64_t line_at(struct progress *p, size_t at)
{
    while (p->counted_to < at) {
        p->counted_to = line_end(p->text, p->counted_to) + 1;
        p->line++;
    }
    return p->line;
}

static void write_line(struct cay_searcher *searcher, struct progress *p, size_t start, size_t end,
                       bool is_match)
{
    struct cay_buf *text = &searcher->text;
    struct cay_str line = {p->text.ptr + start, end - start};
    if (line.len && line.ptr[line.len - 1] == '\r')
        line.len--;
    if (p->gap && searcher->context_lines && p->shown)
        cay_buf_append_text(text, "--\n");
    p->gap = false;
    if (is_match) {
        cay_path_append_shown(text, p->path);
        cay_buf_printf(text, ":%lld: ", (long long)line_at(p, start));
    } else {
        cay_buf_printf(text, "    %lld- ", (long long)line_at(p, start));
    }
    searcher->cut_lines += cay_text_append_line(text, line, CAY_SEARCH_LINE_CHARACTERS);
    cay_buf_append_byte(text, '\n');
    p->printed_to = CAY_MIN(end + 1, p->text.len);
}

/* Context behind the last match, up to `limit`. */
static void write_after(struct cay_searcher *searcher, struct progress *p, size_t limit)
{
    while (p->after_left && p->printed_to < limit) {
        size_t start = p->printed_to;
        write_line(searcher, p, start, line_end(p->text, start), false);
        p->after_left--;
    }
}

static void write_before(struct cay_searcher *searcher, struct progress *p, size_t start)
{
    size_t from = start;
    for (unsigned i = 0; i < searcher->context_lines && from > p->printed_to; i++) {
        const char *newline = memrchr(p->text.ptr + p->printed_to, '\n', from - 1 - p->printed_to);
        from = newline ? (size_t)(newline - p->text.ptr) + 1 : p->printed_to;
    }
    p->gap = p->gap || from > p->printed_to;
    /* Counting goes forward only. */
    while (from < start) {
        size_t end = line_end(p->text, from);
        write_line(searcher, p, from, end, false);
        from = end + 1;
    }
}

static bool add_hit(struct cay_searcher *searcher, const struct progress *p)
{
    if (searcher->hit_count == searcher->hit_cap) {
        size_t cap = CAY_MAX(searcher->hit_cap * 2, (size_t)16);
        struct cay_search_hit *hits = reallocarray(searcher->hits, cap, sizeof(*hits));
        searcher->failed = searcher->failed || !hits;
        if (!hits)
            return false;
        searcher->hits = hits;
        searcher->hit_cap = cap;
    }
    searcher->hits[searcher->hit_count++] =
        (struct cay_search_hit){.file = p->file, .text_at = searcher->text.len};
    return true;
}

/* What was written since belongs to the last hit of the file. */
static void close_hit(struct cay_searcher *searcher, const struct progress *p)
{
    if (!p->shown)
        return;
    struct cay_search_hit *hit = &searcher->hits[searcher->hit_count - 1];
    hit->text_len = searcher->text.len - hit->text_at;
}

static void show_match(struct cay_searcher *searcher, struct progress *p, size_t start, size_t end)
{
    write_after(searcher, p, start);
    close_hit(searcher, p);
    if (!add_hit(searcher, p))
        return;
    if (searcher->context_lines)
        write_before(searcher, p, start);
    write_line(searcher, p, start, end, true);
    p->after_left = searcher->context_lines;
    p->shown++;
}

static void search_block(struct cay_searcher *searcher, struct progress *p)
{
    size_t start = 0;
    size_t end = 0;
    for (size_t from = p->kept; cay_matcher_next(&searcher->matcher, p->text, from, &start, &end);
         from = end + 1) {
        p->matches++;
        if (p->shown < p->shown_max)
            show_match(searcher, p, start, end);
    }
    write_after(searcher, p, p->text.len);
}

/* The start of the last lines that a match at the beginning of the next block may want to show. */
static size_t context_start(const struct cay_searcher *searcher, struct cay_str text)
{
    size_t at = text.len;
    for (unsigned i = 0; i < searcher->context_lines && at > 0; i++) {
        const char *newline = memrchr(text.ptr, '\n', at - 1);
        size_t start = newline ? (size_t)(newline - text.ptr) + 1 : 0;
        if (text.len - start > CAY_SEARCH_BLOCK_BYTES / 4)
            break;
        at = start;
    }
    return at;
}

/* Moves what is still needed to the front of the block; returns how much there is. */
static size_t move_rest(struct cay_searcher *searcher, struct progress *p, size_t filled)
{
    bool more = p->shown < p->shown_max;
    size_t keep_from = more ? context_start(searcher, p->text) : p->text.len;
    if (more || p->after_left) {
        (void)line_at(p, keep_from);
        /* Counting goes forward only: what is behind the count cannot be shown any more. */
        keep_from = p->counted_to = CAY_MIN(p->counted_to, p->text.len);
    }
    memmove(searcher->block, searcher->block + keep_from, filled - keep_from);
    p->kept = p->text.len - keep_from;
    p->counted_to -= CAY_MIN(p->counted_to, keep_from);
    p->gap = p->gap || p->printed_to < keep_from;
    p->printed_to -= CAY_MIN(p->printed_to, keep_from);
    return filled - keep_from;
}

/* Reads up to the end of the block. A file that has given as much as it said is not asked again. */
static ssize_t fill(int fd, char *at, size_t len, int64_t *left)
{
    size_t got = 0;
    while (got < len) {
        ssize_t some = read(fd, at + got, len - got);
        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0 && got == 0)
            return -errno;
        if (some <= 0)
            break;
        got += (size_t)some;
        *left -= some;
        if (*left == 0)
            break;
    }
    return (ssize_t)got;
}

static void search_file(struct cay_searcher *searcher, int fd, struct progress *p)
{
    size_t filled = 0;
    for (bool first = true;; first = false) {
        size_t room = CAY_SEARCH_BLOCK_BYTES - filled;
        ssize_t got = fill(fd, searcher->block + filled, room, &p->left);
        if (got < 0)
            searcher->unreadable++;
        bool last = got < (ssize_t)room || p->left == 0;
        filled += got > 0 ? (size_t)got : 0;
        if (first && cay_text_is_binary((struct cay_str){searcher->block, filled})) {
            searcher->binary++;
            return;
        }
        const char *newline = last ? NULL : memrchr(searcher->block, '\n', filled);
        p->text = (struct cay_str){searcher->block,
                                   newline ? (size_t)(newline - searcher->block) + 1 : filled};
        /* A block without any newline behind the kept lines is one piece of a longer line. */
        if (p->text.len <= p->kept)
            p->text.len = filled;
        search_block(searcher, p);
        searcher->late = searcher->matcher.late || cay_stop_asked() ||
                         (!last && cay_clock_ms() > searcher->deadline_ms);
        if (last || searcher->late)
            return;
        filled = move_rest(searcher, p, filled);
    }
}

int64_t cay_searcher_file(struct cay_searcher *searcher, int fd, int64_t size, size_t file,
                          struct cay_str shown_path, int64_t shown_max)
{
    struct progress p = {
        .path = shown_path, .file = file, .left = size, .shown_max = shown_max, .line = 1};
    searcher->files++;
    search_file(searcher, fd, &p);
    close_hit(searcher, &p);
    searcher->matches += p.matches;
    return p.matches;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "host/store/diff_patch.h"

/* Includes its newline, so that a missing last one is a difference. */
struct line {
    const char *ptr;
    uint32_t len;
    uint32_t hash;
};

struct text {
    struct line *lines;
    size_t count;
    bool *changed; /* deleted from the first text, added to the second */
};

bool cay_patch_is_binary(struct cay_str text)
{
    size_t probe = CAY_MIN(text.len, (size_t)CAY_PATCH_BINARY_PROBE_BYTES);
    return probe > 0 && memchr(text.ptr, '\0', probe) != NULL;
}

static void text_finish(struct text *text)
{
    free(text->lines);
    free(text->changed);
}

static bool text_split(struct text *text, struct cay_str bytes)
{
    size_t cap = 0;
    for (const char *at = bytes.ptr, *end = bytes.ptr + bytes.len; at && at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *next = newline ? newline + 1 : end;
        if (text->count == CAY_PATCH_LINES_MAX)
            return false;
        if (text->count == cap) {
            cap = CAY_MAX(cap * 2, (size_t)64);
            text->lines = cay_realloc_array(text->lines, cap, sizeof(*text->lines));
        }
        uint32_t hash = 2166136261u;
        for (const char *c = at; c < next; c++)
            hash = (hash ^ (unsigned char)*c) * 16777619u;
        text->lines[text->count++] = (struct line){at, (uint32_t)(next - at), hash};
        at = next;
    }
    text->changed = cay_alloc(text->count + 1);
    return true;
}

static bool same(const struct line *a, const struct line *b)
{
    return a->hash == b->hash && a->len == b->len && memcmp(a->ptr, b->ptr, a->len) == 0;
}

/* The middle of both texts, without what they share at the ends. */
struct range {
    const struct text *before;
    const struct text *after;
    size_t begin; /* the same in both */
    size_t before_end;
    size_t after_end;
};

/* Myers' greedy search: reach[d] holds, for each diagonal k = x - y of -d..d, how far x gets with
 * d edits. Returns the number of edits, or -1 when it would be more than `edits_max`. */
static int search(const struct range *range, int edits_max, int **reach)
{
    int n = (int)(range->before_end - range->begin);
    int m = (int)(range->after_end - range->begin);
    const struct line *a = range->before->lines + range->begin;
    const struct line *b = range->after->lines + range->begin;
    for (int d = 0; d <= edits_max; d++) {
        reach[d] = cay_alloc(((size_t)2 * (size_t)d + 1) * sizeof(int));
        const int *previous = d ? reach[d - 1] + (d - 1) : NULL;
        for (int k = -d; k <= d; k += 2) {
            int x = 0;
            if (d > 0) {
                bool down = k == -d || (k != d && previous[k - 1] < previous[k + 1]);
                x = down ? previous[k + 1] : previous[k - 1] + 1;
            }
            while (x < n && x - k >= 0 && x - k < m && same(&a[x], &b[x - k]))
                x++;
            reach[d][d + k] = x;
            if (x >= n && x - k >= m)
                return d;
        }
    }
    return -1;
}

/* Walks the search backwards and marks the lines. */
static void mark(const struct range *range, int edits, int *const *reach)
{
    int x = (int)(range->before_end - range->begin);
    int y = (int)(range->after_end - range->begin);
    for (int d = edits; d > 0; d--) {
        const int *previous = reach[d - 1] + (d - 1);
        int k = x - y;
        bool down = k == -d || (k != d && previous[k - 1] < previous[k + 1]);
        x = down ? previous[k + 1] : previous[k - 1];
        y = x - (down ? k + 1 : k - 1);
        if (down)
            range->after->changed[range->begin + (size_t)y] = true;
        else
            range->before->changed[range->begin + (size_t)x] = true;
    }
}

static void compare(const struct text *before, const struct text *after)
{
    struct range range = {before, after, 0, before->count, after->count};
    while (range.begin < range.before_end && range.begin < range.after_end &&
           same(&before->lines[range.begin], &after->lines[range.begin]))
        range.begin++;
    while (range.before_end > range.begin && range.after_end > range.begin &&
           same(&before->lines[range.before_end - 1], &after->lines[range.after_end - 1])) {
        range.before_end--;
        range.after_end--;
    }
    size_t most = range.before_end + range.after_end - 2 * range.begin;
    int edits_max = (int)CAY_MIN(most, (size_t)CAY_PATCH_EDITS_MAX);
    int **reach = cay_alloc(((size_t)edits_max + 1) * sizeof(int *));
    int edits = search(&range, edits_max, reach);
    if (edits >= 0) {
        mark(&range, edits, reach);
    } else {
        /* Too different: all of the middle goes and comes. */
        memset(before->changed + range.begin, true, range.before_end - range.begin);
        memset(after->changed + range.begin, true, range.after_end - range.begin);
    }
    for (int d = 0; d <= edits_max; d++)
        free(reach[d]);
    free(reach);
}

static void put_line(struct cay_buf *out, char mark_byte, const struct line *line)
{
    cay_buf_append_byte(out, (unsigned char)mark_byte);
    cay_buf_append(out, line->ptr, line->len);
    if (line->len == 0 || line->ptr[line->len - 1] != '\n')
        cay_buf_append_text(out, "\n\\ No newline at end of file\n");
}

static void put_range(struct cay_buf *out, char sign, size_t start, size_t count)
{
    /* An empty range names the line before it. */
    cay_buf_printf(out, "%c%zu", sign, count ? start + 1 : start);
    if (count != 1)
        cay_buf_printf(out, ",%zu", count);
}

/* Lines a..a_end of the first text become b..b_end of the second. */
static void put_hunk(struct cay_buf *out, const struct text *before, const struct text *after,
                     size_t a, size_t a_end, size_t b, size_t b_end)
{
    cay_buf_append_text(out, "@@ ");
    put_range(out, '-', a, a_end - a);
    cay_buf_append_byte(out, ' ');
    put_range(out, '+', b, b_end - b);
    cay_buf_append_text(out, " @@\n");
    while (a < a_end || b < b_end) {
        if (a < a_end && before->changed[a]) {
            put_line(out, '-', &before->lines[a++]);
        } else if (b < b_end && after->changed[b]) {
            put_line(out, '+', &after->lines[b++]);
        } else {
            put_line(out, ' ', &before->lines[a]);
            a++;
            b++;
        }
    }
}

static void put_hunks(struct cay_buf *out, const struct text *before, const struct text *after,
                      size_t context)
{
    size_t a = 0;
    size_t b = 0;
    while (a < before->count || b < after->count) {
        bool changed =
            (a < before->count && before->changed[a]) || (b < after->count && after->changed[b]);
        if (!changed) {
            a++;
            b++;
            continue;
        }
        size_t lead = CAY_MIN(CAY_MIN(a, b), context);
        size_t a_end = a;
        size_t b_end = b;
        size_t quiet = 0; /* unchanged lines since the last change */
        while (a_end < before->count || b_end < after->count) {
            bool deleted = a_end < before->count && before->changed[a_end];
            bool added = b_end < after->count && after->changed[b_end];
            if (!deleted && !added && ++quiet > 2 * context)
                break;
            if (deleted || added)
                quiet = 0;
            a_end += deleted || !added;
            b_end += added || !deleted;
        }
        size_t extra = quiet > context ? CAY_MIN(quiet, 2 * context) - context : 0;
        put_hunk(out, before, after, a - lead, a_end - extra, b - lead, b_end - extra);
        a = a_end;
        b = b_end;
    }
}

bool cay_patch_hunks(struct cay_str before, struct cay_str after, size_t context,
                     struct cay_buf *out)
{
    cay_auto(text_finish) struct text a = {};
    cay_auto(text_finish) struct text b = {};
    if (!text_split(&a, before) || !text_split(&b, after))
        return false;
    compare(&a, &b);
    put_hunks(out, &a, &b, context);
    return true;
}

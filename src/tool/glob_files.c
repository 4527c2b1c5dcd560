/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#include "base/clock.h"
#include "tool/search/glob.h"
#include "tool/tree/walk.h"

enum {
    RESULTS_DEFAULT = 200,
    HEADER_BYTES = 512,
};

struct globbing {
    struct cay_glob glob;
    struct cay_path prefix; /* what the pattern says before its first special character */
    bool directories;       /* instead of files */
    struct cay_buf lines;
    int64_t total;
    int64_t shown;
    bool complete;
    bool full;
};

/* Splits "../src/ *.c" into "../src/" and "*.c": the first part may leave the start (never the
 * tree) and need not be walked. */
static struct cay_str split_prefix(struct cay_str *pattern)
{
    size_t cut = 0;
    for (size_t at = 0; at < pattern->len && !strchr("*?[{\\", pattern->ptr[at]); at++)
        if (pattern->ptr[at] == '/')
            cut = at + 1;
    struct cay_str prefix = {pattern->ptr, cut};
    *pattern = (struct cay_str){pattern->ptr + cut, pattern->len - cut};
    return prefix;
}

static void show_path(const struct cay_tool_run *run, struct globbing *globbing,
                      struct cay_str path, int64_t most)
{
    globbing->total++;
    if (globbing->full || globbing->shown == most)
        return;
    size_t before = globbing->lines.len;
    cay_path_append_shown(&globbing->lines,
                          (struct cay_str){globbing->prefix.bytes, globbing->prefix.len});
    cay_path_append_shown(&globbing->lines, path);
    cay_buf_append_text(&globbing->lines, globbing->directories ? "/\n" : "\n");
    globbing->full = globbing->lines.len > run->text_bytes_max;
    if (globbing->full)
        globbing->lines.len = before;
    else
        globbing->shown++;
}

static void walk_all(const struct cay_tool_run *run, struct globbing *globbing,
                     struct cay_walk *walk)
{
    int64_t most = cay_run_number(run, "max_results", RESULTS_DEFAULT);
    for (struct cay_walk_entry entry; cay_walk_next(walk, &entry);) {
        if (cay_clock_ms() > run->deadline_ms)
            return;
        if ((entry.type == DT_DIR) == globbing->directories &&
            cay_glob_match(&globbing->glob, entry.path))
            show_path(run, globbing, entry.path, most);
    }
    globbing->complete = true;
}

static bool show(struct cay_tool_run *run, struct globbing *globbing, const struct cay_walk *walk)
{
    const char *noun = globbing->directories ? "directories" : "files";
    const char *one = globbing->directories ? "directory" : "file";
    int64_t left_out = walk->unreadable + walk->left_out;
    cay_run_fact_number(run, "match_count", globbing->total);
    cay_run_fact_number(run, "unreadable", left_out);
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, run->text_bytes_max + HEADER_BYTES + 4 * (size_t)CAY_PATH_BYTES_MAX);
    if (!globbing->total)
        cay_buf_printf(&text, "no %s match", noun);
    else
        cay_buf_printf(&text, "%lld %s", (long long)globbing->total,
                       globbing->total == 1 ? one : noun);
    if (globbing->shown < globbing->total)
        cay_buf_printf(&text, " (the first %lld are shown)", (long long)globbing->shown);
    if (left_out)
        cay_buf_printf(&text, " (%lld directories could not be read)", (long long)left_out);
    if (!globbing->complete)
        cay_buf_append_text(&text, " (time ran out; there may be more)");
    cay_buf_append_text(&text, globbing->total ? "\n\n" : "\n");
    cay_buf_append_str(&text, cay_buf_str(&globbing->lines));
    if (globbing->shown < globbing->total || !globbing->complete)
        *cay_run_truncated(run) =
            (struct cay_v1_truncation){.total_items = globbing->complete ? globbing->total : 0,
                                       .shown_items = globbing->shown};
    text.failed = text.failed || globbing->lines.failed;
    return cay_run_done(run, &text);
}

/* The directory the walk begins at: the parameter `path`, then the pattern's own beginning. */
static int open_start(struct cay_tool_run *run, struct cay_str prefix, struct cay_path *out_start,
                      bool *out_over)
{
    struct cay_str from = cay_run_text(run, "path", CAY_STR("."));
    const char *text = NULL;
    if (prefix.len && prefix.ptr[0] == '/')
        text = cay_arena_copy(run->arena, prefix);
    else
        text = cay_arena_printf(run->arena, "%.*s/%.*s", (int)from.len, from.ptr, (int)prefix.len,
                                prefix.len ? prefix.ptr : "");
    /* A NUL would cut the joined text short; alone it is refused. */
    struct cay_str joined = text ? cay_str(text) : (struct cay_str){};
    if (from.len && memchr(from.ptr, '\0', from.len))
        joined = from;
    if (!text || !cay_path_resolve(run->tree, joined, out_start, run->err)) {
        *out_over =
            text ? cay_run_fail_error(run) : cay_fail(run->err, CAY_R_RESOURCE_EXHAUSTED, NULL);
        return -1;
    }
    int fd = cay_tree_open(run->tree, out_start->bytes, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        *out_over = cay_run_fail_errno(run, fd, out_start);
    return fd;
}

bool cay_tool_glob(struct cay_tool_run *run)
{
    struct globbing globbing = {};
    struct cay_path decoded;
    if (!cay_path_decode(cay_run_text(run, "pattern", (struct cay_str){}), &decoded, run->err))
        return cay_run_fail_error(run);
    struct cay_str pattern = {decoded.bytes, decoded.len};
    globbing.directories = pattern.ptr[pattern.len - 1] == '/';
    while (pattern.len > 1 && pattern.ptr[pattern.len - 1] == '/')
        pattern.len--;
    struct cay_str prefix = split_prefix(&pattern);
    const char *problem = NULL;
    if (!cay_glob_compile(pattern, run->arena, &globbing.glob, &problem))
        return problem
                   ? cay_run_fail(run, "invalid_pattern", "the pattern is not valid: %s", problem)
                   : cay_run_fail_memory(run);
    struct cay_path start;
    bool over = false;
    cay_autoclose int fd = open_start(run, prefix, &start, &over);
    if (fd < 0)
        return over;
    memcpy(globbing.prefix.bytes, prefix.ptr, prefix.len);
    globbing.prefix.len = prefix.len;
    cay_buf_init(&globbing.lines, run->text_bytes_max + 4 * (size_t)CAY_PATH_BYTES_MAX);
    struct cay_walk_options options = {
        .depth_max = globbing.glob.any_depth ? 0 : globbing.glob.depth_max,
        .hidden = cay_run_flag(run, "hidden", false),
    };
    struct cay_walk walk;
    cay_walk_init(&walk, fd, &options);
    walk_all(run, &globbing, &walk);
    bool done = walk.failed ? cay_run_fail_memory(run) : show(run, &globbing, &walk);
    cay_walk_finish(&walk);
    cay_buf_finish(&globbing.lines);
    return done;
}

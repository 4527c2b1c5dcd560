/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "tool/tree/walk.h"

enum {
    RESULTS_DEFAULT = 1000,
    HEADER_BYTES = 4 * CAY_PATH_BYTES_MAX + 256,
};

static const char *kind_of(unsigned char type)
{
    switch (type) {
    case DT_REG: return "file";
    case DT_DIR: return "dir";
    case DT_LNK: return "link";
    case DT_FIFO: return "fifo";
    case DT_SOCK: return "sock";
    default: return "dev";
    }
}

static void show_entry(struct cay_walk *walk, const struct cay_walk_entry *entry,
                       struct cay_buf *text)
{
    int dir_fd = cay_walk_dir_fd(walk);
    struct stat st = {};
    bool known = dir_fd >= 0 && fstatat(dir_fd, entry->name.ptr, &st, AT_SYMLINK_NOFOLLOW) == 0;
    cay_buf_printf(text, "%-4s ", kind_of(entry->type));
    if (entry->type == DT_REG && known)
        cay_buf_printf(text, "%10lld  ", (long long)st.st_size);
    else
        cay_buf_printf(text, "%10s  ", entry->type == DT_REG ? "?" : "-");
    cay_path_append_shown(text, entry->path);
    if (entry->type == DT_DIR)
        cay_buf_append_byte(text, '/');
    if (entry->type == DT_LNK && known) {
        char target[CAY_PATH_BYTES_MAX];
        ssize_t len = readlinkat(dir_fd, entry->name.ptr, target, sizeof(target));
        cay_buf_append_text(text, " -> ");
        cay_path_append_shown(text, (struct cay_str){target, len > 0 ? (size_t)len : 0});
    }
    cay_buf_append_byte(text, '\n');
}

struct counts {
    int64_t total;
    int64_t shown;
    bool complete;
};

static void show_entries(const struct cay_tool_run *run, struct cay_walk *walk,
                         struct cay_buf *text, struct counts *counts)
{
    int64_t most = cay_run_number(run, "max_results", RESULTS_DEFAULT);
    bool full = false;
    for (struct cay_walk_entry entry; cay_walk_next(walk, &entry);) {
        if (cay_clock_ms() > run->deadline_ms)
            return;
        counts->total++;
        if (full || counts->shown == most)
            continue;
        size_t before = text->len;
        show_entry(walk, &entry, text);
        full = text->len > run->text_bytes_max;
        if (full)
            text->len = before;
        else
            counts->shown++;
    }
    counts->complete = true;
}

static bool show(struct cay_tool_run *run, struct cay_walk *walk, const struct cay_path *path)
{
    cay_auto(cay_buf_finish) struct cay_buf lines;
    cay_buf_init(&lines, run->text_bytes_max + HEADER_BYTES);
    struct counts counts = {};
    show_entries(run, walk, &lines, &counts);
    if (walk->failed)
        return cay_run_fail_memory(run);
    int64_t left_out = walk->unreadable + walk->left_out;
    cay_run_fact_number(run, "entry_count", counts.total);
    cay_run_fact_number(run, "unreadable", left_out);
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, run->text_bytes_max + (size_t)2 * HEADER_BYTES);
    cay_buf_printf(&text, "%lld %s in ", (long long)counts.total,
                   counts.total == 1 ? "entry" : "entries");
    cay_path_append_shown(&text, (struct cay_str){path->bytes, path->len});
    if (counts.shown < counts.total)
        cay_buf_printf(&text, " (the first %lld are shown)", (long long)counts.shown);
    if (left_out)
        cay_buf_printf(&text, " (%lld directories could not be read)", (long long)left_out);
    if (!counts.complete)
        cay_buf_append_text(&text, " (time ran out; there may be more)");
    cay_buf_append_text(&text, "\n\n");
    cay_buf_append_str(&text, cay_buf_str(&lines));
    if (counts.shown < counts.total || !counts.complete)
        *cay_run_truncated(run) = (struct cay_v1_truncation){
            .total_items = counts.complete ? counts.total : 0, .shown_items = counts.shown};
    text.failed = text.failed || lines.failed;
    return cay_run_done(run, &text);
}

bool cay_tool_list_dir(struct cay_tool_run *run)
{
    struct cay_path path;
    bool over = false;
    if (!cay_run_path(run, "path", CAY_STR("."), &path, &over))
        return over;
    cay_autoclose int fd = cay_tree_open(run->tree, path.bytes, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return cay_run_fail_errno(run, fd, &path);
    struct cay_walk_options options = {
        .depth_max = (unsigned)cay_run_number(run, "depth", 1), .hidden = true, .by_name = true};
    struct cay_walk walk;
    cay_walk_init(&walk, fd, &options);
    bool done = show(run, &walk, &path);
    cay_walk_finish(&walk);
    return done;
}

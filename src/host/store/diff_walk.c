/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/diff_walk.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/stop.h"
#include "host/store/copy.h"
#include "host/store/diff_touched.h"
#include "host/store/dir_list.h"
#include "host/store/merged.h"
#include "host/store/store_ops.h"
#include "sys/pin.h"

enum {
    DEPTH_MAX = 400, /* a descriptor per level and part; deeper ones are told of, not gone into */
    COMPARE_BYTES = 64 * 1024,
};

struct walk {
    const struct cay_diff_stack *from;
    const struct cay_diff_stack *to;
    const struct cay_diff_request *request;
    struct cay_diff_stats *stats;
    struct cay_error *err;
    struct cay_buf path;
    bool is_too_deep; /* the directory at hand is not gone into */
    bool stopped;
};

static bool walk_dirs(struct walk *walk, const struct cay_merged_dir *from,
                      const struct cay_merged_dir *to, int depth);
static bool has_names(const struct walk *walk, const struct cay_merged_dir *from,
                      const struct cay_merged_dir *to);

static bool fail(struct walk *walk, int neg_errno, const char *what)
{
    return cay_store_fail(walk->err, neg_errno, "%s '%.*s'", what,
                          (int)CAY_MIN(walk->path.len, (size_t)128), walk->path.data);
}

/* A redirect names a path from the root, or another name in the same directory. */
static const char *old_path_of(const char *path, const char *redirect, char out[static PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    int dir_len = redirect[0] == '/' || !slash ? 0 : (int)(slash + 1 - path);
    int len = snprintf(out, PATH_MAX, "%.*s%s", dir_len, path, redirect + (redirect[0] == '/'));
    return len < PATH_MAX ? out : NULL;
}

/* Where a directory that is new at its path was, when the file system can tell. */
static bool was_elsewhere(const struct walk *walk, const struct cay_merged_entry *after,
                          char out[static PATH_MAX])
{
    const struct cay_diff_touched *touched = walk->from->touched;
    return touched && touched->path_of && after->kind == CAY_MERGED_DIR &&
           cay_ino_set_has(&touched->moved, after->st.st_ino) &&
           touched->path_of(walk->from->layers[0].fd, after->st.st_ino, out);
}

static bool emit(struct walk *walk, enum cay_diff_kind kind, const char *name,
                 const struct cay_merged_entry *before, const struct cay_merged_entry *after)
{
    struct cay_diff_entry entry = {
        .kind = kind,
        .is_too_deep = walk->is_too_deep,
        .before = {.dir_fd = -1, .name = name},
        .after = {.dir_fd = -1, .name = name},
    };
    if (before->kind)
        entry.before = (struct cay_diff_side){before->st, before->dir_fd, name};
    if (after->kind)
        entry.after = (struct cay_diff_side){after->st, after->dir_fd, name};
    /* Kept apart from the path's length: callers get a C string. */
    cay_buf_append_byte(&walk->path, '\0');
    if (walk->path.failed)
        return fail(walk, -ENAMETOOLONG, "path of");
    walk->path.len--;
    entry.path = walk->path.data;
    [[gnu::uninitialized]] char old_path[PATH_MAX];
    if (kind == CAY_DIFF_ADDED && after->dir.redirect)
        entry.renamed_from = old_path_of(entry.path, after->dir.redirect, old_path);
    else if (kind == CAY_DIFF_ADDED && was_elsewhere(walk, after, old_path))
        entry.renamed_from = old_path;
    walk->stats->changes++;
    walk->stopped = !walk->request->visit(walk->request->ctx, &entry);
    return true;
}

/* 1 equal, 0 not, -errno. */
static int same_content(struct walk *walk, const struct cay_merged_entry *a,
                        const struct cay_merged_entry *b, const char *name)
{
    if (a->st.st_size != b->st.st_size)
        return 0;
    if (a->st.st_size == 0)
        return 1;
    int flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOATIME;
    cay_autoclose int a_fd = openat(a->dir_fd, name, O_NOFOLLOW | flags);
    cay_autoclose int b_fd = openat(b->dir_fd, name, O_NOFOLLOW | flags);
    if (a_fd < 0 || b_fd < 0)
        return -errno;
    [[gnu::uninitialized]] char
        a_buf[COMPARE_BYTES]; /* zeroing them would cost more than most files */
    [[gnu::uninitialized]] char b_buf[COMPARE_BYTES];
    for (off_t at = 0;;) {
        ssize_t a_len = pread(a_fd, a_buf, sizeof(a_buf), at);
        ssize_t b_len = pread(b_fd, b_buf, sizeof(b_buf), at);
        if (a_len < 0 || b_len < 0)
            return -errno;
        if (a_len != b_len || memcmp(a_buf, b_buf, (size_t)a_len))
            return 0;
        if (a_len == 0)
            return 1;
        if (cay_stop_asked())
            return -ECANCELED;
        at += a_len;
        walk->stats->bytes_compared += (uint64_t)a_len;
    }
}

static int same_link(const struct cay_merged_entry *a, const struct cay_merged_entry *b,
                     const char *name)
{
    [[gnu::uninitialized]] char a_text[PATH_MAX];
    [[gnu::uninitialized]] char b_text[PATH_MAX];
    ssize_t a_len = readlinkat(a->dir_fd, name, a_text, sizeof(a_text));
    ssize_t b_len = readlinkat(b->dir_fd, name, b_text, sizeof(b_text));
    if (a_len < 0 || b_len < 0)
        return -errno;
    return a_len == b_len && memcmp(a_text, b_text, (size_t)a_len) == 0;
}

static int same_meta(const struct cay_merged_entry *a, const struct cay_merged_entry *b,
                     const char *name)
{
    if (a->st.st_mode != b->st.st_mode || a->st.st_uid != b->st.st_uid ||
        a->st.st_gid != b->st.st_gid)
        return 0;
    if (a->kind == CAY_MERGED_DIR)
        return cay_copy_same_xattrs(CAY_COPY_IMPORT, a->dir.parts[0].fd, b->dir.parts[0].fd);
    cay_autoclose int a_fd = cay_pin_open(a->dir_fd, name);
    cay_autoclose int b_fd = cay_pin_open(b->dir_fd, name);
    if (a_fd < 0 || b_fd < 0)
        return CAY_MIN(a_fd, b_fd);
    return cay_copy_same_xattrs(CAY_COPY_IMPORT, a_fd, b_fd);
}

/* Both sides have the path, and it is the same type of thing. */
static bool compare_same_type(struct walk *walk, const char *name,
                              const struct cay_merged_entry *before,
                              const struct cay_merged_entry *after)
{
    int same = 1;
    if (S_ISREG(before->st.st_mode))
        same = same_content(walk, before, after, name);
    else if (S_ISLNK(before->st.st_mode))
        same = same_link(before, after, name);
    if (same < 0)
        return fail(walk, same, "compare");
    if (!same)
        return emit(walk, CAY_DIFF_MODIFIED, name, before, after);
    same = same_meta(before, after, name);
    if (same < 0)
        return fail(walk, same, "compare attributes of");
    if (!same)
        return emit(walk, CAY_DIFF_META, name, before, after);
    if (walk->request->same && !S_ISDIR(after->st.st_mode))
        walk->request->same(walk->request->ctx, &after->st);
    return true;
}

static bool is_same_inode(const struct walk *walk, const struct cay_merged_entry *a,
                          const struct cay_merged_entry *b)
{
    if (a->st.st_ino != b->st.st_ino)
        return false;
    if (a->st.st_dev == b->st.st_dev)
        return true;
    int64_t a_ns = (int64_t)a->st.st_ctim.tv_sec * 1'000'000'000 + a->st.st_ctim.tv_nsec;
    int64_t b_ns = (int64_t)b->st.st_ctim.tv_sec * 1'000'000'000 + b->st.st_ctim.tv_nsec;
    return a_ns == b_ns && a_ns < walk->from->shared_before_ns;
}

static bool report(struct walk *walk, const char *name, const struct cay_merged_entry *before,
                   const struct cay_merged_entry *after)
{
    if (!after->kind)
        return emit(walk, CAY_DIFF_DELETED, name, before, after);
    if (!before->kind)
        return emit(walk, CAY_DIFF_ADDED, name, before, after);
    if ((before->st.st_mode & S_IFMT) != (after->st.st_mode & S_IFMT))
        return emit(walk, CAY_DIFF_TYPE, name, before, after);
    if (is_same_inode(walk, before, after))
        return true;
    return compare_same_type(walk, name, before, after);
}

static bool compare_name(struct walk *walk, const struct cay_merged_dir *from,
                         const struct cay_merged_dir *to, const char *name, int depth)
{
    cay_auto(cay_merged_entry_finish) struct cay_merged_entry before = {};
    cay_auto(cay_merged_entry_finish) struct cay_merged_entry after = {};
    walk->stats->entries_visited++;
    int rc = from ? cay_merged_lookup(walk->from, from, name, &before) : 0;
    if (!rc && to)
        rc = cay_merged_lookup(walk->to, to, name, &after);
    if (rc < 0)
        return fail(walk, rc, "look into");
    if (!before.kind && !after.kind)
        return true;
    size_t path_len = walk->path.len;
    if (path_len)
        cay_buf_append_byte(&walk->path, '/');
    cay_buf_append_text(&walk->path, name);
    const struct cay_merged_dir *from_dir = before.kind == CAY_MERGED_DIR ? &before.dir : NULL;
    const struct cay_merged_dir *to_dir = after.kind == CAY_MERGED_DIR ? &after.dir : NULL;
    bool goes_down = to_dir || (from_dir && walk->request->expand_deleted);
    bool is_too_deep = goes_down && depth == DEPTH_MAX && has_names(walk, from_dir, to_dir);
    uint64_t told = walk->stats->changes;
    walk->is_too_deep = is_too_deep;
    bool ok = report(walk, name, &before, &after);
    if (ok && is_too_deep && walk->stats->changes == told)
        ok = emit(walk, CAY_DIFF_MODIFIED, name, &before, &after);
    walk->is_too_deep = false;
    if (ok && goes_down && depth < DEPTH_MAX)
        ok = walk_dirs(walk, from_dir, to_dir, depth + 1);
    walk->path.len = path_len;
    return ok;
}

/* How many parts at the end of both are the same directories of the same layers. */
static size_t common_parts(const struct walk *walk, const struct cay_merged_dir *from,
                           const struct cay_merged_dir *to)
{
    size_t common = 0;
    while (common < from->count && common < to->count) {
        const struct cay_merged_part *a = &from->parts[from->count - 1 - common];
        const struct cay_merged_part *b = &to->parts[to->count - 1 - common];
        if (walk->from->layers[a->layer].id != walk->to->layers[b->layer].id || a->ino != b->ino)
            break;
        common++;
    }
    return common;
}

static int list_parts(struct cay_dir_list *names, const struct cay_merged_dir *dir, size_t common)
{
    int rc = 0;
    for (size_t i = 0; !rc && dir && i < dir->count - common; i++)
        rc = cay_dir_list_read(names, dir->parts[i].fd);
    return rc;
}

/* The names to look at, in order. */
static int list_names(const struct walk *walk, const struct cay_merged_dir *from,
                      const struct cay_merged_dir *to, struct cay_dir_list *names)
{
    if (walk->from->touched && from && to)
        return cay_diff_touched_names(walk->from->touched, from->parts[0].fd, to->parts[0].fd,
                                      names);
    size_t common = from && to ? common_parts(walk, from, to) : 0;
    int rc = list_parts(names, from, common);
    if (!rc)
        rc = list_parts(names, to, common);
    cay_dir_list_sort(names);
    return rc;
}

/* What cannot be read may have changed. */
static bool has_names(const struct walk *walk, const struct cay_merged_dir *from,
                      const struct cay_merged_dir *to)
{
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    return list_names(walk, from, to, &names) < 0 || names.count > 0;
}

static bool walk_dirs(struct walk *walk, const struct cay_merged_dir *from,
                      const struct cay_merged_dir *to, int depth)
{
    assert(depth <= DEPTH_MAX);
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    int rc = list_names(walk, from, to, &names);
    if (rc < 0)
        return fail(walk, rc, "read directory");
    for (size_t i = 0; i < names.count && !walk->stopped; i++) {
        if (cay_stop_asked())
            return fail(walk, -ECANCELED, "compare");
        if (!compare_name(walk, from, to, cay_dir_list_name(&names, i), depth))
            return false;
    }
    return true;
}

bool cay_diff_walk(const struct cay_diff_stack *from, const struct cay_diff_stack *to,
                   const struct cay_diff_request *request, struct cay_diff_stats *out_stats,
                   struct cay_error *err)
{
    struct cay_diff_stats stats = {};
    struct walk walk = {.from = from, .to = to, .request = request, .stats = &stats, .err = err};
    cay_buf_init(&walk.path, (size_t)(DEPTH_MAX + 2) * (NAME_MAX + 1));
    cay_auto(cay_merged_dir_finish) struct cay_merged_dir from_root = {};
    cay_auto(cay_merged_dir_finish) struct cay_merged_dir to_root = {};
    int rc = cay_merged_root(from, &from_root);
    if (!rc)
        rc = cay_merged_root(to, &to_root);
    bool ok = rc == 0 ? walk_dirs(&walk, &from_root, &to_root, 0)
                      : cay_store_fail(err, rc, "open the roots");
    cay_buf_finish(&walk.path);
    if (ok)
        *out_stats = stats;
    return ok;
}

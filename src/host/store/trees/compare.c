/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/stop.h"
#include "host/store/diff_walk.h"
#include "host/store/dir_list.h"
#include "host/store/trees/trees_internal.h"

enum { WALK_DEPTH_MAX = 400 }; /* a descriptor each */

/* Two clones of one base share what neither has touched: the same inode, and a change time from
 * before the base was one. */
static int64_t shared_before_ns(struct cay_trees *trees, const struct tree *from_base,
                                const struct tree *to_base)
{
    int64_t ns = 0;
    size_t cursor = 0;
    if (from_base != to_base || !(cay_trees_caps(&trees->store) & CAY_STORE_SHARING))
        return 0;
    pthread_mutex_lock(&trees->lock);
    for (const struct name *name; (name = cay_map_next(&trees->names, &cursor));) {
        if (name->tree == from_base)
            ns = name->created_ms * 1'000'000;
    }
    pthread_mutex_unlock(&trees->lock);
    return ns;
}

/* One side of a comparison. */
struct side {
    struct tree *tree;
    struct tree *base;
    char clone[CAY_STORE_ID_SIZE]; /* of a living tree, made for this */
};

/* A tree that changes is compared as it is at one instant, where clones are cheap: then the file
 * system can also tell what changed. */
static bool open_side(struct cay_trees *trees, const struct cay_store_ref *ref, struct side *side,
                      struct cay_error *err)
{
    if (!trees_hold(trees, ref, &side->tree, &side->base, err))
        return false;
    if (!ref->session || !trees->ops->changed)
        return true;
    cay_store_new_id(side->clone);
    if (trees->ops->clone(trees, side->tree->id, side->clone, true, err))
        return true;
    trees_bury_unlocked(trees, side->clone);
    return false;
}

static void close_side(struct cay_trees *trees, struct side *side)
{
    pthread_mutex_lock(&trees->lock);
    trees_unref(trees, side->tree);
    trees_unref(trees, side->base);
    if (side->clone[0])
        trees_bury(trees, side->clone);
    pthread_mutex_unlock(&trees->lock);
}

static const char *id_of(const struct side *side)
{
    return side->clone[0] ? side->clone : side->tree->id;
}

static bool walk_sides(struct cay_trees *trees, const struct side *from, const struct side *to,
                       const struct cay_diff_request *request, struct cay_diff_stats *out_stats,
                       struct cay_error *err)
{
    cay_auto(cay_diff_touched_finish) struct cay_diff_touched touched = {};
    cay_autoclose int from_fd = cay_trees_open_tree(trees, id_of(from));
    cay_autoclose int to_fd = cay_trees_open_tree(trees, id_of(to));
    if (from_fd < 0 || to_fd < 0)
        return cay_store_fail(err, CAY_MIN(from_fd, to_fd), "open trees");
    bool is_told = trees->ops->changed && from->base == to->base &&
                   trees->ops->changed(trees, id_of(from), id_of(to), from->base->id, &touched);
    struct cay_diff_layer layers[2] = {{strtoull(id_of(from), NULL, 16), from_fd},
                                       {strtoull(id_of(to), NULL, 16), to_fd}};
    struct cay_diff_stack from_stack = {
        .layers = &layers[0],
        .count = 1,
        .shared_before_ns = shared_before_ns(trees, from->base, to->base),
        .touched = is_told ? &touched : NULL,
    };
    struct cay_diff_stack to_stack = {.layers = &layers[1], .count = 1};
    return cay_diff_walk(&from_stack, &to_stack, request, out_stats, err);
}

bool cay_trees_diff(struct cay_store *store, const struct cay_diff_request *request,
                    struct cay_diff_stats *out_stats, struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    struct side from = {};
    struct side to = {};
    bool ok = open_side(trees, &request->from, &from, err) &&
              open_side(trees, &request->to, &to, err) &&
              walk_sides(trees, &from, &to, request, out_stats, err);
    close_side(trees, &from);
    close_side(trees, &to);
    return ok;
}

bool cay_trees_view(struct cay_store *store, const struct cay_store_ref *ref,
                    const struct cay_store_owner *owner, int *out_root_fd, struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    struct tree *tree = NULL;
    struct tree *base = NULL;
    if (!trees_hold(trees, ref, &tree, &base, err))
        return false;
    bool ok = trees_mount_tree(trees, tree->id, owner, true, out_root_fd, err);
    trees_drop(trees, tree);
    trees_drop(trees, base);
    return ok;
}

static int walk_usage(int dir_fd, struct cay_store_usage *usage, int depth)
{
    if (depth > WALK_DEPTH_MAX) {
        usage->is_too_deep = true;
        return 0;
    }
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    int rc = cay_dir_list_read(&names, dir_fd);
    for (size_t i = 0; !rc && i < names.count; i++) {
        const char *name = cay_dir_list_name(&names, i);
        struct stat st;
        if (cay_stop_asked())
            return -ECANCELED;
        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            if (errno != ENOENT)
                return -errno;
            continue; /* it is a living tree */
        }
        usage->entries++;
        usage->own_bytes += (uint64_t)st.st_blocks * 512 / CAY_MAX(st.st_nlink, (nlink_t)1);
        if (!S_ISDIR(st.st_mode))
            continue;
        cay_autoclose int fd = openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            rc = walk_usage(fd, usage, depth + 1);
        else if (errno != ENOENT)
            rc = -errno;
    }
    return rc;
}

static bool walk_tree(struct cay_trees *trees, const char *id, struct cay_store_usage *out_usage,
                      struct cay_error *err)
{
    cay_autoclose int fd = cay_trees_open_tree(trees, id);
    int rc = fd < 0 ? fd : walk_usage(fd, out_usage, 0);
    return rc == 0 || cay_store_fail(err, rc, "walk tree");
}

/* What a tree has more than its base, which is walked once. */
static bool walk_beyond(struct cay_trees *trees, const struct tree *tree, struct tree *base,
                        struct cay_store_usage *out_usage, struct cay_error *err)
{
    pthread_mutex_lock(&trees->lock);
    bool is_measured = base->is_measured;
    struct cay_store_usage below = base->usage;
    pthread_mutex_unlock(&trees->lock);
    if (!is_measured) {
        if (!walk_tree(trees, base->id, &below, err))
            return false;
        pthread_mutex_lock(&trees->lock);
        base->usage = below;
        base->is_measured = true;
        pthread_mutex_unlock(&trees->lock);
    }
    if (tree == base) {
        *out_usage = below;
        return true;
    }
    if (!walk_tree(trees, tree->id, out_usage, err))
        return false;
    out_usage->own_bytes -= CAY_MIN(out_usage->own_bytes, below.own_bytes);
    out_usage->entries -= CAY_MIN(out_usage->entries, below.entries);
    return true;
}

static bool measure(struct cay_trees *trees, struct tree *tree, struct tree *base,
                    const char *const *others, size_t other_count,
                    struct cay_store_usage *out_usage, struct cay_error *err)
{
    struct statvfs fs;
    struct cay_store_usage usage = {};
    const struct cay_tree_group group = {tree->id, base->id, others, other_count};
    if (!(trees->ops->measure && tree != base ? trees->ops->measure(trees, &group, &usage, err)
                                              : walk_beyond(trees, tree, base, &usage, err)))
        return false;
    if (fstatvfs(trees->root_fd, &fs) < 0)
        return cay_store_fail(err, -errno, "ask the file system");
    usage.layers = 1;
    usage.fs_total_bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
    usage.fs_free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    *out_usage = usage;
    return true;
}

bool cay_trees_usage(struct cay_store *store, const struct cay_store_ref *ref,
                     struct cay_store_usage *out_usage, struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    struct tree *tree = NULL;
    struct tree *base = NULL;
    if (!trees_hold(trees, ref, &tree, &base, err))
        return false;
    bool ok = measure(trees, tree, base, NULL, 0, out_usage, err);
    trees_drop(trees, tree);
    trees_drop(trees, base);
    return ok;
}

/* References to the trees of those snapshots that are there and changed something. */
static size_t hold_others(struct cay_trees *trees, const struct tree *tree, const struct tree *base,
                          const char (*snapshots)[CAY_STORE_ID_SIZE], size_t count,
                          struct tree **out_held)
{
    size_t held = 0;
    pthread_mutex_lock(&trees->lock);
    for (size_t i = 0; i < count; i++) {
        const struct snapshot *snapshot = trees_snapshot(trees, snapshots[i]);
        if (snapshot && snapshot->tree != tree && snapshot->base == base &&
            snapshot->tree != base && (!held || out_held[held - 1] != snapshot->tree))
            out_held[held++] = trees_ref(snapshot->tree);
    }
    pthread_mutex_unlock(&trees->lock);
    return held;
}

bool cay_trees_usage_whole(struct cay_store *store, const char *session_id,
                           const char (*snapshots)[CAY_STORE_ID_SIZE], size_t count,
                           struct cay_store_usage *out_usage, struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    struct tree *tree = NULL;
    struct tree *base = NULL;
    const struct cay_store_ref ref = {.session = session_id};
    if (!trees_hold(trees, &ref, &tree, &base, err))
        return false;
    cay_autofree struct tree **held = cay_alloc((count + 1) * sizeof(struct tree *));
    cay_autofree const char **others = cay_alloc((count + 1) * sizeof(*others));
    size_t other_count = hold_others(trees, tree, base, snapshots, count, held);
    for (size_t i = 0; i < other_count; i++)
        others[i] = held[i]->id;
    bool ok = measure(trees, tree, base, others, other_count, out_usage, err);
    for (size_t i = 0; i < other_count; i++)
        trees_drop(trees, held[i]);
    trees_drop(trees, tree);
    trees_drop(trees, base);
    return ok;
}

bool cay_trees_list(struct cay_store *store, cay_store_item_fn *visit, void *ctx,
                    struct cay_error *)
{
    struct cay_trees *trees = cay_trees_of(store);
    bool more = true;
    size_t cursor = 0;
    pthread_mutex_lock(&trees->lock);
    for (const struct name *name; more && (name = cay_map_next(&trees->names, &cursor));)
        more = visit(ctx, &(struct cay_store_item){.kind = name->tree ? CAY_STORE_ITEM_BASE
                                                                      : CAY_STORE_ITEM_ALIAS,
                                                   .name = name->name,
                                                   .target = name->tree ? NULL : name->target,
                                                   .created_unix_ms = name->created_ms});
    cursor = 0;
    for (const struct session *session;
         more && (session = cay_map_next(&trees->sessions, &cursor));)
        more = visit(ctx, &(struct cay_store_item){.kind = CAY_STORE_ITEM_SESSION,
                                                   .name = session->id,
                                                   .generation = session->generation,
                                                   .created_unix_ms = session->created_ms});
    cursor = 0;
    for (const struct snapshot *snapshot;
         more && (snapshot = cay_map_next(&trees->snapshots, &cursor));)
        more = visit(ctx, &(struct cay_store_item){.kind = CAY_STORE_ITEM_SNAPSHOT,
                                                   .name = snapshot->id,
                                                   .created_unix_ms = snapshot->created_ms});
    pthread_mutex_unlock(&trees->lock);
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/magic.h>
#include <sys/vfs.h>

#include "host/store/btrfs/btrfs_internal.h"

static bool start(struct cay_trees *trees, struct cay_error *err)
{
    struct statfs fs;
    if (fstatfs(trees->root_fd, &fs) < 0)
        return cay_store_fail(err, -errno, "ask the file system");
    if (fs.f_type != BTRFS_SUPER_MAGIC)
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "the directory is not on btrfs");
    return cay_trees_without_atime(trees, err);
}

static const struct cay_tree_ops tree_ops = {
    .start = start,
    .make = btrfs_make,
    .clone = btrfs_clone,
    .seal = btrfs_seal,
    .remove = btrfs_remove,
    .stamp = btrfs_stamp,
    .stamps_tell = btrfs_stamps_tell,
    .limit = btrfs_limit,
    .measure = btrfs_measure,
    .keeps_spares = true,
};

static bool open_store(const struct cay_store_config *config, struct cay_store **out_store,
                       struct cay_error *err)
{
    return cay_trees_open(config, &cay_store_btrfs, &tree_ops, "btrfs 1", out_store, err);
}

static unsigned caps_here(const struct cay_store *store)
{
    unsigned missing =
        btrfs_has_quota((const struct cay_trees *)store) ? 0 : CAY_STORE_KERNEL_QUOTA;
    return store->ops->caps & ~missing;
}

const struct cay_store_ops cay_store_btrfs = {
    .name = "btrfs",
    .caps = CAY_STORE_SNAPSHOTS | CAY_STORE_SHARING | CAY_STORE_LIVE_COPY | CAY_STORE_ID_MAPPED |
            CAY_STORE_PERSISTENT | CAY_STORE_KERNEL_QUOTA,
    .caps_here = caps_here,
    .open = open_store,
    .close = cay_trees_close,
    .create = cay_trees_create,
    .mount = cay_trees_mount,
    .snapshot = cay_trees_snapshot,
    .rollback = cay_trees_rollback,
    .fork = cay_trees_fork,
    .set_quota = cay_trees_set_quota,
    .destroy = cay_trees_destroy,
    .delete_snapshot = cay_trees_delete_snapshot,
    .collect = cay_trees_collect,
    .sync = cay_trees_sync,
    .diff = cay_trees_diff,
    .view = cay_trees_view,
    .usage = cay_trees_usage,
    .list = cay_trees_list,
    .base_begin = cay_trees_base_begin,
    .base_commit = cay_trees_base_commit,
    .base_abort = cay_trees_base_abort,
    .base_remove = cay_trees_base_remove,
    .base_alias = cay_trees_base_alias,
    .base_resolve = cay_trees_base_resolve,
};

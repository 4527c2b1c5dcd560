/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "host/store/btrfs/btrfs_internal.h"

static bool check(const char *directory, struct cay_error *err)
{
    struct statfs fs;
    if (geteuid() != 0)
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "the btrfs store needs root");
    if (statfs(directory, &fs) < 0)
        return cay_fail_errno(err, CAY_R_NOT_SUPPORTED, -errno, "ask the file system");
    return fs.f_type == BTRFS_SUPER_MAGIC ||
           cay_fail(err, CAY_R_NOT_SUPPORTED, "'%.80s' is not on btrfs", directory);
}

static bool start(struct cay_trees *trees, struct cay_error *err)
{
    if (!check(trees->directory, err))
        return false;
    trees->missing_caps = btrfs_has_quota(trees) ? 0 : CAY_STORE_KERNEL_QUOTA;
    if (!cay_trees_without_atime(trees, err))
        return false;
    trees->own = cay_new(struct btrfs);
    btrfs_sweep_groups(trees);
    return true;
}

static void stop(struct cay_trees *trees)
{
    free(trees->own);
}

static const struct cay_tree_ops tree_ops = {
    .start = start,
    .stop = stop,
    .make = btrfs_make,
    .clone = btrfs_clone,
    .seal = btrfs_seal,
    .remove = btrfs_remove,
    .stamp = btrfs_stamp,
    .stamps_tell = btrfs_stamps_tell,
    .limit = btrfs_limit,
    .measure = btrfs_measure,
    .changed = btrfs_changed,
    .keeps_spares = true,
};

static bool open_store(const struct cay_store_config *config, struct cay_store **out_store,
                       struct cay_error *err)
{
    return cay_trees_open(config, &cay_store_btrfs, &tree_ops, "btrfs 1", out_store, err);
}

const struct cay_store_ops cay_store_btrfs = {
    .name = "btrfs",
    .caps = CAY_STORE_SNAPSHOTS | CAY_STORE_SHARING | CAY_STORE_LIVE_COPY | CAY_STORE_ID_MAPPED |
            CAY_STORE_PERSISTENT | CAY_STORE_FAST_DIFF | CAY_STORE_KERNEL_QUOTA |
            CAY_STORE_SEES_UNCHANGED | CAY_STORE_PREPARES,
    .has_quota = btrfs_kernel_has_quota,
    .check = check,
    .open = open_store,
    .collect = btrfs_collect,
    .is_freed = btrfs_is_freed,
    CAY_TREES_SLOTS,
    CAY_TREES_SNAPSHOT_SLOTS,
};

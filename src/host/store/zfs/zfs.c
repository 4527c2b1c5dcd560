/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/store/dir_list.h"
#include "host/store/record.h"
#include "host/store/zfs/zfs_internal.h"
#include "sys/mount.h"

static bool check(const char *directory, struct cay_error *err)
{
    char dataset[ZFS_NAME_SIZE];
    if (geteuid() != 0)
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "the zfs store needs root");
    if (!zfs_find_dataset(directory, dataset, NULL))
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "'%.80s' is not on zfs", directory);
    if (!zfs_call(&(struct zfs_args){{"zfs", "list", "-H", "-o", "name", dataset}}, NULL, err))
        return cay_wrap(err, "zfs does not work");
    return cay_trees_can_map_owners(AT_FDCWD, directory) ||
           cay_fail(err, CAY_R_NOT_SUPPORTED,
                    "this zfs has no id-mapped mounts (OpenZFS 2.2 or later has)");
}

/* All trees are children of one dataset, whose name is written down when it is made. */
static bool find_root(struct cay_trees *trees, struct zfs *zfs, struct cay_error *err)
{
    char above[ZFS_NAME_SIZE];
    if (!zfs_find_dataset(trees->directory, above, &zfs->is_fuse))
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "the directory is not on zfs");
    int rc = cay_record_read(trees->root_fd, "dataset", zfs->root, sizeof(zfs->root));
    if (rc == 0)
        return true;
    char id[CAY_STORE_ID_SIZE];
    cay_store_new_id(id);
    if (snprintf(zfs->root, sizeof(zfs->root), "%s/cay-%s", above, id) >= (int)sizeof(zfs->root))
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "the name of the dataset is too long");
    rc = cay_record_add(trees->root_fd, "dataset", zfs->root);
    return rc == 0 || cay_store_fail(err, rc, "write down the dataset");
}

static bool start(struct cay_trees *trees, struct cay_error *err)
{
    struct zfs *zfs = cay_new(struct zfs);
    trees->own = zfs;
    zfs_family_init(zfs);
    zfs->directory = realpath(trees->directory, NULL);
    if (!zfs->directory)
        return cay_store_fail(err, -errno, "find the directory");
    if (!find_root(trees, zfs, err))
        return false;
    const struct zfs_args make = {
        {"zfs", "create", "-o", "mountpoint=none", "-o", "atime=off", zfs->root}};
    if (!zfs_family_read(zfs, true, err) && !zfs_call(&make, NULL, err))
        return false;
    zfs->tells_written = zfs_tells_written(zfs->root);
    /* One that has no such property is old, and keeps times to the second: nothing can be told from
     * them. */
    if (!zfs->tells_written)
        trees->missing_caps |= CAY_STORE_SHARING | CAY_STORE_SEES_UNCHANGED;
    return true;
}

static void stop(struct cay_trees *trees)
{
    struct zfs *zfs = trees->own;
    if (!zfs)
        return;
    zfs_family_finish(zfs);
    free(zfs->directory);
    free(zfs);
}

static const struct cay_tree_ops tree_ops = {
    .start = start,
    .stop = stop,
    .make = zfs_make,
    .clone = zfs_clone,
    .seal = zfs_seal,
    .remove = zfs_remove,
    .is_same = zfs_is_same,
    .limit = zfs_limit,
    .measure = zfs_measure,
    .sync = zfs_sync,
};

static bool open_store(const struct cay_store_config *config, struct cay_store **out_store,
                       struct cay_error *err)
{
    return cay_trees_open(config, &cay_store_zfs, &tree_ops, "zfs 1", out_store, err);
}

static bool health(struct cay_store *store, enum cay_store_health *out_health,
                   struct cay_error *err)
{
    const struct zfs *zfs = cay_trees_of(store)->own;
    return zfs_pool_health(zfs->root, out_health, err);
}

const struct cay_store_ops cay_store_zfs = {
    .name = "zfs",
    .caps = CAY_STORE_SNAPSHOTS | CAY_STORE_SHARING | CAY_STORE_LIVE_COPY | CAY_STORE_ID_MAPPED |
            CAY_STORE_PERSISTENT | CAY_STORE_KERNEL_QUOTA | CAY_STORE_SEES_UNCHANGED,
    .check = check,
    .open = open_store,
    .collect = cay_trees_collect,
    .health = health,
    CAY_TREES_SLOTS,
    CAY_TREES_SNAPSHOT_SLOTS,
};

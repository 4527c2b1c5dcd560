/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The zfs store from inside: what the trees of host/store/trees are made of here. */

#include "base/buf.h"
#include "host/store/trees/trees.h"

enum {
    ZFS_NAME_SIZE = 256, /* of a dataset or snapshot, with NUL */
    ZFS_ARGS_MAX = 16,
};

struct zfs {
    char root[ZFS_NAME_SIZE]; /* the dataset above all trees */
    char *directory;          /* of the store, absolute */
    bool tells_written;       /* has the property written@SNAPSHOT */
    /* zfs-fuse shows no extended attributes of a dataset with readonly=on. There sealed trees are
     * sealed by their mounts alone: nothing here writes to them, and views are read-only. */
    bool is_fuse;
};

struct zfs_args {
    const char *argv[ZFS_ARGS_MAX]; /* ended by NULL */
};

/* --- command.c --- */
/* Runs it; what it prints goes to `out` when not NULL. STORE_FAILED with what it said, NO_SPACE. */
bool zfs_call(const struct zfs_args *args, struct cay_buf *out, struct cay_error *err);
/* The dataset that is mounted at or above the path; out_is_fuse may be NULL. */
bool zfs_find_dataset(const char *path, char out[static ZFS_NAME_SIZE], bool *out_is_fuse);
bool zfs_tells_written(const char *dataset);

/* --- dataset.c --- */
bool zfs_make(struct cay_trees *, const char *id, struct cay_error *);
bool zfs_clone(struct cay_trees *, const char *from, const char *id, bool sealed,
               struct cay_error *);
bool zfs_seal(struct cay_trees *, const char *id, struct cay_error *);
int zfs_remove(struct cay_trees *, const char *id, uint64_t *budget);
bool zfs_is_same(struct cay_trees *, const char *id, const char *last);
bool zfs_limit(struct cay_trees *, const char *id, const char *base, uint64_t bytes_max,
               struct cay_error *);
bool zfs_measure(struct cay_trees *, const char *id, const char *base, struct cay_store_usage *,
                 struct cay_error *);
bool zfs_sync(struct cay_trees *, struct cay_error *);
bool zfs_mount_all(struct cay_trees *trees, struct cay_error *err);

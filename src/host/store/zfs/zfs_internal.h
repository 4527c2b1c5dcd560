/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The zfs store from inside: what the trees of host/store/trees are made of here. */

#include "base/buf.h"
#include "host/store/trees/trees.h"

enum {
    ZFS_NAME_SIZE = 256, /* of a dataset or snapshot, with NUL */
    ZFS_ARGS_MAX = 40,
};

struct zfs {
    char root[ZFS_NAME_SIZE]; /* the dataset above all trees */
    char *directory;          /* of the store, absolute */
    bool tells_written;       /* has the property written@SNAPSHOT */
    /* zfs-fuse shows no extended attributes of a dataset with readonly=on. There sealed trees are
     * sealed by their mounts alone: nothing here writes to them, and views are read-only. */
    bool is_fuse;
    pthread_mutex_t lock; /* of what follows */
    struct cay_map members, images;
    uint64_t image_count; /* ever seen */
};

/* The property of datasets that were sealed when they were made. */
#define ZFS_SEALED "cay:sealed"

struct zfs_args {
    const char *argv[ZFS_ARGS_MAX]; /* ended by NULL */
};

/* --- command.c --- */
/* Runs it; what it prints goes to `out` when not NULL. STORE_FAILED with what it said (sys_errno is
 * EBUSY when something is in use), NO_SPACE. */
bool zfs_call(const struct zfs_args *args, struct cay_buf *out, struct cay_error *err);
/* The dataset that is mounted at or above the path; out_is_fuse may be NULL. */
bool zfs_find_dataset(const char *path, char out[static ZFS_NAME_SIZE], bool *out_is_fuse);
bool zfs_tells_written(const char *dataset);
/* How the pool of a dataset is. */
bool zfs_pool_health(const char *dataset, enum cay_store_health *out_health, struct cay_error *err);
/* What `zpool list -o health` says, in our words. */
enum cay_store_health zfs_read_health(struct cay_str text);

/* --- dataset.c --- */
bool zfs_make(struct cay_trees *, const char *id, struct cay_error *);
bool zfs_clone(struct cay_trees *, const char *from, const char *id, bool sealed,
               struct cay_error *);
bool zfs_seal(struct cay_trees *, const char *id, struct cay_error *);
int zfs_remove(struct cay_trees *, const char *id, uint64_t *budget);
bool zfs_is_same(struct cay_trees *, const char *id, const char *last);
bool zfs_limit(struct cay_trees *, const struct cay_tree_limit *, struct cay_error *);
bool zfs_measure(struct cay_trees *, const struct cay_tree_group *, struct cay_store_usage *,
                 struct cay_error *);
bool zfs_sync(struct cay_trees *, struct cay_error *);

/* --- family.c: which tree was cloned from which --- */
void zfs_family_init(struct zfs *zfs);
void zfs_family_finish(struct zfs *zfs);
/* Asks zfs. When the store is opening, what is not mounted is mounted, too, and what a life that
 * was cut short left behind is removed. */
bool zfs_family_read(struct zfs *zfs, bool is_opening, struct cay_error *err);
void zfs_family_add(struct zfs *zfs, const char *id);
/* Of a snapshot of the name `image`, which was taken of `from` if it is not known yet. */
void zfs_family_add_clone(struct zfs *zfs, const char *id, const char *from, const char *image,
                          bool is_sealed);
void zfs_family_seal(struct zfs *zfs, const char *id);
void zfs_family_remove(struct zfs *zfs, const char *id);
bool zfs_family_has(struct zfs *zfs, const char *id);
/* A snapshot that shows what the tree shows, and the tree that has it. */
bool zfs_family_image(struct zfs *zfs, const char *id, char out_name[static CAY_STORE_ID_SIZE],
                      char out_holder[static CAY_STORE_ID_SIZE]);
/* The snapshot that `id` was cloned from, if that shows what `from` shows. */
bool zfs_family_common(struct zfs *zfs, const char *id, const char *from,
                       char out_image[static CAY_STORE_ID_SIZE]);
/* Who has to be promoted before `id` can go; false when nobody has. */
bool zfs_family_heir(struct zfs *zfs, const char *id, char out_heir[static CAY_STORE_ID_SIZE]);
void zfs_family_promoted(struct zfs *zfs, const char *id, const char *heir_id);

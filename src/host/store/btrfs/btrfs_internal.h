/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The btrfs store from inside: what the trees of host/store/trees are made of here. */

#include <stdatomic.h>

#include "host/store/trees/trees.h"

struct btrfs {
    atomic_uint joined; /* trees that were put into groups since they were swept */
};

static inline struct btrfs *btrfs_of(const struct cay_trees *trees)
{
    return trees->own;
}

/* --- subvolume.c --- */
bool btrfs_make(struct cay_trees *, const char *id, struct cay_error *);
bool btrfs_clone(struct cay_trees *, const char *from, const char *id, bool sealed,
                 struct cay_error *);
bool btrfs_seal(struct cay_trees *, const char *id, struct cay_error *);
int btrfs_remove(struct cay_trees *, const char *id, uint64_t *budget);
bool btrfs_is_freed(struct cay_store *, uint64_t *in_out_mark, bool *out_freed, struct cay_error *);
bool btrfs_stamp(struct cay_trees *, const char *id, bool settle, struct cay_tree_stamp *,
                 struct cay_error *);

/* --- changes.c --- */
bool btrfs_changed(struct cay_trees *, const char *from, const char *to, const char *base,
                   struct cay_diff_touched *);
/* Every item of a subvolume's tree in the range of the key. -errno. */
struct btrfs_ioctl_search_key;
struct btrfs_ioctl_search_header;
typedef void btrfs_item_fn(void *ctx, const struct btrfs_ioctl_search_header *header,
                           const char *data);
int btrfs_search(int fd, const struct btrfs_ioctl_search_key *key, btrfs_item_fn *visit, void *ctx);

/* --- space.c --- */
struct btrfs_ioctl_get_subvol_info_args;
/* -errno. */
int btrfs_subvolume_info(struct cay_trees *trees, const char *id,
                         struct btrfs_ioctl_get_subvol_info_args *out_info);
bool btrfs_stamps_tell(struct cay_trees *, const char *id);
bool btrfs_limit(struct cay_trees *, const struct cay_tree_limit *, struct cay_error *);
bool btrfs_collect(struct cay_store *, uint64_t, bool *, struct cay_error *);
/* Forgets the groups of sessions that left nothing behind. */
void btrfs_sweep_groups(struct cay_trees *trees);
/* Nothing limits the subvolume any more: it is to be removed. */
void btrfs_leave_groups(struct cay_trees *trees, const char *id);
/* Whether the kernel has simple quotas, and nobody has turned on the classic ones. */
bool btrfs_kernel_has_quota(void);
bool btrfs_has_quota(const struct cay_trees *trees);

/* --- measure.c --- */
bool btrfs_measure(struct cay_trees *, const struct cay_tree_group *, struct cay_store_usage *,
                   struct cay_error *);

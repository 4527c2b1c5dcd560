/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The btrfs store from inside: what the trees of host/store/trees are made of here. */

#include "host/store/trees/trees.h"

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
bool btrfs_stamps_tell(struct cay_trees *, const char *id);
bool btrfs_limit(struct cay_trees *, const char *id, const char *base, uint64_t bytes_max,
                 struct cay_error *);
bool btrfs_measure(struct cay_trees *, const char *id, const char *base, struct cay_store_usage *,
                   struct cay_error *);
/* Whether the kernel has simple quotas, and nobody has turned on the classic ones. */
bool btrfs_kernel_has_quota(void);
bool btrfs_has_quota(const struct cay_trees *trees);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a comparison of two clones has to look at, when the file system can tell: the inodes that
 * were changed on either side since they were one tree, and the directories above them. A name that
 * is the same inode on both sides and not among these is not looked at.
 *
 * Order: zeroed -> add* -> diff -> finish.
 */

#include "host/store/dir_list.h"

struct cay_ino_set {
    uint64_t *slots; /* 0: free */
    size_t cap;      /* 0 or a power of two */
    size_t count;
};

/* True when it was not there yet. 0 is no inode. */
bool cay_ino_set_add(struct cay_ino_set *set, uint64_t ino);
[[nodiscard]] bool cay_ino_set_has(const struct cay_ino_set *set, uint64_t ino);
void cay_ino_set_finish(struct cay_ino_set *set);

struct cay_diff_touched {
    struct cay_ino_set inodes;
    struct cay_ino_set moved; /* directories of `to` that `from` had, too, maybe elsewhere */
    /* Where `from` has the directory: a path from the root, in PATH_MAX bytes. NULL: not known. */
    bool (*path_of)(int from_fd, uint64_t ino, char *out_path);
};

void cay_diff_touched_finish(struct cay_diff_touched *touched);

/* The names of two directories that have to be looked at, in order. -errno. */
[[nodiscard]] int cay_diff_touched_names(const struct cay_diff_touched *touched, int from_fd,
                                         int to_fd, struct cay_dir_list *out_names);

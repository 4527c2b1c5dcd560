/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How overlayfs finds a name in a stack of layers, done by hand: whiteouts end the search, opaque
 * directories hide what lies below, redirected ones go on under another name. Follows
 * ovl_lookup() in fs/overlayfs/namei.c with redirect_dir=on, metacopy=off.
 */

#include <sys/stat.h>

#include "host/store/diff_walk.h"

/* A directory as it is in one layer. */
struct cay_merged_part {
    size_t layer; /* position in the stack */
    int fd;
    uint64_t ino;
};

/* A directory as the stack shows it: the parts that make it up, the top one first. */
struct cay_merged_dir {
    struct cay_merged_part *parts;
    size_t count;
    char *redirect; /* of the top part; NULL when it was not renamed */
};

enum cay_merged_kind {
    CAY_MERGED_ABSENT = 0,
    CAY_MERGED_LEAF,
    CAY_MERGED_DIR,
};

struct cay_merged_entry {
    enum cay_merged_kind kind;
    struct stat st; /* of the topmost part */
    int dir_fd;     /* borrowed from the parent: where the topmost part is */
    size_t layer;
    struct cay_merged_dir dir; /* of a DIR */
};

[[nodiscard]] int cay_merged_root(const struct cay_diff_stack *stack,
                                  struct cay_merged_dir *out_dir);
[[nodiscard]] int cay_merged_lookup(const struct cay_diff_stack *stack,
                                    const struct cay_merged_dir *parent, const char *name,
                                    struct cay_merged_entry *out_entry);
void cay_merged_dir_finish(struct cay_merged_dir *dir);
void cay_merged_entry_finish(struct cay_merged_entry *entry);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of tree.h share. */

#include "tool/tree/tree.h"

/* openat2, tried again when it raced with a rename; by steps where there is none. */
[[nodiscard]] int cay_tree_lookup(int dir_fd, const char *path, int flags, uint64_t resolve);

/* Between the two, this thread has no capabilities at all. */
[[nodiscard]] int cay_tree_bare(struct cay_tree_caps *out_caps);
void cay_tree_unbare(const struct cay_tree_caps *caps);

/* To a name that nothing has, or -EEXIST. */
[[nodiscard]] int cay_tree_rename_new(int old_fd, const char *old_name, int new_fd,
                                      const char *new_name);

/* Whom files see in this thread; returns whom they saw. */
uint32_t cay_tree_set_fsuid(uint32_t uid);

/* tree_mounts.c: the same as cay_tree_open for a path that leads into another mount. */
[[nodiscard]] int cay_tree_cross(const struct cay_tool_tree *tree, const char *path, int flags);
[[nodiscard]] bool cay_tree_is_proc(int fd);

/* What the file says to the user, as a file without a name; the length goes to out_stat. */
[[nodiscard]] int cay_tree_copy_proc(int fd, struct stat *out_stat);

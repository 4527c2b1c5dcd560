/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Filling cay.v1.FileInfo. A description is made for one answer: init reads the names of the
 * owners once, everything lives in the arena.
 */

#include "api/cay_v1.h"
#include "tool/tree/owner.h"
#include "tool/tree/path.h"
#include "tool/tree/tree.h"

struct cay_info {
    const struct cay_tool_tree *tree;
    struct cay_arena *arena;
    struct cay_owners owners;
    struct cay_path root; /* the root's own path on the host, to take off resolved ones */
    bool root_known;
    bool wants_metadata; /* of cay_info_at, too */
};

void cay_info_init(struct cay_info *info, const struct cay_tool_tree *tree,
                   struct cay_arena *arena);

enum cay_v1_file_type cay_info_type(uint32_t mode);

/* Describes `name` in a directory, or with an empty name what dir_fd itself is; `path` is its
 * absolute path in the session, plain bytes. Returns 0, -errno of looking at it, -ENOMEM when the
 * arena is full. */
[[nodiscard]] int cay_info_at(struct cay_info *info, int dir_fd, const char *name,
                              struct cay_str path, struct cay_v1_file_info *out_info);

/* Describes what a descriptor (of any kind) is; with its metadata. */
[[nodiscard]] int cay_info_fd(struct cay_info *info, int fd, struct cay_str path,
                              struct cay_v1_file_info *out_info);

/* The same for one whose stat is known. */
[[nodiscard]] int cay_info_stat(struct cay_info *info, int fd, const struct stat *st,
                                struct cay_str path, struct cay_v1_file_info *out_info);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who a user of the sandbox is, by name or number, as the session's own /etc/passwd and /etc/group
 * say. The files are the sandbox's: read by descriptor with the rights of its root, up to a limit,
 * and nothing in them leads further than to an identity inside the sandbox.
 */

#include "tool/tree/tree.h"

enum {
    CAY_USER_NAME_BYTES = 64, /* terminator included, here and below */
    CAY_USER_HOME_BYTES = 1024,
    CAY_USER_SHELL_BYTES = 256,
};

struct cay_user {
    char name[CAY_USER_NAME_BYTES]; /* a number when it has no name */
    char home[CAY_USER_HOME_BYTES];
    char shell[CAY_USER_SHELL_BYTES];
    uint32_t uid, gid;
    uint32_t group_count;
    uint32_t groups[CAY_TREE_USER_GROUPS_MAX]; /* supplementary; more are left out */
};

/* What the files were when they were read. */
struct cay_user_stamp {
    struct {
        uint64_t dev, ino, size;
        int64_t changed_s, changed_ns;
    } files[2];
};

/* Reads the files: belongs on a worker. `tree` has its root and its id base. `root` and `user` are
 * known also where the files do not name them, and with any_number so is every number. Reasons:
 * USER_NOT_FOUND. */
[[nodiscard]] bool cay_user_find(const struct cay_tool_tree *tree, struct cay_str who,
                                 bool any_number, struct cay_user *out_user, struct cay_error *err);

/* What the files are now; never waits for a disk. False: it would have to. */
[[nodiscard]] bool cay_user_stamp(const struct cay_tool_tree *tree,
                                  struct cay_user_stamp *out_stamp);

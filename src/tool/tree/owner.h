/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names of users and groups, as the session's own /etc/passwd and /etc/group have them. The files
 * are the sandbox's: they are read once per use, up to a limit, and believed only as far as names
 * to show and the place of `~`.
 */

#include "base/arena.h"
#include "tool/tree/path.h"
#include "tool/tree/tree.h"

enum {
    CAY_OWNER_FILE_BYTES_MAX = 256 * 1024,
    CAY_OWNER_NAME_BYTES_MAX = 256,
};

struct cay_owners {
    const struct cay_tool_tree *tree;
    struct cay_arena *arena;
    struct cay_str passwd, group; /* the files' contents */
    uint32_t last_uid, last_gid;  /* the answers given last: most files have the same owner */
    struct cay_str last_user, last_group;
};

/* The beginning of a file of the tree; empty when there is none. `scratch` has
 * CAY_OWNER_FILE_BYTES_MAX. */
struct cay_str cay_owner_read(const struct cay_tool_tree *tree, const char *path, char *scratch);

/* Reads both files into the arena; what cannot be read is empty. */
void cay_owners_init(struct cay_owners *owners, const struct cay_tool_tree *tree,
                     struct cay_arena *arena);

/* The name for an id as seen in the sandbox; the number when it has none. In the arena. */
struct cay_str cay_owners_user(struct cay_owners *owners, uint32_t uid);
struct cay_str cay_owners_group(struct cay_owners *owners, uint32_t gid);

/* The home of the tree's user: absolute; "/root" or "/" when passwd has none. False when there is
 * no memory. */
[[nodiscard]] bool cay_owner_home(const struct cay_tool_tree *tree, struct cay_path *out_home);

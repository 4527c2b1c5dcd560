/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A session's tree for the workers that act on it: by descriptor, as one of its users. */

#include "host/session/session.h"
#include "tool/user.h"

struct cay_session_tree {
    struct cay_tool_tree tree;
    struct cay_user user; /* filled by the caller: cay_wake_as */
    char cwd[4096];
};

/* On the loop thread, inside the gate: the descriptor is the session's and stays valid until the
 * gate is left. */
[[nodiscard]] bool cay_session_tree_open(struct cay_session_tree *tree,
                                         const struct cay_session *session, struct cay_str cwd,
                                         struct cay_error *err);

/* Where a command or a tool of this user starts: `~` is its home. False: too long. */
[[nodiscard]] bool cay_session_cwd(const struct cay_session *session, const struct cay_user *user,
                                   struct cay_str cwd, char *out, size_t size);

/* On a worker: makes the directory if nothing is there, for this user of the sandbox; its missing
 * parents belong to root. What is in the way stays. */
void cay_session_make_cwd(int root_fd, uint32_t id_base, struct cay_str user, struct cay_str cwd);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A session's tree for the workers that act on it: by descriptor, as one of its users. */

#include "host/session/session.h"
#include "tool/tree.h"

struct cay_session_tree {
    struct cay_tool_tree tree;
    char cwd[4096];
};

/* On the loop thread, inside the gate: the descriptor is the session's and stays valid until the
 * gate is left. */
[[nodiscard]] bool cay_session_tree_open(struct cay_session_tree *out_tree,
                                         const struct cay_session *session, struct cay_str user,
                                         struct cay_str cwd, struct cay_error *err);

/* On a worker: makes the directory if nothing is there, for this user of the sandbox; its missing
 * parents belong to root. What is in the way stays. */
void cay_session_make_cwd(int root_fd, uint32_t id_base, uint32_t uid, struct cay_str cwd);

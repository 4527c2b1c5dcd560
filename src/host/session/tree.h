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

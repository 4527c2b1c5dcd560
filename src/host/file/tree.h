/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A session's tree for the workers that act on it: by descriptor, as one of its users. */

#include "host/session/session.h"
#include "tool/tree/user.h"

struct cay_session_tree {
    struct cay_tool_tree tree;
    struct cay_user user; /* filled by the caller: cay_wake_as */
    char cwd[4096];
};

/* The tree of a snapshot, for looking only. */
struct cay_past_tree {
    char snapshot_id[CAY_STORE_ID_SIZE];
    struct cay_store_owner owner;
    char who[CAY_USER_NAME_BYTES];
    bool any_number;
    char default_cwd[4096];
    int root_fd; /* -1 until it is shown */
};

/* On the loop thread, inside the gate: of whom and when. Empty `user`: the session's default. */
[[nodiscard]] bool cay_past_tree_begin(struct cay_past_tree *past,
                                       const struct cay_session *session, struct cay_str snapshot,
                                       struct cay_str user, struct cay_error *err);
/* On a worker, still inside the gate: the point cannot go meanwhile. The user is the one whom the
 * snapshot's own passwd file knows. What was opened in the tree outlives it. */
[[nodiscard]] bool cay_past_tree_show(struct cay_past_tree *past, struct cay_store *store,
                                      struct cay_session_tree *out_tree, struct cay_error *err);
void cay_past_tree_close(struct cay_past_tree *past, struct cay_host *host);

/* On the loop thread, inside the gate: the descriptor is the session's and stays valid until the
 * gate is left. */
[[nodiscard]] bool cay_session_tree_open(struct cay_session_tree *tree,
                                         const struct cay_session *session, struct cay_str cwd,
                                         struct cay_error *err);

/* Where a command or a tool of this user starts: `~` is its home. False: too long. */
[[nodiscard]] bool cay_session_cwd(const struct cay_session *session, const struct cay_user *user,
                                   struct cay_str cwd, char *out, size_t size);

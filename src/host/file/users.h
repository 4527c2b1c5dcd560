/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Users of a session's sandbox: looked up on a worker in its own passwd and group files, and
 * remembered for as long as these files stay what they were.
 */

#include "host/session/op.h"
#include "tool/tree/user.h"

struct cay_user_search {
    struct cay_tool_tree tree;
    char who[CAY_USER_NAME_BYTES];
    bool any_number; /* a base may name a number that its passwd does not have */
    bool has_stamp;
    struct cay_user_stamp stamp;
    struct cay_user user;
};

/* On the loop, inside the gate; empty: the session's default. True with *out_known when nothing
 * has to be read. */
[[nodiscard]] bool cay_user_search_begin(struct cay_user_search *search,
                                         struct cay_session *session, struct cay_str who,
                                         bool *out_known, struct cay_error *err);
/* On a worker. */
[[nodiscard]] bool cay_user_search_work(struct cay_user_search *search, struct cay_error *err);

typedef void cay_awake_fn(struct cay_call *call, struct cay_session *session, void *context,
                          const struct cay_error *err);

/* cay_wake, and *out_user is who is meant when `awake` runs without an error. `who` must stay. */
void cay_wake_as(struct cay_session *session, struct cay_call *call, struct cay_str who,
                 bool needs_sandbox, struct cay_user *out_user, cay_awake_fn *awake, void *context);

extern const struct cay_session_part cay_users_part;

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/tree.h"

#include <stdio.h>

#include "host/runtime/runtime.h"
#include "host/session/request.h"

bool cay_session_tree_open(struct cay_session_tree *out_tree, const struct cay_session *session,
                           struct cay_str user, struct cay_str cwd, struct cay_error *err)
{
    if (!cay_check_user(user, err) || !cay_check_cwd(cwd, err))
        return false;
    if (session->root_fd < 0)
        return cay_fail(err, CAY_R_UNAVAILABLE,
                        "the tree of session '%s' is not mounted; try again", session->id);
    struct cay_str who = user.len ? user : session->spec->default_user;
    struct cay_str where = cwd.len ? cwd : session->spec->default_cwd;
    uint32_t id = cay_str_is(who, "root") ? 0 : CAY_SANDBOX_USER_UID;
    snprintf(out_tree->cwd, sizeof(out_tree->cwd), "%.*s", (int)where.len, where.ptr);
    out_tree->tree = (struct cay_tool_tree){
        .root_fd = session->root_fd,
        .id_base = cay_session_uid_base(session->uid_slot),
        .uid = id,
        .gid = id,
        .cwd = cay_str(out_tree->cwd),
    };
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/tree.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "host/runtime/runtime.h"
#include "host/session/request.h"
#include "tool/path.h"

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

void cay_session_make_cwd(int root_fd, uint32_t id_base, uint32_t uid, struct cay_str cwd)
{
    const struct cay_tool_tree tree = {.root_fd = root_fd, .id_base = id_base, .cwd = CAY_STR("/")};
    cay_auto(cay_tree_leave) struct cay_tree_visit visit = {};
    struct cay_error ignored = {};
    struct cay_path path;
    char name[CAY_TREE_NAME_BYTES];
    bool has_slash = false;
    if (!cay_tree_enter(&tree, &visit, &ignored) || !cay_path_resolve(&tree, cwd, &path, &ignored))
        return;
    cay_autoclose int found_fd = cay_tree_open(&tree, path.bytes, O_PATH);
    if (found_fd >= 0)
        return;
    cay_autoclose int parent_fd = cay_tree_parent(&tree, path.bytes, true, name, &has_slash);
    if (parent_fd < 0 || cay_tree_make_dir(parent_fd, name, 0755) < 0)
        return;
    uint32_t owner = id_base + uid;
    if (fchownat(parent_fd, name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
        (void)unlinkat(parent_fd, name, AT_REMOVEDIR); /* better none than one that is closed */
}

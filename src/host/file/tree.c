/* SPDX-License-Identifier: Apache-2.0 */
#include "host/file/tree.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "host/past/snapshot.h"
#include "host/runtime/runtime.h"
#include "host/session/host.h"
#include "host/session/request.h"
#include "host/session/tidy.h"
#include "sys/pin.h"
#include "tool/tree/path.h"

static bool expand_cwd(struct cay_str where, const struct cay_user *user, char *out, size_t size)
{
    bool is_home = where.len && where.ptr[0] == '~';
    if (is_home)
        where = (struct cay_str){where.ptr + 1, where.len - 1};
    int len = snprintf(out, size, "%s%.*s", is_home ? user->home : "", (int)where.len, where.ptr);
    return len >= 0 && (size_t)len < size;
}

bool cay_session_cwd(const struct cay_session *session, const struct cay_user *user,
                     struct cay_str cwd, char *out, size_t size)
{
    return expand_cwd(cwd.len ? cwd : session->spec->default_cwd, user, out, size);
}

bool cay_past_tree_begin(struct cay_past_tree *past, const struct cay_session *session,
                         struct cay_str snapshot, struct cay_str user, struct cay_error *err)
{
    const struct cay_snapshot *found = cay_find_snapshot(session, snapshot, err);
    struct cay_str who = user.len ? user : session->spec->default_user;
    struct cay_str cwd = session->spec->default_cwd;
    *past = (struct cay_past_tree){
        .owner = {.id_base = cay_session_uid_base(session),
                  .id_count = CAY_SESSION_ID_COUNT,
                  .userns_fd = -1},
        .any_number = !user.len,
        .root_fd = -1,
    };
    if (!found || !cay_check_user(user, err))
        return false;
    memcpy(past->snapshot_id, found->store_id, sizeof(past->snapshot_id));
    snprintf(past->who, sizeof(past->who), "%.*s", (int)who.len, who.ptr);
    snprintf(past->default_cwd, sizeof(past->default_cwd), "%.*s", (int)cwd.len, cwd.ptr);
    return true;
}

bool cay_past_tree_show(struct cay_past_tree *past, struct cay_store *store,
                        struct cay_session_tree *out_tree, struct cay_error *err)
{
    const struct cay_store_ref ref = {.snapshot = past->snapshot_id};
    if (!cay_store_view(store, &ref, &past->owner, &past->root_fd, err))
        return false;
    struct cay_tool_tree tree = {.root_fd = past->root_fd, .id_base = past->owner.id_base};
    if (!cay_user_find(&tree, cay_str(past->who), past->any_number, &out_tree->user, err))
        return false;
    if (!expand_cwd(cay_str(past->default_cwd), &out_tree->user, out_tree->cwd,
                    sizeof(out_tree->cwd)))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "cwd: the path is too long");
    tree.uid = out_tree->user.uid;
    tree.gid = out_tree->user.gid;
    tree.groups = out_tree->user.groups;
    tree.group_count = out_tree->user.group_count;
    tree.cwd = cay_str(out_tree->cwd);
    out_tree->tree = tree;
    return true;
}

void cay_past_tree_close(struct cay_past_tree *past, struct cay_host *host)
{
    cay_host_close_later(host, cay_take_fd(past->root_fd));
}

bool cay_session_tree_open(struct cay_session_tree *tree, const struct cay_session *session,
                           struct cay_str cwd, struct cay_error *err)
{
    if (!cay_check_cwd(cwd, err))
        return false;
    if (session->root_fd < 0)
        return cay_fail(err, CAY_R_UNAVAILABLE,
                        "the tree of session '%s' is not mounted; try again", session->id);
    if (!cay_session_cwd(session, &tree->user, cwd, tree->cwd, sizeof(tree->cwd)))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "cwd: the path is too long");
    /* A running sandbox's own root has the same tree, and its mounts. */
    const struct cay_sandbox *sandbox = session->sandbox;
    int living_fd = sandbox ? cay_sandbox_root(sandbox) : -1;
    tree->tree = (struct cay_tool_tree){
        .root_fd = living_fd >= 0 ? living_fd : session->root_fd,
        .has_mounts = living_fd >= 0,
        .id_base = cay_session_uid_base(session),
        .uid = tree->user.uid,
        .gid = tree->user.gid,
        .groups = tree->user.groups,
        .group_count = tree->user.group_count,
        .cwd = cay_str(tree->cwd),
    };
    return true;
}

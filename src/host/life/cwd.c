/* SPDX-License-Identifier: Apache-2.0 */
#include "host/life/cwd.h"

#include <fcntl.h>
#include <unistd.h>

#include "sys/pin.h"
#include "tool/tree/path.h"
#include "tool/tree/user.h"

/* What stands in the way is found out by the first command. */
static void make(const struct cay_tool_tree *tree, const struct cay_user *who, struct cay_str cwd)
{
    struct cay_error ignored = {};
    cay_auto(cay_tree_leave) struct cay_tree_visit visit = {};
    struct cay_path path;
    char name[CAY_TREE_NAME_BYTES];
    bool has_slash = false;
    if (!cay_tree_enter(tree, &visit, &ignored) || !cay_path_resolve(tree, cwd, &path, &ignored))
        return;
    cay_autoclose int found_fd = cay_tree_open(tree, path.bytes, O_PATH);
    if (found_fd >= 0)
        return;
    cay_autoclose int parent_fd = cay_tree_parent(tree, path.bytes, true, name, &has_slash);
    if (parent_fd < 0 || cay_tree_make_dir(parent_fd, name, 0755) < 0)
        return;
    cay_autoclose int fd = cay_pin_open_type(parent_fd, name, S_IFDIR);
    if (fd < 0 || cay_pin_chown(fd, tree->id_base + who->uid, tree->id_base + who->gid) < 0)
        (void)unlinkat(parent_fd, name, AT_REMOVEDIR); /* better none than one that is closed */
}

bool cay_session_make_cwd(int root_fd, uint32_t id_base, struct cay_str user, struct cay_str cwd,
                          struct cay_error *err)
{
    const struct cay_tool_tree tree = {.root_fd = root_fd, .id_base = id_base, .cwd = CAY_STR("/")};
    struct cay_user who;
    if (!cay_user_find(&tree, user, true, &who, err))
        return false;
    make(&tree, &who, cwd);
    return true;
}

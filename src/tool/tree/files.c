/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/tree/files.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/id.h"
#include "tool/tree/info.h"
#include "tool/tree/tree_internal.h"

static bool arena_full(struct cay_error *err)
{
    return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "the answer is larger than this host allows");
}

static bool info_failed(struct cay_error *err, int neg_errno, struct cay_str path)
{
    return neg_errno == -ENOMEM ? arena_full(err) : cay_tree_fail(err, neg_errno, path);
}

/* Describes what the path leads to, or the link itself. */
static bool describe(const struct cay_tool_tree *tree, const struct cay_path *path, bool follow,
                     struct cay_arena *arena, struct cay_v1_file_info *out_info,
                     struct cay_error *err)
{
    struct cay_str shown = {path->bytes, path->len};
    cay_autoclose int fd = cay_tree_open(tree, path->bytes, O_PATH | (follow ? 0 : O_NOFOLLOW));
    if (fd < 0)
        return cay_tree_fail(err, fd, shown);
    struct cay_info info;
    cay_info_init(&info, tree, arena);
    int filled = cay_info_fd(&info, fd, shown, out_info);
    /* A link's own target is read through the descriptor of the link, so both belong together. */
    if (filled == 0 && out_info->type == CAY_V1_FILE_TYPE_SYMLINK)
        filled = cay_info_at(&info, fd, "", shown, out_info);
    return filled == 0 || info_failed(err, filled, shown);
}

bool cay_files_stat(const struct cay_tool_tree *tree, struct cay_str path, bool follow,
                    struct cay_arena *arena, struct cay_v1_file_info *out_info,
                    struct cay_error *err)
{
    cay_auto(cay_tree_leave) struct cay_tree_visit visit = {};
    struct cay_path at;
    return cay_tree_enter(tree, &visit, err) && cay_path_resolve(tree, path, &at, err) &&
           describe(tree, &at, follow, arena, out_info, err);
}

static bool describe_new(const struct cay_tool_tree *tree, const struct cay_path *path,
                         struct cay_arena *arena, struct cay_v1_file_info **out_info,
                         struct cay_error *err)
{
    *out_info = cay_arena_new(arena, struct cay_v1_file_info);
    return *out_info ? describe(tree, path, false, arena, *out_info, err) : arena_full(err);
}

/* An existing directory, or a link to one. */
static int is_directory(const struct cay_tool_tree *tree, const char *path)
{
    cay_autoclose int fd = cay_tree_open(tree, path, O_PATH | O_DIRECTORY);
    return fd < 0 ? fd : 0;
}

bool cay_files_make_dir(const struct cay_tool_tree *tree,
                        const struct cay_v1_make_dir_request *request, struct cay_arena *arena,
                        struct cay_v1_make_dir_response *out_response, struct cay_error *err)
{
    if (request->has_mode && request->mode > 07777)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "mode is between 0 and 07777");
    cay_auto(cay_tree_leave) struct cay_tree_visit visit = {};
    struct cay_path path;
    if (!cay_tree_enter(tree, &visit, err) || !cay_path_resolve(tree, request->path, &path, err))
        return false;
    char name[CAY_TREE_NAME_BYTES];
    bool slash = false;
    cay_autoclose int parent_fd =
        cay_tree_parent(tree, path.bytes, request->create_parents, name, &slash);
    int made = parent_fd;
    if (parent_fd == -EISDIR) /* "/" and "a/..": nothing to make */
        made = is_directory(tree, path.bytes) == 0 ? -EEXIST : -ENOENT;
    else if (parent_fd >= 0)
        made = cay_tree_make_dir(parent_fd, name, request->has_mode ? request->mode : 0755);
    if (made == -EEXIST && request->exist_ok && is_directory(tree, path.bytes) == 0)
        made = 1;
    if (made < 0)
        return cay_tree_fail(err, made, (struct cay_str){path.bytes, path.len});
    out_response->created = made == 0;
    return describe_new(tree, &path, arena, &out_response->info, err);
}

/* Made beside and moved over: whoever looks sees the old one or the link. */
static int replace_by_link(const struct cay_tool_tree *tree, int parent_fd, const char *name,
                           const char *target)
{
    char temporary[CAY_TREE_NAME_BYTES];
    int kept = cay_tree_keep_mount(tree, parent_fd, name);
    if (kept < 0)
        return kept;
    if (!cay_id_try(temporary, sizeof(temporary), ".cay-") ||
        symlinkat(target, parent_fd, temporary) < 0)
        return -errno;
    if (renameat(parent_fd, temporary, parent_fd, name) == 0)
        return 0;
    int result = -errno;
    (void)unlinkat(parent_fd, temporary, 0);
    return result;
}

bool cay_files_make_symlink(const struct cay_tool_tree *tree,
                            const struct cay_v1_make_symlink_request *request,
                            struct cay_arena *arena,
                            struct cay_v1_make_symlink_response *out_response,
                            struct cay_error *err)
{
    cay_auto(cay_tree_leave) struct cay_tree_visit visit = {};
    struct cay_path path;
    struct cay_path target;
    if (!request->target.len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "target: where the link leads");
    if (!cay_path_decode(request->target, &target, err) || !cay_tree_enter(tree, &visit, err) ||
        !cay_path_resolve(tree, request->path, &path, err))
        return false;
    char name[CAY_TREE_NAME_BYTES];
    bool slash = false;
    cay_autoclose int parent_fd =
        cay_tree_parent(tree, path.bytes, request->create_parents, name, &slash);
    int made = parent_fd == -EISDIR ? -EEXIST : parent_fd;
    if (parent_fd >= 0)
        made = slash ? -ENOTDIR : symlinkat(target.bytes, parent_fd, name) < 0 ? -errno : 0;
    if (made == -EEXIST && parent_fd >= 0 && request->replace)
        made = replace_by_link(tree, parent_fd, name, target.bytes);
    if (made < 0)
        return cay_tree_fail(err, made, (struct cay_str){path.bytes, path.len});
    return describe_new(tree, &path, arena, &out_response->info, err);
}

static int rename_between(const struct cay_tool_tree *tree, const struct cay_path *source,
                          const struct cay_path *destination, bool create_parents, bool no_replace,
                          const struct cay_path **out_about)
{
    char old_name[CAY_TREE_NAME_BYTES];
    char new_name[CAY_TREE_NAME_BYTES];
    bool old_slash = false;
    bool new_slash = false;
    *out_about = source;
    cay_autoclose int old_fd = cay_tree_parent(tree, source->bytes, false, old_name, &old_slash);
    if (old_fd < 0)
        return old_fd == -EISDIR ? -EINVAL : cay_take_fd(old_fd);
    struct stat st;
    if (fstatat(old_fd, old_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (old_slash && !S_ISDIR(st.st_mode))
        return -ENOTDIR;
    int kept = cay_tree_keep_mount(tree, old_fd, old_name);
    if (kept < 0)
        return kept;
    *out_about = destination;
    cay_autoclose int new_fd =
        cay_tree_parent(tree, destination->bytes, create_parents, new_name, &new_slash);
    if (new_fd < 0)
        return new_fd == -EISDIR ? (no_replace ? -EEXIST : -EINVAL) : cay_take_fd(new_fd);
    if (new_slash && !S_ISDIR(st.st_mode))
        return -ENOTDIR;
    kept = cay_tree_keep_mount(tree, new_fd, new_name);
    if (kept < 0)
        return kept;
    if (no_replace)
        return cay_tree_rename_new(old_fd, old_name, new_fd, new_name);
    return renameat(old_fd, old_name, new_fd, new_name) < 0 ? -errno : 0;
}

bool cay_files_move(const struct cay_tool_tree *tree,
                    const struct cay_v1_move_file_request *request, struct cay_arena *arena,
                    struct cay_v1_move_file_response *out_response, struct cay_error *err)
{
    cay_auto(cay_tree_leave) struct cay_tree_visit visit = {};
    struct cay_path source;
    struct cay_path destination;
    if (!cay_tree_enter(tree, &visit, err) ||
        !cay_path_resolve(tree, request->source, &source, err) ||
        !cay_path_resolve(tree, request->destination, &destination, err))
        return false;
    const struct cay_path *about = NULL;
    int moved = rename_between(tree, &source, &destination, request->create_parents,
                               request->no_replace, &about);
    if (moved < 0)
        return cay_tree_fail(err, moved, (struct cay_str){about->bytes, about->len});
    return describe_new(tree, &destination, arena, &out_response->info, err);
}

bool cay_files_open(const struct cay_tool_tree *tree, struct cay_str path, struct cay_arena *arena,
                    struct cay_v1_file_info *out_info, int *out_fd, struct cay_error *err)
{
    cay_auto(cay_tree_leave) struct cay_tree_visit visit = {};
    struct cay_path at;
    if (!cay_tree_enter(tree, &visit, err) || !cay_path_resolve(tree, path, &at, err))
        return false;
    struct cay_str shown = {at.bytes, at.len};
    struct stat st;
    cay_autoclose int fd = cay_tree_open_file(tree, at.bytes, O_RDONLY, &st);
    if (fd < 0)
        return cay_tree_fail(err, fd, shown);
    if (out_info) {
        struct cay_info info;
        cay_info_init(&info, tree, arena);
        int filled = cay_info_stat(&info, fd, &st, shown, out_info);
        if (filled < 0)
            return info_failed(err, filled, shown);
    }
    *out_fd = cay_take_fd(fd);
    return true;
}

bool cay_files_write_open(const struct cay_tool_tree *tree, struct cay_str path,
                          const struct cay_write_options *options, struct cay_write *out_write,
                          struct cay_error *err)
{
    cay_auto(cay_tree_leave) struct cay_tree_visit visit = {};
    struct cay_path at;
    return cay_tree_enter(tree, &visit, err) && cay_path_resolve(tree, path, &at, err) &&
           cay_write_open(tree, &at, options, out_write, err);
}

bool cay_files_write_commit(const struct cay_tool_tree *tree, struct cay_str path,
                            struct cay_write *write, struct cay_arena *arena,
                            struct cay_v1_write_file_response *out_response, struct cay_error *err)
{
    cay_auto(cay_tree_leave) struct cay_tree_visit visit = {};
    if (!cay_tree_enter(tree, &visit, err)) {
        cay_write_abort(write);
        return false;
    }
    struct cay_path at;
    if (!cay_write_commit(write, err) || !cay_path_resolve(tree, path, &at, err))
        return false;
    struct cay_v1_file_info *info = cay_arena_new(arena, struct cay_v1_file_info);
    if (!info)
        return arena_full(err);
    if (!describe(tree, &at, true, arena, info, err))
        return false;
    *out_response = (struct cay_v1_write_file_response){.info = info,
                                                        .bytes_written = write->received_bytes,
                                                        .entries_written = 1,
                                                        .created = write->created};
    return true;
}

void cay_files_write_abort(const struct cay_tool_tree *tree, struct cay_write *write)
{
    cay_auto(cay_tree_leave) struct cay_tree_visit visit = {};
    struct cay_error ignored;
    /* Only a temporary name needs the user's rights to go; without them the rest is still freed. */
    if (!cay_tree_enter(tree, &visit, &ignored))
        write->temporary[0] = '\0';
    cay_write_abort(write);
}

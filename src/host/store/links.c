/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/links.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/stop.h"
#include "host/store/base.h"
#include "host/store/dir_list.h"
#include "host/store/store_ops.h"
#include "sys/resolve.h"

enum { DEPTH_MAX = 400 }; /* a descriptor per level */

struct walk {
    struct cay_links *links;
    cay_links_visit *visit;
    void *ctx;
    struct cay_buf path;
    uint64_t entries;
    struct cay_error *err;
};

void cay_links_init(struct cay_links *links)
{
    *links = (struct cay_links){};
    cay_map_init(&links->by_inode);
    cay_map_init(&links->by_path);
}

static void free_group(struct cay_link_group *group)
{
    while (group->first) {
        struct cay_link_name *name = group->first;
        group->first = name->next;
        free(name->path);
        free(name);
    }
    free(group);
}

void cay_links_finish(struct cay_links *links)
{
    cay_map_finish(&links->by_inode);
    cay_map_finish(&links->by_path);
    while (links->groups) {
        struct cay_link_group *group = links->groups;
        links->groups = group->next;
        free_group(group);
    }
}

static void add(struct cay_links *links, const struct stat *st, const char *path)
{
    char key[40];
    if (cay_map_get(&links->by_path, cay_str(path)))
        return;
    snprintf(key, sizeof(key), "%llx.%llx", (unsigned long long)st->st_dev,
             (unsigned long long)st->st_ino);
    struct cay_link_group *group = cay_map_get(&links->by_inode, cay_str(key));
    if (!group) {
        group = cay_new(struct cay_link_group);
        memcpy(group->key, key, sizeof(key));
        group->next = links->groups;
        links->groups = group;
        cay_map_put(&links->by_inode, cay_str(group->key), group);
    }
    struct cay_link_name *name = cay_new(struct cay_link_name);
    name->path = cay_strdup(path);
    name->group = group;
    if (group->last)
        group->last->next = name;
    else
        group->first = name;
    group->last = name;
    group->count++;
    cay_map_put(&links->by_path, cay_str(name->path), name);
}

static bool fail(struct walk *walk, int neg_errno)
{
    return cay_store_fail(walk->err, neg_errno, "walk '%.*s'",
                          (int)CAY_MIN(walk->path.len, (size_t)128), walk->path.data);
}

static bool walk_dir(struct walk *walk, int dir_fd, int depth);

static bool walk_name(struct walk *walk, int dir_fd, const char *name, int depth)
{
    struct stat st;
    size_t len = walk->path.len;
    if (cay_stop_asked())
        return fail(walk, -ECANCELED);
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return fail(walk, -errno);
    if (++walk->entries > CAY_BASE_ENTRIES_MAX)
        return cay_fail(walk->err, CAY_R_RESOURCE_EXHAUSTED, "the tree has more than %d entries",
                        CAY_BASE_ENTRIES_MAX);
    if (len)
        cay_buf_append_byte(&walk->path, '/');
    cay_buf_append_text(&walk->path, name);
    cay_buf_append_byte(&walk->path, '\0');
    if (walk->path.failed)
        return fail(walk, -ENAMETOOLONG);
    walk->path.len--;
    bool is_too_long = walk->path.len >= CAY_LINKS_PATH_MAX;
    if (!S_ISDIR(st.st_mode) && st.st_nlink > 1 && !is_too_long)
        add(walk->links, &st, walk->path.data);
    bool is_good = !walk->visit || walk->visit(walk->ctx, walk->path.data, walk->err);
    if (is_good && S_ISDIR(st.st_mode)) {
        cay_autoclose int fd =
            openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        is_good = fd < 0 ? fail(walk, -errno) : walk_dir(walk, fd, depth + 1);
    }
    walk->path.len = len;
    return is_good;
}

static bool walk_dir(struct walk *walk, int dir_fd, int depth)
{
    if (depth > DEPTH_MAX) {
        walk->links->too_deep++;
        return true;
    }
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    int rc = cay_dir_list_read(&names, dir_fd);
    if (rc < 0)
        return fail(walk, rc);
    cay_dir_list_sort(&names);
    for (size_t i = 0; i < names.count; i++) {
        if (!walk_name(walk, dir_fd, cay_dir_list_name(&names, i), depth))
            return false;
    }
    return true;
}

/* Other names of a file may be outside the tree: all files of the base `host` have some. */
static void drop_single_names(struct cay_links *links)
{
    for (struct cay_link_group **at = &links->groups; *at;) {
        struct cay_link_group *group = *at;
        if (group->count > 1) {
            at = &group->next;
            continue;
        }
        *at = group->next;
        cay_map_remove(&links->by_path, cay_str(group->first->path));
        cay_map_remove(&links->by_inode, cay_str(group->key));
        free_group(group);
    }
}

bool cay_links_read(struct cay_links *links, int root_fd, cay_links_visit *visit, void *ctx,
                    struct cay_error *err)
{
    struct walk walk = {.links = links, .visit = visit, .ctx = ctx, .err = err};
    cay_buf_init(&walk.path, (size_t)(DEPTH_MAX + 2) * (NAME_MAX + 1));
    bool is_good = walk_dir(&walk, root_fd, 0);
    cay_buf_finish(&walk.path);
    drop_single_names(links);
    return is_good;
}

void cay_links_follow(struct cay_links *links, const struct cay_links *before, int root_fd)
{
    for (const struct cay_link_group *group = before->groups; group; group = group->next) {
        for (const struct cay_link_name *name = group->first; name; name = name->next) {
            struct stat st;
            if (cay_stop_asked())
                return; /* so does whoever asked */
            cay_autoclose int fd =
                cay_resolve_open_plain(root_fd, name->path, O_PATH | O_NOFOLLOW, 0);
            if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode) && st.st_nlink > 1)
                add(links, &st, name->path);
        }
    }
    drop_single_names(links);
}

bool cay_links_read_path(struct cay_links *links, int root_fd, const char *path,
                         struct cay_error *err)
{
    struct walk walk = {.links = links, .err = err};
    const char *slash = strrchr(path, '/');
    struct cay_str parent = {path, slash ? (size_t)(slash - path) : 0};
    const char *name = slash ? slash + 1 : path;
    if (!*path)
        return cay_links_read(links, root_fd, NULL, NULL, err);
    cay_buf_init(&walk.path, (size_t)(DEPTH_MAX + 2) * (NAME_MAX + 1));
    cay_autofree char *folder = parent.len ? cay_strndup(path, parent.len) : cay_strdup(".");
    cay_autoclose int fd = cay_resolve_open_plain(root_fd, folder, O_RDONLY | O_DIRECTORY, 0);
    cay_buf_append_str(&walk.path, parent);
    bool is_there = fd >= 0 && faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    bool is_good = !is_there || walk_name(&walk, fd, name, 0);
    cay_buf_finish(&walk.path);
    return is_good;
}

const struct cay_link_group *cay_links_find(const struct cay_links *links, const char *path)
{
    const struct cay_link_name *name = cay_map_get(&links->by_path, cay_str(path));
    return name && name->group->count > 1 ? name->group : NULL;
}

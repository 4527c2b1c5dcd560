/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which names of a tree are the same file. A difference between two trees compares name by name and
 * does not see that; whoever writes a tree down must.
 */

#include <limits.h>

#include "base/error.h"
#include "base/map.h"

struct cay_link_group;

struct cay_link_name {
    char *path;
    struct cay_link_group *group;
    struct cay_link_name *next; /* in the group */
};

struct cay_link_group {
    struct cay_link_group *next;
    struct cay_link_name *first; /* as the walk met it */
    struct cay_link_name *last;
    char key[40]; /* device and inode */
    size_t count;
};

struct cay_links {
    struct cay_link_group *groups;
    struct cay_map by_inode;
    struct cay_map by_path;
    uint64_t too_deep; /* directories that were not gone into */
};

/* Names with longer paths are not looked at: no archive takes them. */
enum { CAY_LINKS_PATH_MAX = PATH_MAX - 32 };

/* Called for every entry of the tree in walk order, parents first; may be NULL. */
typedef bool cay_links_visit(void *ctx, const char *path, struct cay_error *err);

void cay_links_init(struct cay_links *links);
void cay_links_finish(struct cay_links *links);
/* Looks at the whole tree, down to 400 directories. RESOURCE_EXHAUSTED for one that is too large.
 */
[[nodiscard]] bool cay_links_read(struct cay_links *links, int root_fd, cay_links_visit *visit,
                                  void *ctx, struct cay_error *err);

/* Of a tree that differs from another only in files with one name: what is left of the groups that
 * the other has. Looks at their names alone. */
void cay_links_follow(struct cay_links *links, const struct cay_links *before, int root_fd);

/* Adds what is at a path or below it. A path that is not there has no names. */
[[nodiscard]] bool cay_links_read_path(struct cay_links *links, int root_fd, const char *path,
                                       struct cay_error *err);

/* NULL when it is the only name of its file. */
const struct cay_link_group *cay_links_find(const struct cay_links *links, const char *path);

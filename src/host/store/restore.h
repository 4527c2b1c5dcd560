/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes single paths of a live tree what they are in a view of the past. The caller knows which
 * paths differ and names them one by one, parents before what is in them; nobody else may write to
 * the tree meanwhile. Everything is done by descriptor and without following links. Doing it again
 * does no harm: after a crash the caller begins anew.
 */

#include "base/error.h"
#include "base/map.h"

struct cay_restore_link;

struct cay_restore {
    int view_fd;
    int root_fd;
    char temp[48];
    struct cay_map links; /* files with several names, by inode: the first name restored */
    struct cay_restore_link *all_links;
    char **dirs; /* whose times are to be set at the end */
    size_t dir_count;
};

/* The id is part of the names of what is under way in the tree. */
void cay_restore_init(struct cay_restore *restore, int view_fd, int root_fd, const char *id);
void cay_restore_finish(struct cay_restore *restore);

/* The path (without a leading slash) as the view has it: a directory itself, not what is in it;
 * gone with everything in it when the view does not have it. Missing directories above it are made
 * as they were. INVALID_STATE when something else stands in the place of one. */
[[nodiscard]] bool cay_restore_path(struct cay_restore *restore, const char *path,
                                    struct cay_error *err);

/* Whether a path is there: in a view or a live tree. -errno. */
[[nodiscard]] int cay_restore_has(int root_fd, const char *path);

/* Whether it is a directory that can be entered without following links: 1, 0, or -errno. */
[[nodiscard]] int cay_restore_is_dir(int root_fd, const char *path);

/* At the end: times of directories, which changed with what was put into them. */
[[nodiscard]] bool cay_restore_settle(struct cay_restore *restore, struct cay_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of watch.h share. */

#include <pthread.h>

#include "base/map.h"
#include "tool/tree/tree.h"
#include "tool/tree/watch.h"

/* A directory as one watcher sees it. */
struct cay_watched_dir {
    struct cay_list_node in_watch;
    struct cay_list_node in_watcher;
    struct cay_watch_mark *mark;
    struct cay_watcher *watcher;
    size_t len;
    char path[]; /* from the watcher's root; empty: that itself */
};

/* A watch of the kernel, which several watchers may share. */
struct cay_watch_mark {
    int wd;
    struct cay_list dirs;
};

struct cay_watches {
    pthread_mutex_t lock;
    uint32_t id_base, owner;
    int fd;
    int root_fd; /* the tree, to describe what is in it */
    bool has_mounts;
    struct cay_map marks; /* by number */
    size_t dir_count;
    struct cay_list watchers;
};

/* Watches a directory (O_PATH) for a watcher; -errno. 1: it was watched already. */
[[nodiscard]] int cay_watch_mark(struct cay_watches *watches, struct cay_watcher *watcher,
                                 int dir_fd, struct cay_str path);
struct cay_watch_mark *cay_watch_find_mark(const struct cay_watches *watches, int wd);
/* No longer watched at `path` and below it; the watcher's root with an empty one. */
void cay_watch_unmark(struct cay_watches *watches, struct cay_watcher *watcher,
                      struct cay_str path);
/* The kernel has dropped it. */
void cay_watch_forget_mark(struct cay_watches *watches, struct cay_watch_mark *mark);

/* Watches everything below `path` of a watcher, as its user; with `tell`, what is there is told as
 * made. -errno when it is too much. */
[[nodiscard]] int cay_watch_below(struct cay_watches *watches, struct cay_watcher *watcher,
                                  struct cay_str path, bool tell);
void cay_watch_tell(struct cay_watches *watches, struct cay_watcher *watcher, struct cay_str name,
                    enum cay_v1_file_event_type type);
void cay_watch_forget_scanned(struct cay_watcher *watcher);

/* The tree as the watcher's user sees it. */
struct cay_tool_tree cay_watch_tree(const struct cay_watches *watches,
                                    const struct cay_watcher *watcher);

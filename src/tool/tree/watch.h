/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Watching directories of one session: one inotify instance, any number of watchers, each as one
 * user of the sandbox. Everything here blocks and belongs on a worker, but for what says otherwise;
 * a lock puts the workers in order.
 *
 * Watches are on directories, not on their names: one that is renamed is watched on. New
 * directories of a recursive watcher are watched as soon as their making is read, and what was in
 * them by then is told as made. What would be too much is told as an overflow.
 *
 * Order: create -> add | read | move | remove ... -> destroy, when no worker is at it.
 */

#include "api/cay_v1.h"
#include "base/list.h"
#include "base/map.h"
#include "tool/tree/path.h"
#include "tool/tree/user.h"

enum {
    CAY_WATCH_DIRS_MAX = 16384, /* of one session */
    CAY_WATCH_QUEUE_MAX = 8192, /* events that one watcher has not taken */
    CAY_WATCH_QUEUE_BYTES_MAX = 4 << 20,
};

struct cay_watches;

/* One thing to tell; the receiver frees it. */
struct cay_watch_item {
    struct cay_list_node in_queue;
    size_t len;
    char bytes[]; /* cay.v1.FileEvent, encoded */
};

struct cay_watcher {
    struct cay_list_node in_set;
    struct cay_user user;
    struct cay_path path; /* absolute in the session */
    bool is_recursive;
    bool wants_info;
    int root_fd; /* O_PATH, while it is worked on */
    struct cay_list dirs;
    struct cay_map scanned; /* told as made by looking, until the queue was empty */

    /* Found since the last read gave it away; the set's. */
    struct cay_list fresh;
    size_t fresh_count, fresh_bytes;
    bool fresh_overflow, fresh_gone;

    /* What the last read gave away: the owner's, while no read is under way. */
    struct cay_list handed;
    size_t handed_count;
    bool is_overflowed; /* before what is in `handed` */
    bool is_gone;       /* the directory is; nothing comes any more */
};

void cay_watch_items_free(struct cay_list *items);

/* `owner` is a host id that the kernel counts instance and watches against. Does not block. */
struct cay_watches *cay_watches_create(uint32_t id_base, uint32_t owner);
void cay_watches_destroy(struct cay_watches *watches);

/* To be polled while there are watchers; -1 before. Does not block. */
[[nodiscard]] int cay_watches_fd(const struct cay_watches *watches);

/* user, is_recursive and wants_info are set, the rest zeroed. From its return on, no change is
 * missed. */
[[nodiscard]] bool cay_watches_add(struct cay_watches *watches, struct cay_watcher *watcher,
                                   const struct cay_tool_tree *tree, struct cay_str path,
                                   int64_t *out_directories, struct cay_error *err);
/* Also frees what it holds. With the last one the instance goes. */
void cay_watches_remove(struct cay_watches *watches, struct cay_watcher *watcher);

/* Takes what the kernel has, without waiting for more, and hands it to the watchers. */
void cay_watches_read(struct cay_watches *watches);

/* The same tree under a new root: every watcher goes on there, or its directory is gone. */
void cay_watches_move(struct cay_watches *watches, int root_fd, bool has_mounts, bool is_changed);

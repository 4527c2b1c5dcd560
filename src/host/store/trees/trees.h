/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stores that keep every session, snapshot and base as a whole tree of its own, made by cloning
 * another. What is common to them is here: ids, records, references, recovery, comparing. A member
 * brings the few things that its file system does in its own way (struct cay_tree_ops) and its
 * struct cay_store_ops, most slots of which are the functions below.
 *
 *   t/ID    a tree                                          lock, format, anchor
 *   s/...   sessions: ID,TREE,BASE,LAST,STAMP,STAMP,GENERATION,CREATED,QUOTA
 *   p/...   snapshots: ID,TREE,BASE,CREATED,CHANGED
 *   b/NAME  base: its tree            a/NAME  alias: a base's name
 *
 * A tree that no record names was never finished or is not needed any more: collect removes it, and
 * so does the next start. That is all there is to recovery.
 */

#include <pthread.h>

#include "base/map.h"
#include "host/store/diff_touched.h"
#include "host/store/owner_map.h"
#include "host/store/store_ops.h"

struct cay_trees;

/* Two equal stamps of a tree: it did not change in between. All zero: not known. */
struct cay_tree_stamp {
    uint64_t words[2];
};

/* No more than so much beyond its base for a tree, and where the file system can count it, for all
 * trees that the session has had and what is kept of them. 0: no limit. */
struct cay_tree_limit {
    const char *session_id;
    const char *id;
    const char *base;
    uint64_t bytes_max;
};

/* A tree and others of the same session, which are sealed. What several have counts once. */
struct cay_tree_group {
    const char *id;
    const char *base; /* of all of them */
    const char *const *others;
    size_t other_count;
};

/* All may block. Trees are named by id and lie in trees->trees_fd; those that a call reads exist,
 * those that it makes do not. */
struct cay_tree_ops {
    /* Looks whether the directory can hold such trees (NOT_SUPPORTED), and makes those of an
     * earlier life reachable. May be NULL, as stop may. */
    bool (*start)(struct cay_trees *, struct cay_error *);
    void (*stop)(struct cay_trees *);
    /* An empty writable tree. */
    bool (*make)(struct cay_trees *, const char *id, struct cay_error *);
    /* A copy of the tree as it is now, sealed or writable. Processes with it open are frozen. */
    bool (*clone)(struct cay_trees *, const char *from, const char *id, bool sealed,
                  struct cay_error *);
    /* Makes a tree that was filled read-only. */
    bool (*seal)(struct cay_trees *, const char *id, struct cay_error *);
    /* Takes away at most *budget entries; -EAGAIN: call again, -EBUSY: some other time. Absent is
     * fine. -errno. */
    int (*remove)(struct cay_trees *, const char *id, uint64_t *budget);
    /* `settle`: not before every later change is sure to change it. NULL: never known. */
    bool (*stamp)(struct cay_trees *, const char *id, bool settle, struct cay_tree_stamp *,
                  struct cay_error *);
    /* Instead of stamps: whether the tree is certain to be what its clone `last` is. */
    bool (*is_same)(struct cay_trees *, const char *id, const char *last);
    /* False when something may have been written that no stamp shows before the tree is cloned.
     * NULL: there is no such thing. */
    bool (*stamps_tell)(struct cay_trees *, const char *id);
    /* NULL: cannot. */
    bool (*limit)(struct cay_trees *, const struct cay_tree_limit *, struct cay_error *);
    /* What the trees have beyond their base. NULL: by walking both, and only the first. */
    bool (*measure)(struct cay_trees *, const struct cay_tree_group *, struct cay_store_usage *,
                    struct cay_error *);
    /* Brings all trees to the disk, beyond what syncfs of the directory does. NULL: nothing. */
    bool (*sync)(struct cay_trees *, struct cay_error *);
    /* What was changed in either of two sealed trees since they were one. False when that cannot be
     * told; then both are walked. NULL: never. */
    bool (*changed)(struct cay_trees *, const char *from, const char *to, const char *base,
                    struct cay_diff_touched *);
    /* Clones are made ahead of need: they are cheap to have, not so cheap to make. */
    bool keeps_spares;
};

struct cay_trees {
    struct cay_store store; /* first */
    const struct cay_tree_ops *ops;
    const char *directory; /* as configured, for programs that need a path */
    int root_fd, lock_fd;
    int trees_fd; /* t/, for all but mounting; a member may put a mount without access times here */
    int mounts_fd; /* t/, for mounting */
    int sessions_fd, snapshots_fd, bases_fd, aliases_fd;
    pthread_mutex_t lock; /* of the tables, never held in a call of ops */
    pthread_mutex_t collect_lock;
    struct cay_map trees, sessions, snapshots, names;
    char (*dead)[CAY_STORE_ID_SIZE]; /* trees to be removed */
    size_t dead_count, dead_cap;
    uint64_t spare_count, spare_clock;
    struct cay_owner_map owners;
    unsigned missing_caps; /* what this kind can do, but not here; set by start */
    void *own;             /* the member's */
};

static inline struct cay_trees *cay_trees_of(struct cay_store *store)
{
    return (struct cay_trees *)store;
}

/* The member's open calls this. `format` is written into a new directory and found there again. */
[[nodiscard]] bool cay_trees_open(const struct cay_store_config *config,
                                  const struct cay_store_ops *store_ops,
                                  const struct cay_tree_ops *ops, const char *format,
                                  struct cay_store **out_store, struct cay_error *err);

/* Opens a tree's root for reading. -errno. */
[[nodiscard]] int cay_trees_open_tree(const struct cay_trees *trees, const char *id);
/* Whether owners can be mapped at mount time there. */
[[nodiscard]] bool cay_trees_can_map_owners(int dir_fd, const char *path);
/* Makes trees_fd a mount of its own without access times: looking must not change a tree. */
[[nodiscard]] bool cay_trees_without_atime(struct cay_trees *trees, struct cay_error *err);
/* Waits until the clock that file systems take their times from has passed `ns`. */
void cay_trees_pass(int64_t ns);

/* --- slots of struct cay_store_ops --- */
unsigned cay_trees_caps(const struct cay_store *);
void cay_trees_close(struct cay_store *);
bool cay_trees_create(struct cay_store *, const char *, const struct cay_store_source *,
                      struct cay_error *);
bool cay_trees_mount(struct cay_store *, const char *, const struct cay_store_owner *, int *,
                     struct cay_error *);
bool cay_trees_snapshot(struct cay_store *, const struct cay_store_snapshot_request *,
                        struct cay_store_point *, struct cay_error *);
bool cay_trees_rollback(struct cay_store *, const char *, const char *,
                        const struct cay_store_owner *, struct cay_store_point *,
                        struct cay_error *);
bool cay_trees_fork(struct cay_store *, const struct cay_store_fork_request *,
                    struct cay_store_point *, struct cay_error *);
bool cay_trees_destroy(struct cay_store *, const char *, struct cay_error *);
void cay_trees_forget_owner(struct cay_store *, uint32_t);
bool cay_trees_delete_snapshot(struct cay_store *, const char *, struct cay_error *);
bool cay_trees_collect(struct cay_store *, uint64_t, bool *, struct cay_error *);
bool cay_trees_sync(struct cay_store *, struct cay_error *);
bool cay_trees_diff(struct cay_store *, const struct cay_diff_request *, struct cay_diff_stats *,
                    struct cay_error *);
bool cay_trees_view(struct cay_store *, const struct cay_store_ref *,
                    const struct cay_store_owner *, int *, struct cay_error *);
bool cay_trees_usage(struct cay_store *, const struct cay_store_ref *, struct cay_store_usage *,
                     struct cay_error *);
bool cay_trees_usage_whole(struct cay_store *, const char *, const char (*)[CAY_STORE_ID_SIZE],
                           size_t, struct cay_store_usage *, struct cay_error *);
bool cay_trees_list(struct cay_store *, cay_store_item_fn *, void *, struct cay_error *);
bool cay_trees_set_quota(struct cay_store *, const char *, uint64_t, struct cay_error *);
bool cay_trees_base_begin(struct cay_store *, struct cay_store_base_draft *, struct cay_error *);
bool cay_trees_base_begin_from(struct cay_store *, const struct cay_store_ref *,
                               struct cay_store_base_draft *, struct cay_error *);
bool cay_trees_base_commit(struct cay_store *, struct cay_store_base_draft *, const char *, bool,
                           struct cay_error *);
void cay_trees_base_abort(struct cay_store *, struct cay_store_base_draft *);
bool cay_trees_base_remove(struct cay_store *, const char *, struct cay_error *);
bool cay_trees_base_alias(struct cay_store *, const char *, const char *, struct cay_error *);
bool cay_trees_base_resolve(struct cay_store *, const char *, char *, struct cay_error *);
bool cay_trees_base_id(struct cay_store *, const char *, char *, struct cay_error *);
bool cay_trees_base_is_used(struct cay_store *, const char *);

/* The slots that every member fills alike, and those of members that take snapshots. A member adds
 * what is its own: name, caps, check, open, collect. */
/* clang-format off */
#define CAY_TREES_SLOTS                                                                            \
    .caps_here = cay_trees_caps,                                                                   \
    .close = cay_trees_close,                                                                      \
    .create = cay_trees_create,                                                                    \
    .mount = cay_trees_mount,                                                                      \
    .destroy = cay_trees_destroy,                                                                  \
    .forget_owner = cay_trees_forget_owner,                                                        \
    .delete_snapshot = cay_trees_delete_snapshot,                                                  \
    .sync = cay_trees_sync,                                                                        \
    .diff = cay_trees_diff,                                                                        \
    .view = cay_trees_view,                                                                        \
    .usage = cay_trees_usage,                                                                      \
    .list = cay_trees_list,                                                                        \
    .base_begin = cay_trees_base_begin,                                                            \
    .base_begin_from = cay_trees_base_begin_from,                                                  \
    .base_commit = cay_trees_base_commit,                                                          \
    .base_abort = cay_trees_base_abort,                                                            \
    .base_remove = cay_trees_base_remove,                                                          \
    .base_alias = cay_trees_base_alias,                                                            \
    .base_resolve = cay_trees_base_resolve,                                                        \
    .base_id = cay_trees_base_id,                                                                  \
    .base_is_used = cay_trees_base_is_used

#define CAY_TREES_SNAPSHOT_SLOTS                                                                   \
    .snapshot = cay_trees_snapshot,                                                                \
    .rollback = cay_trees_rollback,                                                                \
    .fork = cay_trees_fork,                                                                        \
    .set_quota = cay_trees_set_quota,                                                              \
    .usage_whole = cay_trees_usage_whole
/* clang-format on */

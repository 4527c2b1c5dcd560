/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of this room share. trees.h has the layout on disk. */

#include "host/store/record.h"
#include "host/store/trees/trees.h"

enum { TREES_SPARES_MAX = 64 };

struct tree {
    char id[CAY_STORE_ID_SIZE];
    uint32_t refs;                 /* records that name it, calls that use it */
    char spare[CAY_STORE_ID_SIZE]; /* a writable clone nobody has yet, or "" */
    uint64_t spare_wanted;         /* when it was last asked for; 0: not */
    bool is_measured;
    struct cay_store_usage usage;
};

struct session {
    char id[CAY_STORE_ID_SIZE];
    struct tree *tree;
    struct tree *base;
    struct tree *last; /* what the tree was when its stamp was taken, or NULL */
    struct cay_tree_stamp stamp;
    uint64_t generation;
    int64_t created_ms;
    uint64_t quota_bytes;
};

struct snapshot {
    char id[CAY_STORE_ID_SIZE];
    struct tree *tree;
    struct tree *base;
    bool changed;
    int64_t created_ms;
};

/* A base, or (without a tree) an alias. */
struct name {
    char name[CAY_STORE_NAME_SIZE];
    char target[CAY_STORE_NAME_SIZE];
    struct tree *tree;
    int64_t created_ms;
};

/* --- table.c: all under the lock but trees_drop --- */
struct tree *trees_enter(struct cay_trees *trees, const char *id); /* with one reference */
struct tree *trees_ref(struct tree *tree);
/* The last reference sends the tree and its spare to the dead. NULL is fine. */
void trees_unref(struct cay_trees *trees, struct tree *tree);
void trees_drop(struct cay_trees *trees, struct tree *tree); /* takes the lock */
void trees_bury(struct cay_trees *trees, const char *id);
void trees_bury_unlocked(struct cay_trees *trees, const char *id); /* takes the lock */
struct session *trees_session(struct cay_trees *trees, const char *id);
struct snapshot *trees_snapshot(struct cay_trees *trees, const char *id);
struct name *trees_name(struct cay_trees *trees, const char *name);
/* The base of that name or alias; BASE_NOT_FOUND. */
struct name *trees_base(struct cay_trees *trees, const char *name, struct cay_error *err);
void trees_finish_tables(struct cay_trees *trees);
/* A reference to the tree of a point, and to its base. */
bool trees_hold(struct cay_trees *trees, const struct cay_store_ref *ref, struct tree **out_tree,
                struct tree **out_base, struct cay_error *err);

/* --- record.c --- */
void trees_session_name(const struct session *session, char out[static CAY_RECORD_SIZE]);
void trees_snapshot_name(const struct snapshot *snapshot, char out[static CAY_RECORD_SIZE]);
/* Makes the session's record say what `after` says, and then the session in memory: its references
 * are those of `after`. -errno. */
int trees_session_change(struct cay_trees *trees, struct session *session,
                         const struct session *after);
/* Reads all that is on disk. */
bool trees_load(struct cay_trees *trees, struct cay_error *err);

/* --- snapshot.c --- */
/* Is the tree certain to be what session->last is? */
bool trees_is_as_last(struct cay_trees *trees, const struct session *session);

/* --- spare.c --- */
/* A writable clone of a tree, prepared or made now. Its name is in nobody's books yet. */
bool trees_clone(struct cay_trees *trees, struct tree *from, char out_id[static CAY_STORE_ID_SIZE],
                 struct cay_error *err);
/* Whoever goes on from this tree soon will be glad of a spare. Under the lock. */
void trees_want_spare(struct cay_trees *trees, struct tree *tree);
bool trees_make_spares(struct cay_trees *trees, struct cay_error *err);

/* --- mount.c --- */
bool trees_mount_tree(struct cay_trees *trees, const char *id, const struct cay_store_owner *owner,
                      bool is_readonly, int *out_fd, struct cay_error *err);

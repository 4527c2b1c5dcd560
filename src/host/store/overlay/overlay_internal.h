/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The overlay store from inside. README.md of the store room has the layout on disk and the rules
 * that make every step safe to die at; in short:
 *
 *   l/ID/d  the tree of a layer     l/ID/w  its work directory while it is an upper
 *   l/ID    has an attribute that says what it stands on; without it, it was never finished
 *   l/ID/i  index of a copied layer (copy_index.h)
 *   s/...   sessions: ID,UPPER,COPY,GENERATION,CREATED     p/...  snapshots: ID,TOP,CREATED,CHANGED
 *   b/NAME  base: its layer                                a/NAME  alias: a base's name
 *   n/ID    blank layers, made ahead of need               t/      what waits to be removed
 *   anchor  the file that all names in s/ and p/ are links to
 *
 * Sessions and snapshots are written down as names, bases and aliases as texts (record.h). The
 * tables in memory mirror them all; `lock` guards the tables, never a copy or a mount.
 */

#include <pthread.h>

#include "host/store/owner_map.h"
#include "host/store/record.h"
#include "host/store/store_ops.h"

/* First in everything that is found by id. */
struct ov_node {
    uint64_t id;
    struct ov_node *next;
};

struct ov_map {
    struct ov_node **slots;
    size_t cap;
    size_t count;
};

struct ov_layer {
    struct ov_node node;
    struct ov_layer *parent; /* NULL for a base */
    uint32_t refs;           /* layers on top of it, records that name it, calls that use it */
    uint32_t depth;          /* of the stack it is the top of */
    bool is_upper;           /* of a session: still being written */
    bool stays_deep;         /* it could not be made flat */
    struct ov_layer *flat;   /* shows the same with fewer layers below; referenced; or NULL */
    uint64_t same_as;        /* the layer that it shows the same as, or 0 */
    bool measured;
    uint64_t bytes;
    uint64_t entries;
    bool is_too_deep;
};

struct ov_session {
    struct ov_node node;
    struct ov_layer *upper;
    struct ov_layer *copy; /* the last snapshot taken of this upper by copying, or NULL */
    uint64_t generation;
    int64_t created_ms;
    uint64_t history_key; /* of the layers that these numbers are of (measure.c); 0: none */
    uint64_t history_bytes, history_entries;
    bool is_history_too_deep;
};

struct ov_snapshot {
    struct ov_node node;
    struct ov_layer *top;
    bool changed;
    int64_t created_ms;
};

struct ov_base {
    struct ov_base *next;
    char name[CAY_STORE_NAME_SIZE];
    struct ov_layer *layer; /* NULL: an alias */
    char target[CAY_STORE_NAME_SIZE];
    int64_t created_ms;
};

enum {
    OV_BLANKS_AT_OPEN = 8,
    OV_BLANKS_MAX = 64, /* what collect fills up to */
};

#define OV_PARENT_XATTR "trusted.cay.parent"
#define OV_SAME_XATTR   "trusted.cay.same"

struct ov_store {
    struct cay_store store; /* first */
    int root_fd;
    int lock_fd;
    int layers_fd, sessions_fd, snapshots_fd, bases_fd, aliases_fd, blanks_fd, trash_fd;
    pthread_mutex_t lock;
    pthread_mutex_t collect_lock;
    struct ov_map layers, sessions, snapshots;
    struct ov_base *bases;
    uint64_t *dead; /* layers to be moved to the trash */
    size_t dead_count, dead_cap;
    uint64_t blanks[OV_BLANKS_MAX];
    size_t blanks_count;
    struct cay_owner_map owners;
};

static inline struct ov_store *ov_of(struct cay_store *store)
{
    return (struct ov_store *)store;
}

/* --- table.c: maps and references; all under the lock --- */
struct ov_node *ov_map_find(const struct ov_map *map, uint64_t id);
void ov_map_add(struct ov_map *map, struct ov_node *node);
void ov_map_remove(struct ov_map *map, const struct ov_node *node);
void ov_map_finish(struct ov_map *map); /* frees the nodes */
/* Every node, in no order; the node may be removed meanwhile. */
void ov_map_each(struct ov_map *map, void (*visit)(void *ctx, struct ov_node *), void *ctx);

static inline struct ov_layer *ov_find_layer(struct ov_store *ov, uint64_t id)
{
    return (struct ov_layer *)ov_map_find(&ov->layers, id);
}
static inline struct ov_session *ov_find_session(struct ov_store *ov, const char *id)
{
    return (struct ov_session *)ov_map_find(&ov->sessions, strtoull(id, NULL, 16));
}
static inline struct ov_snapshot *ov_find_snapshot(struct ov_store *ov, const char *id)
{
    return (struct ov_snapshot *)ov_map_find(&ov->snapshots, strtoull(id, NULL, 16));
}
struct ov_base *ov_find_base(struct ov_store *ov, const char *name);

struct ov_layer *ov_layer_ref(struct ov_layer *layer);
/* The last reference sends the layer, and those only it stood on, to the trash. NULL is fine. */
void ov_layer_unref(struct ov_store *ov, struct ov_layer *layer);
void ov_bury(struct ov_store *ov, uint64_t layer_id);
/* The same, taking the lock. */
void ov_drop(struct ov_store *ov, struct ov_layer *layer);

/* --- layer.c --- */
void ov_id_text(uint64_t id, char out[static CAY_STORE_ID_SIZE]);
/* An empty upper on `parent`, whose reference passes over, also on failure. Root's mode, owner,
 * times and attributes are those of the parent's root. The result is referenced once. */
bool ov_layer_new(struct ov_store *ov, struct ov_layer *parent, struct ov_layer **out_layer,
                  struct cay_error *err);
/* The directories alone: l/ID and l/ID/d. *out_dir_fd is l/ID. */
bool ov_layer_dirs(struct ov_store *ov, uint64_t id, int *out_dir_fd, struct cay_error *err);
/* Writes what the layer stands on (NULL: nothing), which makes it one; enters it in the table,
 * referenced once. Takes over the reference on the parent, also on failure. */
bool ov_layer_ready(struct ov_store *ov, uint64_t id, int dir_fd, struct ov_layer *parent,
                    struct ov_layer **out_layer, struct cay_error *err);
/* Opens l/ID/d. -errno. */
int ov_layer_open(struct ov_store *ov, const struct ov_layer *layer);
/* The session's tree with `upper` on top of its parents. */
bool ov_layer_mount(struct ov_store *ov, const struct ov_layer *upper,
                    const struct cay_store_owner *owner, int *out_fd, struct cay_error *err);
/* `top` and what it stands on, for reading. */
bool ov_layer_view(struct ov_store *ov, const struct ov_layer *top,
                   const struct cay_store_owner *owner, int *out_fd, struct cay_error *err);
/* True when an upper holds no change against its parent. */
bool ov_layer_unchanged(struct ov_store *ov, const struct ov_layer *upper, bool *out_unchanged,
                        struct cay_error *err);

/* --- session.c, snapshot.c: shared between verbs --- */
/* The session's upper, which is to be a point that others stand on, with a reference for the
 * caller, and the upper that is to take its place. */
bool ov_upper_freeze(struct ov_store *ov, const struct ov_session *session,
                     const struct cay_store_owner *owner, struct ov_layer **out_frozen,
                     struct ov_layer **out_upper, int *out_root_fd, struct cay_error *err);
/* Gives the session the upper layer `upper` (the reference passes over). This is the point after
 * which a root made of the old one is out of date. */
bool ov_session_switch(struct ov_store *ov, struct ov_session *session, struct ov_layer *upper,
                       struct cay_error *err);
/* A reference to a layer that holds the session's present state and will not change: an earlier
 * one when nothing changed, else a copy when `may_copy`; else *out_top is NULL and the upper itself
 * has to be frozen. */
bool ov_point_of(struct ov_store *ov, struct ov_session *session, bool may_copy,
                 struct ov_layer **out_top, bool *out_changed, struct cay_error *err);

/* --- record.c: the names of sessions and snapshots --- */
/* Writes down the name of a session or a snapshot that stands on `layer`. On failure both the node
 * and the reference are gone. */
bool ov_write_down(struct ov_store *ov, int dir_fd, const char *name, struct ov_node *node,
                   struct ov_layer *layer, struct cay_error *err);
void ov_session_name(const struct ov_session *session, char out[static CAY_RECORD_SIZE]);
void ov_snapshot_name(const struct ov_snapshot *snapshot, char out[static CAY_RECORD_SIZE]);
/* Makes the session's record say what `after` says. */
int ov_session_change(struct ov_store *ov, const struct ov_session *before,
                      const struct ov_session *after);

/* --- blank.c --- */
/* Turns a blank into l/ID; -ENOENT when there is none. */
int ov_blank_take(struct ov_store *ov, const char *name);
/* When `rc` says that the file system is full: gives one up, so that what failed can be tried
 * again. False: it is not, or there are none left. */
bool ov_blank_spend(struct ov_store *ov, int rc);
/* Makes blanks until there are `count`. -errno. */
int ov_blank_fill(struct ov_store *ov, size_t count);
/* Finds those on disk. */
bool ov_blank_load(struct ov_store *ov, struct cay_error *err);

/* --- flatten.c --- */
extern uint32_t ov_flatten_depth; /* of a stack that is made flat; changed by tests only */
/* Makes flat forms of what sessions stand on, when that lies deep. Beside everything else. */
void ov_flatten_some(struct ov_store *ov);
/* What to go on from after `frozen`, which was some session's upper a moment ago and is mounted
 * nowhere else: a layer that shows the same and lies less deep when there is one, else itself. The
 * reference passes over. */
struct ov_layer *ov_flat_form(struct ov_store *ov, struct ov_layer *frozen);

/* Fills an empty directory with all that `top` and what it stands on show: files are links. -errno.
 */
int ov_flatten_whole(struct ov_store *ov, const struct ov_layer *top, int to_fd);

/* --- check.c --- */
bool ov_check(const char *directory, struct cay_error *err);

/* --- load.c --- */
bool ov_load(struct ov_store *ov, struct cay_error *err);

/* --- compare.c --- */
/* The layer at the top of a point, referenced; NULL: err says why. */
struct ov_layer *ov_hold(struct ov_store *ov, const struct cay_store_ref *ref,
                         struct cay_error *err);

/* --- session.c, snapshot.c, bases.c, collect.c, compare.c: the verbs --- */
bool ov_create(struct cay_store *, const char *, const struct cay_store_source *,
               struct cay_error *);
bool ov_mount(struct cay_store *, const char *, const struct cay_store_owner *, int *,
              struct cay_error *);
bool ov_snapshot(struct cay_store *, const struct cay_store_snapshot_request *,
                 struct cay_store_point *, struct cay_error *);
bool ov_rollback(struct cay_store *, const char *, const char *, const struct cay_store_owner *,
                 struct cay_store_point *, struct cay_error *);
bool ov_fork(struct cay_store *, const struct cay_store_fork_request *, struct cay_store_point *,
             struct cay_error *);
bool ov_destroy(struct cay_store *, const char *, struct cay_error *);
bool ov_delete_snapshot(struct cay_store *, const char *, struct cay_error *);
bool ov_collect(struct cay_store *, uint64_t, bool *, struct cay_error *);
bool ov_diff(struct cay_store *, const struct cay_diff_request *, struct cay_diff_stats *,
             struct cay_error *);
bool ov_view(struct cay_store *, const struct cay_store_ref *, const struct cay_store_owner *,
             int *, struct cay_error *);
bool ov_usage(struct cay_store *, const struct cay_store_ref *, struct cay_store_usage *,
              struct cay_error *);
bool ov_usage_whole(struct cay_store *, const char *, const char (*)[CAY_STORE_ID_SIZE], size_t,
                    struct cay_store_usage *, struct cay_error *);
bool ov_list(struct cay_store *, cay_store_item_fn *, void *, struct cay_error *);
bool ov_base_begin(struct cay_store *, struct cay_store_base_draft *, struct cay_error *);
bool ov_base_begin_from(struct cay_store *, const struct cay_store_ref *,
                        struct cay_store_base_draft *, struct cay_error *);
bool ov_base_commit(struct cay_store *, struct cay_store_base_draft *, const char *, bool,
                    struct cay_error *);
void ov_base_abort(struct cay_store *, struct cay_store_base_draft *);
bool ov_base_remove(struct cay_store *, const char *, struct cay_error *);
bool ov_base_alias(struct cay_store *, const char *, const char *, struct cay_error *);
bool ov_base_resolve(struct cay_store *, const char *, char *, struct cay_error *);
bool ov_base_id(struct cay_store *, const char *, char *, struct cay_error *);
bool ov_base_is_used(struct cay_store *, const char *);

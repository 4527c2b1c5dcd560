/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the file systems of sessions live. A store holds three kinds of things: bases (immutable
 * roots), sessions (one writable tree each) and snapshots (immutable points a session went
 * through).
 *
 * Order: open -> (base_begin[_from] -> fill -> base_commit)* -> create -> mount ->
 *        (snapshot | rollback | fork | diff | usage)* -> destroy -> collect -> close.
 *
 * Ids are given by the caller (cay_store_new_id), who writes them down before the call: a call that
 * is repeated after a crash finds what the first one did and gives the same answer. Every function
 * blocks and may run on any thread; calls on different sessions may overlap, calls on one session
 * are for the caller to put in order. Only values go in and out; descriptors that come out are the
 * caller's to close.
 */

#include "base/error.h"
#include "base/id.h"

enum {
    CAY_STORE_ID_SIZE = 17,             /* 16 lower-case hex digits and NUL */
    CAY_STORE_NAME_SIZE = CAY_ID_SIZE,  /* of a base, with NUL */
    CAY_STORE_DEPTH_MAX = 4096,         /* directories below each other in a copied tree */
    CAY_STORE_LAYERS_MAX = 400,         /* below one session */
    CAY_STORE_DIR_BYTES_MAX = 64 << 20, /* the names of one directory, sorted */
    CAY_STORE_GENERATION_FIRST = 1,     /* of a new session's root */
};

enum cay_store_caps {
    CAY_STORE_SNAPSHOTS = 1 << 0,      /* snapshot, rollback, fork from a snapshot */
    CAY_STORE_SHARING = 1 << 1,        /* forks and unchanged turns cost no space */
    CAY_STORE_LIVE_COPY = 1 << 2,      /* snapshots while (frozen) processes hold the tree */
    CAY_STORE_ID_MAPPED = 1 << 3,      /* owners are natural on disk, mapped at mount time */
    CAY_STORE_SWITCHES = 1 << 4,       /* snapshot may hand out a new root to switch to */
    CAY_STORE_PERSISTENT = 1 << 5,     /* what it holds survives close */
    CAY_STORE_FAST_DIFF = 1 << 6,      /* comparing looks only at what changed, and sees renames */
    CAY_STORE_SEES_UNCHANGED = 1 << 8, /* a snapshot says when nothing changed since the last */
    CAY_STORE_KERNEL_QUOTA = 1 << 7,   /* set_quota: the kernel refuses what is too much */
    CAY_STORE_PREPARES = 1 << 9,       /* collect after a snapshot makes going back to it quick */
};

struct cay_store;

struct cay_store_config {
    const char *kind;      /* of a member; NULL or "auto" picks one, see cay_store_pick */
    const char *directory; /* made when it is not there; mode 0700 */
    /* NOT_SUPPORTED where owners cannot be mapped at mount time; nothing is made then. */
    bool needs_owner_map;
};

[[nodiscard]] bool cay_store_open(const struct cay_store_config *config,
                                  struct cay_store **out_store, struct cay_error *err);
void cay_store_close(struct cay_store *store);

/* The kind that "auto" means for a directory (which need not exist): the one that it was used with
 * before, else btrfs or zfs where it is on one, else overlay, else local-disk. */
const char *cay_store_pick(const char *directory);

/* The stores there are to choose from; NULL past the last. */
const char *cay_store_choice(size_t at);

/* Of a kind: CAY_STORE_SNAPSHOTS. */
[[nodiscard]] bool cay_store_takes_snapshots(const char *kind);
/* Of a kind, on this kernel: CAY_STORE_KERNEL_QUOTA. */
[[nodiscard]] bool cay_store_keeps_limits(const char *kind);

/* Whether that kind could be used in the directory. NOT_SUPPORTED, with what is missing. Tries it
 * out, which takes a moment, and leaves nothing. */
[[nodiscard]] bool cay_store_check(const char *kind, const char *directory, struct cay_error *err);

/* How the devices below it are. */
enum cay_store_health {
    CAY_STORE_HEALTH_UNKNOWN,
    CAY_STORE_ONLINE,
    CAY_STORE_DEGRADED, /* works, with fewer devices than it should have */
    CAY_STORE_FAULTED,
    CAY_STORE_OFFLINE,
    CAY_STORE_UNAVAIL,
    CAY_STORE_REMOVED,
};
/* Online where the store knows nothing of devices. */
[[nodiscard]] bool cay_store_health(struct cay_store *store, enum cay_store_health *out_health,
                                    struct cay_error *err);

const char *cay_store_kind(const struct cay_store *store);
unsigned cay_store_caps(const struct cay_store *store);

/* 64 random bits. */
void cay_store_new_id(char out_id[static CAY_STORE_ID_SIZE]);
[[nodiscard]] bool cay_store_id_valid(const char *id);

/* The host's uids and gids that stand for 0..id_count-1 inside. */
struct cay_store_owner {
    uint32_t id_base;
    uint32_t id_count;
    int userns_fd; /* a user namespace with that map, or -1: the store makes one */
};

/* Exactly one of the two is set. */
struct cay_store_source {
    const char *base;     /* name or alias */
    const char *snapshot; /* id */
};

/* Makes the session's tree. Idempotent: an existing session of that id is left as it is. */
[[nodiscard]] bool cay_store_create(struct cay_store *store, const char *session_id,
                                    const struct cay_store_source *source, struct cay_error *err);

/* The session's tree as a detached mount (or directory). Only when no other mount of it is in use:
 * after create, and after a restart for a session without a sandbox. */
[[nodiscard]] bool cay_store_mount(struct cay_store *store, const char *session_id,
                                   const struct cay_store_owner *owner, int *out_root_fd,
                                   struct cay_error *err);

enum cay_store_activity {
    CAY_STORE_QUIET = 1,  /* nothing but init is alive in the session: the root can be switched */
    CAY_STORE_FROZEN = 2, /* processes hold the tree; the caller has frozen them */
};

struct cay_store_snapshot_request {
    const char *session_id;
    const char *snapshot_id;
    enum cay_store_activity activity;
    const struct cay_store_owner *owner; /* NULL: no root wanted (the session is not mounted) */
    bool durable;                        /* synced before it is acknowledged */
    /* The snapshot that the tree descends from, "" for its base: what `changed` is against. NULL:
     * the last point taken, which may have been a fork. */
    const char *previous_id;
};

struct cay_store_point {
    bool changed;        /* false: nothing changed, the snapshot shares its predecessor's data */
    int root_fd;         /* the root to switch to before anything runs again; -1: stay */
    uint64_t generation; /* of the session's root; see struct cay_store_item */
};

/* Idempotent: an existing snapshot of that id is reported as it is (root_fd: see generation). One
 * that could not be synced is there all the same: out_point, -1 before, has a root to switch to if
 * the session has gone on. */
[[nodiscard]] bool cay_store_snapshot(struct cay_store *store,
                                      const struct cay_store_snapshot_request *request,
                                      struct cay_store_point *out_point, struct cay_error *err);

/* The session goes on from the snapshot; what it had since its own last snapshot is dropped. No
 * process may hold the tree but init. The new root is in out_point. */
[[nodiscard]] bool cay_store_rollback(struct cay_store *store, const char *session_id,
                                      const char *snapshot_id, const struct cay_store_owner *owner,
                                      struct cay_store_point *out_point, struct cay_error *err);

/* A new session with the present state of another; to fork from a snapshot use create. out_point
 * speaks of the session forked from: as with a snapshot, its root may have to be switched. */
struct cay_store_fork_request {
    const char *session_id;
    const char *new_session_id;
    enum cay_store_activity activity;
    const struct cay_store_owner *owner; /* of the session forked from */
};
[[nodiscard]] bool cay_store_fork(struct cay_store *store,
                                  const struct cay_store_fork_request *request,
                                  struct cay_store_point *out_point, struct cay_error *err);

/* No more than this many bytes beyond the base, its history included; 0: no limit. Only with
 * CAY_STORE_KERNEL_QUOTA; processes that want more get EDQUOT or ENOSPC. Idempotent; survives
 * rollback and restart. */
[[nodiscard]] bool cay_store_set_quota(struct cay_store *store, const char *session_id,
                                       uint64_t bytes_max, struct cay_error *err);

/* Both acknowledge fast; cay_store_collect frees the space. Absent is done. */
[[nodiscard]] bool cay_store_destroy(struct cay_store *store, const char *session_id,
                                     struct cay_error *err);
[[nodiscard]] bool cay_store_delete_snapshot(struct cay_store *store, const char *snapshot_id,
                                             struct cay_error *err);

/* No session has the range any more: what is kept for mounts of it goes. From any thread. */
void cay_store_forget_owner(struct cay_store *store, uint32_t id_base);

/* Removes up to `entries_max` files of what nobody references any more; *out_more says whether
 * there is more to do. Runs beside everything else. */
[[nodiscard]] bool cay_store_collect(struct cay_store *store, uint64_t entries_max, bool *out_more,
                                     struct cay_error *err);

/* Some file systems free what was removed behind our back: whether all of it is free again that was
 * removed before the mark was set. *in_out_mark is 0 the first time, and then as it was left. */
[[nodiscard]] bool cay_store_is_freed(struct cay_store *store, uint64_t *in_out_mark,
                                      bool *out_freed, struct cay_error *err);

/* Everything so far survives a loss of power. */
[[nodiscard]] bool cay_store_sync(struct cay_store *store, struct cay_error *err);

/* A point in a tree's life: exactly one is set. */
struct cay_store_ref {
    const char *base;
    const char *snapshot;
    const char *session; /* its present state */
    const char *origin;  /* a session: the base that it stands on, whatever that is called by now */
};

/* The tree of a base or snapshot (never of a session), for reading: a read-only mount attached
 * nowhere, or a directory, good while the point exists. Owners are shown in the range of `owner`;
 * NULL: as they are inside. */
[[nodiscard]] bool cay_store_view(struct cay_store *store, const struct cay_store_ref *ref,
                                  const struct cay_store_owner *owner, int *out_root_fd,
                                  struct cay_error *err);

struct cay_store_usage {
    uint64_t own_bytes;       /* on disk, of the topmost layer alone */
    uint64_t history_bytes;   /* of the layers between it and the base */
    uint64_t whole_bytes;     /* of both, also what is shared with other trees; 0: nothing is */
    uint64_t entries;         /* files in the topmost layer */
    uint64_t history_entries; /* in those between it and the base */
    bool is_too_deep;         /* there is more below, deeper than anybody looks */
    bool is_behind;           /* something was written that is not on its way to the disk yet */
    uint32_t layers;          /* of which the tree is made */
    uint64_t fs_total_bytes;
    uint64_t fs_free_bytes;
};
[[nodiscard]] bool cay_store_usage(struct cay_store *store, const struct cay_store_ref *ref,
                                   struct cay_store_usage *out_usage, struct cay_error *err);

/* The same of a session with its snapshots, whichever way its tree came: what several of them share
 * counts once. Stores that know only the way from the base count that. */
[[nodiscard]] bool cay_store_usage_whole(struct cay_store *store, const char *session_id,
                                         const char (*snapshots)[CAY_STORE_ID_SIZE], size_t count,
                                         struct cay_store_usage *out_usage, struct cay_error *err);

enum cay_store_item_kind {
    CAY_STORE_ITEM_BASE = 1,
    CAY_STORE_ITEM_ALIAS,
    CAY_STORE_ITEM_SESSION,
    CAY_STORE_ITEM_SNAPSHOT,
};

struct cay_store_item {
    enum cay_store_item_kind kind;
    const char *name;   /* id of a session or snapshot, name of a base or alias */
    const char *target; /* of an alias */
    /* Of a session: counts up whenever its root was replaced (snapshot, rollback, fork). A caller
     * who remembers another number must switch the sandbox to a new cay_store_mount first. */
    uint64_t generation;
    int64_t created_unix_ms;
};
typedef bool cay_store_item_fn(void *ctx, const struct cay_store_item *item);

/* Everything on disk, in no order, for recovery to compare with its records: what no record owns
 * is the caller's to destroy. The callback returns false to stop; it may not call the store. */
[[nodiscard]] bool cay_store_list(struct cay_store *store, cay_store_item_fn *visit, void *ctx,
                                  struct cay_error *err);

/* --- bases; base.h fills them --- */

struct cay_store_base_draft {
    int root_fd; /* an empty directory, mode 0755, to be filled with natural owners */
    char id[CAY_STORE_ID_SIZE];
};
[[nodiscard]] bool cay_store_base_begin(struct cay_store *store,
                                        struct cay_store_base_draft *out_draft,
                                        struct cay_error *err);
/* A draft that begins as what a snapshot is, or a session (whose tree nothing may write to any
 * more: it is only to be destroyed). Files are shared where the store can. */
[[nodiscard]] bool cay_store_base_begin_from(struct cay_store *store,
                                             const struct cay_store_ref *ref,
                                             struct cay_store_base_draft *out_draft,
                                             struct cay_error *err);
/* Gives the draft its name; from then on it is immutable. Consumes the draft in any case: on
 * failure, and when the daemon dies before, nothing is left of it. */
[[nodiscard]] bool cay_store_base_commit(struct cay_store *store,
                                         struct cay_store_base_draft *draft, const char *name,
                                         struct cay_error *err);
/* The same in the place of the base (or alias) of that name, if there is one: in one step, so that
 * at any instant the name stands for the one or for the other. Aliases of the base stay. */
[[nodiscard]] bool cay_store_base_replace(struct cay_store *store,
                                          struct cay_store_base_draft *draft, const char *name,
                                          struct cay_error *err);
void cay_store_base_abort(struct cay_store *store, struct cay_store_base_draft *draft);
/* The id of the draft that a base was; BASE_NOT_FOUND, also for an alias. */
[[nodiscard]] bool cay_store_base_id(struct cay_store *store, const char *name,
                                     char out_id[static CAY_STORE_ID_SIZE], struct cay_error *err);

/* Whether a session, a snapshot or a call stands on it at this moment. False for an alias. */
[[nodiscard]] bool cay_store_base_is_used(struct cay_store *store, const char *name);

/* Sessions that stand on it keep it; its name is free at once. */
[[nodiscard]] bool cay_store_base_remove(struct cay_store *store, const char *name,
                                         struct cay_error *err);
/* `alias` names `name` from now on. */
[[nodiscard]] bool cay_store_base_alias(struct cay_store *store, const char *alias,
                                        const char *name, struct cay_error *err);
/* Follows an alias; NOT_FOUND (BASE_NOT_FOUND) when there is neither. */
[[nodiscard]] bool cay_store_base_resolve(struct cay_store *store, const char *name,
                                          char out_name[static CAY_STORE_NAME_SIZE],
                                          struct cay_error *err);
[[nodiscard]] bool cay_store_base_name_valid(const char *name);

/* What stands for '/' and ':' in the names of bases, and a name as its users write it. */
#define CAY_STORE_FOR_SLASH "-_s"
#define CAY_STORE_FOR_COLON "-_c"
void cay_store_base_shown(const char *name, char out[static CAY_STORE_NAME_SIZE]);

/* BASE_NOT_FOUND and BASE_EXISTS, with the name as it is shown; false. */
bool cay_store_no_base(struct cay_error *err, const char *name);
bool cay_store_base_taken(struct cay_error *err, const char *name);

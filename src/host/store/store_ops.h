/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a store implements. store.h says what each verb means; here is what an implementer may count
 * on. All slots may block. All arguments have been checked: ids and names are well formed, pointers
 * that must be set are set. A NULL slot is NOT_SUPPORTED. Reasons beside those named in a comment:
 * STORE_FAILED, NO_SPACE.
 */

#include <errno.h>

#include "host/store/diff.h"
#include "host/store/store.h"

struct cay_store_ops {
    const char *name;
    unsigned caps;
    /* What it can do here, where that is less than caps. May be NULL. */
    unsigned (*caps_here)(const struct cay_store *);

    /* Whether this kernel can do what caps say of quotas. NULL: it can. */
    bool (*has_quota)(void);
    /* Whether it could keep its things in a directory that exists; leaves nothing there.
     * NOT_SUPPORTED, with what is missing. NULL: it is used only when it is asked for by name. */
    bool (*check)(const char *directory, struct cay_error *);
    /* Takes what a dead daemon left half done to one of its ends. Reasons: UNAVAILABLE when another
     * daemon has the directory, DATA_LOSS, NOT_SUPPORTED when the machine cannot do it. */
    bool (*open)(const struct cay_store_config *, struct cay_store **, struct cay_error *);
    void (*close)(struct cay_store *);

    /* Idempotent. BASE_NOT_FOUND, SNAPSHOT_NOT_FOUND, RESOURCE_EXHAUSTED (too many layers). */
    bool (*create)(struct cay_store *, const char *session_id, const struct cay_store_source *,
                   struct cay_error *);
    /* SESSION_NOT_FOUND. */
    bool (*mount)(struct cay_store *, const char *session_id, const struct cay_store_owner *, int *,
                  struct cay_error *);
    /* Idempotent by snapshot_id. A failure leaves the session as it was. SESSION_NOT_FOUND. */
    bool (*snapshot)(struct cay_store *, const struct cay_store_snapshot_request *,
                     struct cay_store_point *, struct cay_error *);
    /* Checks first; a failure leaves the session as it was. SESSION_NOT_FOUND,
     * SNAPSHOT_NOT_FOUND. */
    bool (*rollback)(struct cay_store *, const char *session_id, const char *snapshot_id,
                     const struct cay_store_owner *, struct cay_store_point *, struct cay_error *);
    bool (*fork)(struct cay_store *, const struct cay_store_fork_request *,
                 struct cay_store_point *, struct cay_error *);
    /* SESSION_NOT_FOUND. */
    bool (*set_quota)(struct cay_store *, const char *session_id, uint64_t bytes_max,
                      struct cay_error *);
    /* Idempotent, a few system calls long. */
    bool (*destroy)(struct cay_store *, const char *session_id, struct cay_error *);
    /* Does not block. NULL: it keeps nothing of owners. */
    void (*forget_owner)(struct cay_store *, uint32_t id_base);
    bool (*delete_snapshot)(struct cay_store *, const char *snapshot_id, struct cay_error *);
    bool (*collect)(struct cay_store *, uint64_t entries_max, bool *, struct cay_error *);
    /* NULL: what collect has removed is free. */
    bool (*is_freed)(struct cay_store *, uint64_t *, bool *, struct cay_error *);
    bool (*sync)(struct cay_store *, struct cay_error *);
    /* NULL: it knows nothing of devices. */
    bool (*health)(struct cay_store *, enum cay_store_health *, struct cay_error *);

    bool (*diff)(struct cay_store *, const struct cay_diff_request *, struct cay_diff_stats *,
                 struct cay_error *);
    /* BASE_NOT_FOUND, SNAPSHOT_NOT_FOUND. */
    bool (*view)(struct cay_store *, const struct cay_store_ref *, const struct cay_store_owner *,
                 int *, struct cay_error *);
    bool (*usage)(struct cay_store *, const struct cay_store_ref *, struct cay_store_usage *,
                  struct cay_error *);
    /* NULL: usage of the session alone. Snapshots that are not there are passed over. */
    bool (*usage_whole)(struct cay_store *, const char *session_id,
                        const char (*snapshots)[CAY_STORE_ID_SIZE], size_t count,
                        struct cay_store_usage *, struct cay_error *);
    bool (*list)(struct cay_store *, cay_store_item_fn *, void *ctx, struct cay_error *);

    /* The draft's id is filled in by the wrapper. */
    bool (*base_begin)(struct cay_store *, struct cay_store_base_draft *, struct cay_error *);
    /* A draft that begins as a copy of the point. SESSION_NOT_FOUND, SNAPSHOT_NOT_FOUND,
     * RESOURCE_EXHAUSTED. */
    bool (*base_begin_from)(struct cay_store *, const struct cay_store_ref *,
                            struct cay_store_base_draft *, struct cay_error *);
    /* BASE_EXISTS, unless it replaces what has the name. The wrapper aborts the draft on failure.
     */
    bool (*base_commit)(struct cay_store *, struct cay_store_base_draft *, const char *name,
                        bool replaces, struct cay_error *);
    void (*base_abort)(struct cay_store *, struct cay_store_base_draft *);
    bool (*base_remove)(struct cay_store *, const char *name, struct cay_error *);
    bool (*base_alias)(struct cay_store *, const char *alias, const char *name, struct cay_error *);
    bool (*base_resolve)(struct cay_store *, const char *name, char *out_name, struct cay_error *);
    /* BASE_NOT_FOUND. */
    bool (*base_id)(struct cay_store *, const char *name, char *out_id, struct cay_error *);
    /* Does not block. */
    bool (*base_is_used)(struct cay_store *, const char *name);
};

/* Embedded first in every member's own struct. */
struct cay_store {
    const struct cay_store_ops *ops;
};

/* In the order in which "auto" tries them; NULL past the last. */
extern const struct cay_store_ops *const cay_store_registry[];

extern const struct cay_store_ops cay_store_overlay;
extern const struct cay_store_ops cay_store_btrfs;
extern const struct cay_store_ops cay_store_zfs;
extern const struct cay_store_ops cay_store_local_disk;
extern const struct cay_store_ops cay_store_fake;

static inline bool cay_store_is_full(int neg_errno)
{
    return neg_errno == -ENOSPC || neg_errno == -EDQUOT;
}

/* STORE_FAILED, or NO_SPACE when the errno says so. */
CAY_PRINTF(3, 4)
bool cay_store_fail(struct cay_error *err, int neg_errno, const char *fmt, ...);
/* NOT_SUPPORTED: owners cannot be mapped at mount time. */
bool cay_store_refuse_owners(struct cay_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bringing single paths back from a snapshot, on a worker. What differs is found first; then it is
 * put right entry by entry. The request stands in the session's record meanwhile: a daemon that was
 * killed in the middle finds again what still differs and goes on (recovery.c).
 */

#include "api/cay_v1.h"
#include "host/store/restore.h"
#include "host/store/store.h"

struct cay_restoring {
    struct cay_store *store;
    char session_id[CAY_STORE_ID_SIZE]; /* both as the store knows them */
    char snapshot_id[CAY_STORE_ID_SIZE];
    struct cay_store_owner owner;
    int root_fd;                                        /* borrowed */
    const struct cay_v1_restore_paths_request *request; /* paths absolute and clean */
    struct cay_arena *arena;                            /* for the answer; NULL: none is wanted */
    /* out */
    char **paths; /* that differ, parents first */
    size_t path_count;
    struct cay_v1_diff_entry_array entries;
    struct cay_v1_change_counts counts;
    int view_fd;
    bool is_full;
    bool is_too_deep; /* something below the paths cannot be looked at */
    bool has_links;   /* one of the paths is a file that has other names in the snapshot, maybe */
};

void cay_restoring_init(struct cay_restoring *restoring);
void cay_restoring_finish(struct cay_restoring *restoring);

/* Finds what differs. FILE_NOT_FOUND for a path that is on neither side, INVALID_STATE for one that
 * something else than a directory is above now. */
[[nodiscard]] bool cay_restoring_find(struct cay_restoring *restoring, struct cay_error *err);

/* Puts it right. */
[[nodiscard]] bool cay_restoring_apply(struct cay_restoring *restoring, struct cay_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The past of a session as a tree: the line its files descend from, and the branches that rollbacks
 * left behind.
 */

#include "base/id.h"
#include "host/session/session.h"

/* A new snapshot, or one whose parent is another one now: finds its place in the tree. */
void cay_history_link(struct cay_session *session, struct cay_snapshot *snapshot);
/* Out of the tree, before it goes. What followed it follows nobody, unless it was told otherwise.
 */
void cay_history_unlink(struct cay_session *session, struct cay_snapshot *snapshot);

/* The tree stands on that one now; on the base when the name is empty. */
void cay_history_set_head(struct cay_session *session, const char *name);

/* A snapshot and the one before it, as values for a worker. Points do not change: what was measured
 * of one is written down, and nobody walks through its files again. */
struct cay_point {
    char store_id[CAY_STORE_ID_SIZE];
    char parent_store_id[CAY_STORE_ID_SIZE]; /* empty: the base */
    int64_t total_bytes;                     /* over the base; 0: not measured yet */
    int64_t parent_total_bytes;
};
void cay_point_set(struct cay_point *point, const struct cay_snapshot *snapshot);
void cay_point_set_parent(struct cay_point *point, const struct cay_snapshot *parent_or_null);

/* On a worker: how much a point has more than the one before it, and than the base. Nothing when
 * that is not known and the thread is asked to stop (base/stop.h). */
struct cay_point_size {
    int64_t own_bytes;
    int64_t total_bytes;
};
enum { CAY_POINT_LOOKS_MAX = 2000 }; /* files, for an answer that should not wait: some 2 ms */
[[nodiscard]] struct cay_point_size cay_history_measure(struct cay_store *store,
                                                        const struct cay_point *point);

/* Sets is_on_line and tip of every snapshot. Turns keep them right; a walk over a long past is
 * needed only after a rollback, or when something went that was off the line. */
void cay_history_mark(struct cay_session *session);

/* What clients see of a snapshot; after cay_history_mark, but for the head. Borrows from it. */
void cay_history_message(const struct cay_session *session, const struct cay_snapshot *snapshot,
                         struct cay_v1_snapshot *out_message);

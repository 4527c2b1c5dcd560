/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a session uses, for the verbs that tell it. */

#include "host/session/session.h"

/* On the loop thread: what its sandbox uses, a few small files of the kernel. */
void cay_usage_read(const struct cay_session *session, struct cay_v1_session_usage *usage,
                    struct cay_arena *arena);
/* The trees of a session, as the store knows them: a copy, for a worker. */
struct cay_session_trees {
    char store_id[CAY_STORE_ID_SIZE];
    char (*snapshots)[CAY_STORE_ID_SIZE];
    size_t snapshot_count;
};
void cay_session_trees_copy(const struct cay_session *session, struct cay_session_trees *out);
void cay_session_trees_finish(struct cay_session_trees *trees);

/* On a worker: what it holds on disk with all its snapshots, which may be a walk over its files. */
[[nodiscard]] bool cay_session_trees_measure(struct cay_store *store,
                                             const struct cay_session_trees *trees,
                                             struct cay_store_usage *out_usage,
                                             struct cay_error *err);
/* The same for telling; what cannot be measured is left out. */
void cay_usage_measure(struct cay_store *store, const struct cay_session_trees *trees,
                       struct cay_v1_session_usage *out_usage);

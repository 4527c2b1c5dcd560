/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writing a session with its past as a stream. The loop thread plans which points there are; a
 * worker packs them from the store, and what was said of them from the database. The live files are
 * a point like the others: a snapshot that nobody sees and that is deleted at the end.
 */

#include "host/db/db.h"
#include "host/session/session.h"
#include "host/store/pack.h"
#include "host/transfer/manifest.h"

struct cay_export {
    struct cay_manifest manifest; /* in the arena */
    struct cay_arena arena;
    char (*store_ids)[CAY_STORE_ID_SIZE]; /* of the points; NULL when there are none */
    char since_store_id[CAY_STORE_ID_SIZE];
    char live_store_id[CAY_STORE_ID_SIZE]; /* of the live files' snapshot; empty: not wanted */
    char base[CAY_STORE_NAME_SIZE];        /* as the store calls it */
    int level;
    struct cay_store *store;
    struct cay_db *db;
    struct cay_pack pack;
    char sha256[CAY_SHA256_HEX_SIZE];
    uint64_t left_out;    /* directories and paths that no archive takes */
    char *left_out_first; /* one of them; NULL: not known */
};

/* On the loop thread: what of the session is wanted. */
[[nodiscard]] bool cay_export_plan(struct cay_export *self, const struct cay_session *session,
                                   const struct cay_v1_export_session_request *request,
                                   struct cay_error *err);
/* Bytes of the files, roughly; for progress bars. On a worker. */
[[nodiscard]] int64_t cay_export_estimate(const struct cay_export *self);
/* On a worker. */
[[nodiscard]] bool cay_export_write(struct cay_export *self, int fd, cay_pack_progress *progress,
                                    void *ctx, struct cay_error *err);
void cay_export_finish(struct cay_export *self);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sessions and snapshots in the database. These functions run on workers and take values: a record
 * is a copy of what the loop thread knows, taken when the work was ordered.
 */

#include "base/id.h"
#include "host/db/db.h"
#include "host/session/session.h"

#define CAY_PENDING_DISCARD "!" /* no name begins so */

struct cay_session_record {
    char id[CAY_ID_SIZE];
    char owner[CAY_ID_SIZE];
    char store_id[CAY_STORE_ID_SIZE];
    enum cay_session_state state;
    int64_t created_ns;
    uint32_t uid_slot;
    int64_t turn_count;
    int64_t branch_count;
    char head[CAY_ID_SIZE];
    /* The snapshot a rollback is on its way to; empty: none. CAY_PENDING_DISCARD stands before it
     * when what came after it goes. */
    char pending[130];
    uint64_t generation;
    int64_t tokens_revoked_ns; /* read only: put_tokens writes it; 0: never */
    struct cay_buf spec;       /* cay.v1.Session */
    struct cay_buf sandbox;    /* how the runtime finds its sandbox again; empty: none runs */
    struct cay_buf restore;    /* cay.v1.RestorePathsRequest under way; empty: none */
};

struct cay_snapshot_record {
    char session_id[CAY_ID_SIZE];
    char name[CAY_ID_SIZE];
    char store_id[CAY_STORE_ID_SIZE];
    char request_id[CAY_ID_SIZE]; /* what the client called it; empty: nothing */
    bool is_pending;              /* written down, not done */
    int64_t created_ns;
    struct cay_buf spec;  /* cay.v1.Snapshot, without its words */
    struct cay_buf words; /* what a client said of it: message and metadata; see has_words */
    bool has_words;       /* else the database keeps those that it has */
};

void cay_session_record_take(struct cay_session_record *out_record,
                             const struct cay_session *session);
/* What is known of the snapshot, with `spec` in the place of its own. Its words stay as they are.
 */
[[nodiscard]] bool cay_snapshot_record_take(struct cay_snapshot_record *out_record,
                                            const struct cay_session *session,
                                            const struct cay_snapshot *snapshot,
                                            const struct cay_v1_snapshot *spec,
                                            struct cay_error *err);
/* Everything of a new one. */
[[nodiscard]] bool cay_snapshot_record_set_spec(struct cay_snapshot_record *record,
                                                const struct cay_v1_snapshot *spec,
                                                struct cay_error *err);
/* The spec but for them. */
struct cay_v1_snapshot cay_snapshot_without_words(const struct cay_v1_snapshot *spec);
/* From now on they stay as they are in the database. */
void cay_snapshot_record_drop_words(struct cay_snapshot_record *record);
/* Another spec in the place of the session's own. */
[[nodiscard]] bool cay_session_record_set_spec(struct cay_session_record *record,
                                               const struct cay_v1_session *spec,
                                               struct cay_error *err);
void cay_session_record_finish(struct cay_session_record *record);
void cay_snapshot_record_finish(struct cay_snapshot_record *record);

/* Inserts or replaces. */
[[nodiscard]] bool cay_session_record_put(struct cay_db *db,
                                          const struct cay_session_record *record,
                                          struct cay_error *err);
/* Never to an earlier time. */
[[nodiscard]] bool cay_session_record_put_tokens(struct cay_db *db, const char *id,
                                                 int64_t revoked_ns, struct cay_error *err);
[[nodiscard]] bool cay_session_record_put_head(struct cay_db *db, const char *id, const char *head,
                                               struct cay_error *err);
[[nodiscard]] bool cay_snapshot_record_put(struct cay_db *db,
                                           const struct cay_snapshot_record *record,
                                           struct cay_error *err);

/* What a client said of a snapshot, into the message and its arena. `out_is_there` may be NULL:
 * then one that is gone said nothing. */
[[nodiscard]] bool cay_snapshot_read_words(struct cay_db *db, struct cay_str session_id,
                                           struct cay_str name, struct cay_arena *arena,
                                           struct cay_v1_snapshot *message, bool *out_is_there,
                                           struct cay_error *err);

/* Removes a session with its snapshots; a snapshot. Absent is done. */
[[nodiscard]] bool cay_session_record_delete(struct cay_db *db, const char *id,
                                             struct cay_error *err);
[[nodiscard]] bool cay_snapshot_record_delete(struct cay_db *db, const char *session_id,
                                              const char *name, struct cay_error *err);

/* Oldest first. The record is the callee's to keep or finish. */
typedef bool cay_session_record_fn(void *context, struct cay_session_record *record,
                                   struct cay_error *err);
typedef bool cay_snapshot_record_fn(void *context, struct cay_snapshot_record *record,
                                    struct cay_error *err);
[[nodiscard]] bool cay_session_records_load(struct cay_db *db, cay_session_record_fn *visit,
                                            void *context, struct cay_error *err);
[[nodiscard]] bool cay_snapshot_records_load(struct cay_db *db, cay_snapshot_record_fn *visit,
                                             void *context, struct cay_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The past of a session as a tree: the line its files descend from, and the branches that rollbacks
 * left behind. And how snapshots leave it: a set of victims is chosen and checked on the loop
 * thread, loses its records in one transaction on a worker, and only then its data; whatever a
 * crash keeps from being deleted belongs to nobody and is removed by recovery. Those that followed
 * a victim then follow its predecessor.
 */

#include "base/id.h"
#include "base/map.h"
#include "host/session/record.h"
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

struct cay_victim {
    struct cay_snapshot *snapshot; /* for the loop thread; until it is forgotten */
    struct cay_snapshot *survivor; /* the nearest one before it that stays; NULL: the base */
    bool is_same;                  /* nothing changed from there to it */
    char name[CAY_ID_SIZE];
    struct cay_point point;
    bool is_alone; /* nothing that stays stands on it */
};

/* Those of one session that go together; there are no others of it meanwhile, since whoever has
 * them is alone in the gate. */
struct cay_victims {
    struct cay_victim *items;
    size_t count;
    size_t room;
    struct cay_map
        forks;      /* by snapshot: sessions that were forked from one; while they are chosen */
    bool has_forks; /* they were looked for */
    bool are_forgotten;
    struct cay_snapshot_record *heirs; /* those that followed a victim, as they will be */
    size_t heir_count;
};

void cay_victims_init(struct cay_victims *victims);
/* Before its session may go. */
void cay_victims_finish(struct cay_victims *victims);

/* Refuses held ones and those that sessions were forked from. Twice is once. */
[[nodiscard]] bool cay_victims_add(struct cay_victims *victims, const struct cay_session *session,
                                   struct cay_snapshot *snapshot, struct cay_error *err);

/* The same for all that descends from `ancestor`, parents first. */
[[nodiscard]] bool cay_victims_add_after(struct cay_victims *victims, struct cay_session *session,
                                         struct cay_snapshot *ancestor, struct cay_error *err);

/* What the store has lost cannot be held. */
void cay_victims_add_lost(struct cay_victims *victims, struct cay_snapshot *snapshot);

/* Adds what the rule selects; never named, held and forked-from ones, nor the head. */
void cay_victims_add_by_rule(struct cay_victims *victims, struct cay_session *session,
                             const struct cay_v1_prune_rule *rule);

/* Adds what is more than `keep` turn and tool snapshots, the oldest. The head may go when another
 * one is about to take its place. */
void cay_victims_add_oldest(struct cay_victims *victims, const struct cay_session *session,
                            size_t keep, bool is_head_kept);

/* Once the set is complete. */
void cay_victims_settle(struct cay_victims *victims, const struct cay_session *session);
/* After that: the heirs' records, for who lets the victims go. */
[[nodiscard]] bool cay_victims_find_heirs(struct cay_victims *victims,
                                          const struct cay_session *session, struct cay_error *err);

/* Of a settled set: the nearest one on the way to the base that stays; NULL: the base. Begins with
 * `snapshot`. */
struct cay_snapshot *cay_victims_survivor(const struct cay_victims *victims,
                                          struct cay_snapshot *snapshot);

/* From `snapshot` to there nothing changed. */
[[nodiscard]] bool cay_victims_are_same(const struct cay_victims *victims,
                                        const struct cay_snapshot *snapshot);

/* On a worker: about what their deletion frees, now or soon. */
[[nodiscard]] int64_t cay_victims_bytes(const struct cay_victims *victims, struct cay_store *store);

/* On a worker. The first belongs into the transaction that acknowledges; the second comes after. */
[[nodiscard]] bool cay_victims_unrecord(const struct cay_victims *victims, struct cay_db *db,
                                        const char *session_id, struct cay_error *err);
void cay_victims_delete(const struct cay_victims *victims, struct cay_store *store);

/* On the loop thread: they never were. */
void cay_victims_forget(struct cay_victims *victims, struct cay_session *session);

/* Their names, in the arena. */
struct cay_pb_strs cay_victims_names(const struct cay_victims *victims, struct cay_arena *arena);

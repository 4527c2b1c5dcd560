/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How snapshots leave the past: a set of victims is chosen and checked on the loop thread, loses
 * its records in one transaction on a worker, and only then its data; whatever a crash keeps from
 * being deleted belongs to nobody and is removed by recovery. Those that followed a victim then
 * follow its predecessor.
 */

#include "base/id.h"
#include "base/map.h"
#include "host/past/history.h"
#include "host/session/record.h"
#include "host/session/session.h"

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

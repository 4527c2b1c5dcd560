/* SPDX-License-Identifier: Apache-2.0 */
#include "host/past/victims.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "base/clock.h"
#include "base/log.h"
#include "host/past/history.h"
#include "host/past/snapshot.h"
#include "host/session/host.h"
#include "host/session/record.h"
#include "host/session/session.h"

void cay_victims_init(struct cay_victims *victims)
{
    *victims = (struct cay_victims){};
    cay_map_init(&victims->forks);
}

void cay_victims_finish(struct cay_victims *victims)
{
    for (size_t i = 0; i < victims->heir_count; i++)
        cay_snapshot_record_finish(&victims->heirs[i]);
    for (size_t i = 0; i < victims->count && !victims->are_forgotten; i++)
        victims->items[i].snapshot->victim_place = 0;
    free(victims->heirs);
    free(victims->items);
    cay_map_finish(&victims->forks);
    *victims = (struct cay_victims){};
}

/* A session that was forked from it and still exists. All sessions are looked at once, not for each
 * snapshot. */
static const struct cay_session *fork_of(struct cay_victims *victims,
                                         const struct cay_session *session,
                                         const struct cay_snapshot *snapshot)
{
    if (!victims->has_forks) {
        victims->has_forks = true;
        cay_list_for_each (struct cay_session, other, &session->host->sessions.list, in_table) {
            if (!other->is_gone && cay_str_is(other->spec->parent_session_id, session->id))
                cay_map_put(&victims->forks, other->spec->parent_snapshot, other);
        }
    }
    return cay_map_count(&victims->forks) ? cay_map_get(&victims->forks, cay_str(snapshot->name))
                                          : NULL;
}

static struct cay_victim *victim_of(const struct cay_victims *victims,
                                    const struct cay_snapshot *snapshot)
{
    return snapshot && snapshot->victim_place ? &victims->items[snapshot->victim_place - 1] : NULL;
}

static void add(struct cay_victims *victims, struct cay_snapshot *snapshot)
{
    if (snapshot->victim_place)
        return;
    if (victims->count == victims->room) {
        victims->room = CAY_MAX(victims->room * 2, (size_t)16);
        victims->items = cay_realloc_array(victims->items, victims->room, sizeof(*victims->items));
    }
    struct cay_victim *victim = &victims->items[victims->count++];
    snapshot->victim_place = victims->count;
    *victim = (struct cay_victim){.snapshot = snapshot, .is_alone = true};
    memcpy(victim->name, snapshot->name, sizeof(victim->name));
    cay_point_set(&victim->point, snapshot);
    cay_point_set_parent(&victim->point, snapshot->parent);
}

bool cay_victims_add(struct cay_victims *victims, const struct cay_session *session,
                     struct cay_snapshot *snapshot, struct cay_error *err)
{
    if (snapshot->spec->held)
        return cay_fail(err, CAY_R_SNAPSHOT_HELD,
                        "snapshot '%s' of session '%s' is held; release it first", snapshot->name,
                        session->id);
    const struct cay_session *fork = fork_of(victims, session, snapshot);
    if (fork)
        return cay_fail(err, CAY_R_SNAPSHOT_IN_USE,
                        "session '%s' was forked from snapshot '%s'; remove that session first",
                        fork->id, snapshot->name);
    add(victims, snapshot);
    return true;
}

/* A walk over what descends from `top`, parents first; NULL at its end. What is below `at` is
 * passed over unless it `goes_in`. */
static struct cay_snapshot *next_below(const struct cay_snapshot *top, struct cay_snapshot *at,
                                       bool goes_in)
{
    struct cay_list_node *node = goes_in ? cay_list_first(&at->children) : NULL;
    for (; !node && at != top; at = at->parent)
        node = cay_list_next(&at->parent->children, &at->in_parent);
    return CAY_LIST_ITEM(node, struct cay_snapshot, in_parent);
}

bool cay_victims_add_after(struct cay_victims *victims, struct cay_session *session,
                           struct cay_snapshot *ancestor, struct cay_error *err)
{
    struct cay_snapshot *snapshot = ancestor;
    while ((snapshot = next_below(ancestor, snapshot, true))) {
        if (!cay_victims_add(victims, session, snapshot, err))
            return false;
    }
    return true;
}

void cay_victims_add_lost(struct cay_victims *victims, struct cay_snapshot *snapshot)
{
    add(victims, snapshot);
}

static bool is_kept(struct cay_victims *victims, const struct cay_session *session,
                    const struct cay_snapshot *snapshot)
{
    return snapshot->spec->kind == CAY_V1_SNAPSHOT_KIND_NAMED || snapshot->spec->held ||
           fork_of(victims, session, snapshot);
}

void cay_victims_add_by_rule(struct cay_victims *victims, struct cay_session *session,
                             const struct cay_v1_prune_rule *rule)
{
    int64_t turns = 0;
    int64_t tools = 0;
    int64_t before_ns = INT64_MIN;
    if (rule->branches_older_than) {
        int64_t age_ms = cay_noun_duration_ms(rule->branches_older_than);
        age_ms = CAY_MIN(CAY_MAX(age_ms, INT64_C(0)), INT64_C(1000) * CAY_LIMIT_SPAN_S);
        before_ns = cay_clock_wall_ns() - age_ms * CAY_NS_PER_MS;
    }
    cay_history_mark(session);
    cay_list_for_each_back(struct cay_snapshot, snapshot, &session->snapshots, in_session)
    {
        enum cay_v1_snapshot_kind kind = snapshot->spec->kind;
        bool is_old =
            kind == CAY_V1_SNAPSHOT_KIND_TURN   ? rule->has_keep_turns && ++turns > rule->keep_turns
            : kind == CAY_V1_SNAPSHOT_KIND_TOOL ? rule->has_keep_tools && ++tools > rule->keep_tools
                                                : false;
        bool is_abandoned = snapshot->tip && snapshot->tip->created_ns < before_ns;
        bool is_head = strcmp(session->head, snapshot->name) == 0;
        if ((is_old || is_abandoned) && !is_head && !is_kept(victims, session, snapshot))
            add(victims, snapshot);
    }
}

void cay_victims_add_oldest(struct cay_victims *victims, const struct cay_session *session,
                            size_t keep, bool is_head_kept)
{
    size_t seen = 0;
    cay_list_for_each_back(struct cay_snapshot, snapshot, &session->snapshots, in_session)
    {
        enum cay_v1_snapshot_kind kind = snapshot->spec->kind;
        if ((kind == CAY_V1_SNAPSHOT_KIND_TURN || kind == CAY_V1_SNAPSHOT_KIND_TOOL) &&
            ++seen > keep && !is_kept(victims, session, snapshot) &&
            !(is_head_kept && strcmp(session->head, snapshot->name) == 0))
            add(victims, snapshot);
    }
}

struct cay_snapshot *cay_victims_survivor(const struct cay_victims *victims,
                                          struct cay_snapshot *snapshot)
{
    const struct cay_victim *victim = victim_of(victims, snapshot);
    return victim ? victim->survivor : snapshot;
}

bool cay_victims_are_same(const struct cay_victims *victims, const struct cay_snapshot *snapshot)
{
    const struct cay_victim *victim = victim_of(victims, snapshot);
    return !victim || victim->is_same;
}

/* `from` and what it descends from are needed. */
static void mark_needed(const struct cay_victims *victims, const struct cay_snapshot *from)
{
    for (; from; from = from->parent) {
        struct cay_victim *victim = victim_of(victims, from);
        if (!victim || !victim->is_alone)
            return;
        victim->is_alone = false;
    }
}

/* What an heir is now: what the victims changed, it changes. */
static struct cay_v1_snapshot heir_spec(const struct cay_victims *victims,
                                        const struct cay_snapshot *heir)
{
    const struct cay_snapshot *parent = cay_victims_survivor(victims, heir->parent);
    struct cay_v1_snapshot spec = *heir->spec;
    spec.parent = parent ? cay_str(parent->name) : CAY_STR("");
    spec.unchanged = spec.unchanged && cay_victims_are_same(victims, heir->parent);
    spec.changes = NULL; /* they were against another one */
    return spec;
}

/* From a victim whose parent stays: each finds what was found for its parent. */
static void settle_below(const struct cay_victims *victims, struct cay_snapshot *top)
{
    for (struct cay_snapshot *at = top; at;) {
        struct cay_victim *victim = victim_of(victims, at);
        if (victim) {
            victim->survivor = cay_victims_survivor(victims, at->parent);
            victim->is_same = at->spec->unchanged && cay_victims_are_same(victims, at->parent);
        } else {
            mark_needed(victims, at->parent);
        }
        at = next_below(top, at, victim != NULL);
    }
}

void cay_victims_settle(struct cay_victims *victims, const struct cay_session *session)
{
    cay_map_finish(&victims->forks);
    victims->has_forks = false;
    if (!victims->count)
        return;
    mark_needed(victims, cay_session_snapshot(session, cay_str(session->head)));
    for (size_t i = 0; i < victims->count; i++) {
        struct cay_snapshot *top = victims->items[i].snapshot;
        if (!victim_of(victims, top->parent))
            settle_below(victims, top);
    }
}

static bool add_heir(struct cay_victims *victims, const struct cay_session *session,
                     const struct cay_snapshot *heir, struct cay_error *err)
{
    struct cay_v1_snapshot spec = heir_spec(victims, heir);
    victims->heirs =
        cay_realloc_array(victims->heirs, victims->heir_count + 1, sizeof(*victims->heirs));
    return cay_snapshot_record_take(&victims->heirs[victims->heir_count++], session, heir, &spec,
                                    err);
}

bool cay_victims_find_heirs(struct cay_victims *victims, const struct cay_session *session,
                            struct cay_error *err)
{
    for (size_t i = 0; i < victims->count; i++) {
        cay_list_for_each (struct cay_snapshot, child, &victims->items[i].snapshot->children,
                           in_parent) {
            if (!child->victim_place && !add_heir(victims, session, child, err))
                return false;
        }
    }
    return true;
}

int64_t cay_victims_bytes(const struct cay_victims *victims, struct cay_store *store)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < victims->count; i++) {
        const struct cay_victim *victim = &victims->items[i];
        if (victim->is_alone)
            bytes += cay_history_measure(store, &victim->point).own_bytes;
    }
    return bytes;
}

bool cay_victims_unrecord(const struct cay_victims *victims, struct cay_db *db,
                          const char *session_id, struct cay_error *err)
{
    for (size_t i = 0; i < victims->heir_count; i++) {
        if (!cay_snapshot_record_put(db, &victims->heirs[i], err))
            return false;
    }
    for (size_t i = 0; i < victims->count; i++) {
        if (!cay_snapshot_record_delete(db, session_id, victims->items[i].name, err))
            return false;
    }
    return true;
}

void cay_victims_delete(const struct cay_victims *victims, struct cay_store *store)
{
    for (size_t i = 0; i < victims->count; i++) {
        struct cay_error err = {};
        if (!cay_store_delete_snapshot(store, victims->items[i].point.store_id, &err))
            cay_log(CAY_WARN, "snapshot.delete_failed",
                    CAY_S("store_id", victims->items[i].point.store_id), CAY_ERR(&err));
    }
}

void cay_victims_forget(struct cay_victims *victims, struct cay_session *session)
{
    for (size_t i = 0; i < victims->heir_count; i++) {
        const struct cay_snapshot_record *record = &victims->heirs[i];
        struct cay_snapshot *heir = cay_session_snapshot(session, cay_str(record->name));
        struct cay_v1_snapshot spec = heir_spec(victims, heir);
        cay_snapshot_set_spec(session, heir, &spec);
        heir->is_looked_after = false;
    }
    if (victims->heir_count)
        cay_snapshots_look_after(session->host);
    victims->are_forgotten = true;
    for (size_t i = 0; i < victims->count; i++)
        cay_snapshot_free(session, victims->items[i].snapshot);
}

struct cay_pb_strs cay_victims_names(const struct cay_victims *victims, struct cay_arena *arena)
{
    struct cay_pb_strs names = {.items =
                                    cay_arena_array(arena, victims->count, sizeof(struct cay_str))};
    for (size_t i = 0; names.items && i < victims->count; i++)
        names.items[names.count++] = cay_arena_str(arena, cay_str(victims->items[i].name));
    return names;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/history.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "base/clock.h"
#include "base/log.h"
#include "host/session/aftermath.h"
#include "host/session/host.h"

struct cay_snapshot *cay_history_parent(const struct cay_session *session,
                                        const struct cay_snapshot *snapshot)
{
    return cay_session_snapshot(session, snapshot->spec->parent);
}

void cay_point_set(struct cay_point *point, const struct cay_snapshot *snapshot)
{
    memcpy(point->store_id, snapshot->store_id, sizeof(point->store_id));
    point->total_bytes = snapshot->spec->total_bytes;
}

void cay_point_set_parent(struct cay_point *point, const struct cay_snapshot *parent)
{
    snprintf(point->parent_store_id, sizeof(point->parent_store_id), "%s",
             parent ? parent->store_id : "");
    point->parent_total_bytes = parent ? parent->spec->total_bytes : 0;
}

bool cay_history_descends(const struct cay_session *session, const struct cay_snapshot *snapshot,
                          const struct cay_snapshot *ancestor)
{
    do
        snapshot = cay_history_parent(session, snapshot);
    while (snapshot && snapshot != ancestor);
    return snapshot != NULL;
}

void cay_history_mark(struct cay_session *session)
{
    cay_list_for_each (struct cay_snapshot, snapshot, &session->snapshots, in_session) {
        snapshot->is_on_line = false;
        snapshot->tip = NULL;
    }
    struct cay_snapshot *at = cay_session_snapshot(session, cay_str(session->head));
    for (; at; at = cay_history_parent(session, at))
        at->is_on_line = true;
    /* Nobody is older than its parent: from the newest on, the first of a branch to come is its
     * tip, and each passes it on. */
    cay_list_for_each_back(struct cay_snapshot, snapshot, &session->snapshots, in_session)
    {
        if (snapshot->is_on_line)
            continue;
        if (!snapshot->tip)
            snapshot->tip = snapshot;
        struct cay_snapshot *parent = cay_history_parent(session, snapshot);
        if (parent && !parent->is_on_line && !parent->tip)
            parent->tip = snapshot->tip;
    }
}

void cay_history_message(const struct cay_session *session, const struct cay_snapshot *snapshot,
                         struct cay_v1_snapshot *out_message)
{
    *out_message = *snapshot->spec;
    out_message->session_id = cay_str(session->id);
    out_message->is_head = strcmp(session->head, snapshot->name) == 0;
    out_message->branch =
        snapshot->tip && !out_message->is_head ? cay_str(snapshot->tip->name) : CAY_STR("");
}

/* A session that was forked from it and still exists. */
static const struct cay_session *fork_of(const struct cay_session *session,
                                         const struct cay_snapshot *snapshot)
{
    cay_list_for_each (struct cay_session, other, &session->host->sessions.list, in_table) {
        if (!other->is_gone && cay_str_is(other->spec->parent_session_id, session->id) &&
            cay_str_is(other->spec->parent_snapshot, snapshot->name))
            return other;
    }
    return NULL;
}

void cay_victims_init(struct cay_victims *victims)
{
    *victims = (struct cay_victims){};
    cay_map_init(&victims->by_name);
}

void cay_victims_finish(struct cay_victims *victims)
{
    for (size_t i = 0; i < victims->heir_count; i++)
        cay_snapshot_record_finish(&victims->heirs[i]);
    free(victims->heirs);
    free(victims->items);
    cay_map_finish(&victims->by_name);
    *victims = (struct cay_victims){};
}

static bool is_victim(const struct cay_victims *victims, const struct cay_snapshot *snapshot)
{
    return cay_map_get(&victims->by_name, cay_str(snapshot->name)) != NULL;
}

static void add(struct cay_victims *victims, const struct cay_snapshot *snapshot)
{
    if (is_victim(victims, snapshot))
        return;
    victims->items = cay_realloc_array(victims->items, victims->count + 1, sizeof(*victims->items));
    struct cay_victim *victim = &victims->items[victims->count++];
    cay_map_put(&victims->by_name, cay_str(snapshot->name), (void *)(uintptr_t)victims->count);
    *victim = (struct cay_victim){.is_alone = true};
    memcpy(victim->name, snapshot->name, sizeof(victim->name));
    cay_point_set(&victim->point, snapshot);
}

bool cay_victims_add(struct cay_victims *victims, const struct cay_session *session,
                     const struct cay_snapshot *snapshot, struct cay_error *err)
{
    if (snapshot->spec->held)
        return cay_fail(err, CAY_R_SNAPSHOT_HELD,
                        "snapshot '%s' of session '%s' is held; release it first", snapshot->name,
                        session->id);
    const struct cay_session *fork = fork_of(session, snapshot);
    if (fork)
        return cay_fail(err, CAY_R_SNAPSHOT_IN_USE,
                        "session '%s' was forked from snapshot '%s'; remove that session first",
                        fork->id, snapshot->name);
    add(victims, snapshot);
    return true;
}

void cay_victims_add_lost(struct cay_victims *victims, const struct cay_snapshot *snapshot)
{
    add(victims, snapshot);
}

static bool is_kept(const struct cay_session *session, const struct cay_snapshot *snapshot)
{
    return snapshot->spec->kind == CAY_V1_SNAPSHOT_KIND_NAMED || snapshot->spec->held ||
           fork_of(session, snapshot);
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
        if ((is_old || is_abandoned) && !is_head && !is_kept(session, snapshot))
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
            ++seen > keep && !is_kept(session, snapshot) &&
            !(is_head_kept && strcmp(session->head, snapshot->name) == 0))
            add(victims, snapshot);
    }
}

struct cay_snapshot *cay_victims_survivor(const struct cay_victims *victims,
                                          const struct cay_session *session,
                                          struct cay_snapshot *snapshot)
{
    while (snapshot && is_victim(victims, snapshot))
        snapshot = cay_history_parent(session, snapshot);
    return snapshot;
}

/* `from` and what it descends from are needed. */
static void mark_needed(struct cay_victims *victims, const struct cay_session *session,
                        const struct cay_snapshot *from)
{
    for (; from; from = cay_history_parent(session, from)) {
        uintptr_t place = (uintptr_t)cay_map_get(&victims->by_name, cay_str(from->name));
        if (!place || !victims->items[place - 1].is_alone)
            return;
        victims->items[place - 1].is_alone = false;
    }
}

bool cay_victims_are_same(const struct cay_victims *victims, const struct cay_session *session,
                          const struct cay_snapshot *snapshot)
{
    for (; snapshot && is_victim(victims, snapshot);
         snapshot = cay_history_parent(session, snapshot)) {
        if (!snapshot->spec->unchanged)
            return false;
    }
    return true;
}

/* What an heir is now: what the victims changed, it changes. */
static struct cay_v1_snapshot heir_spec(const struct cay_victims *victims,
                                        const struct cay_session *session,
                                        const struct cay_snapshot *heir)
{
    const struct cay_snapshot *parent = cay_history_parent(session, heir);
    bool is_same = cay_victims_are_same(victims, session, parent);
    struct cay_v1_snapshot spec = *heir->spec;
    parent = cay_victims_survivor(victims, session, cay_history_parent(session, heir));
    spec.parent = parent ? cay_str(parent->name) : CAY_STR("");
    spec.unchanged = spec.unchanged && is_same;
    spec.changes = NULL; /* they were against another one */
    return spec;
}

static bool add_heir(struct cay_victims *victims, const struct cay_session *session,
                     const struct cay_snapshot *heir, struct cay_error *err)
{
    struct cay_v1_snapshot spec = heir_spec(victims, session, heir);
    victims->heirs =
        cay_realloc_array(victims->heirs, victims->heir_count + 1, sizeof(*victims->heirs));
    return cay_snapshot_record_take(&victims->heirs[victims->heir_count++], session, heir, &spec,
                                    err);
}

bool cay_victims_settle(struct cay_victims *victims, const struct cay_session *session,
                        struct cay_error *err)
{
    if (!victims->count)
        return true;
    mark_needed(victims, session, cay_session_snapshot(session, cay_str(session->head)));
    for (size_t i = 0; i < victims->count; i++) {
        struct cay_victim *victim = &victims->items[i];
        const struct cay_snapshot *snapshot = cay_session_snapshot(session, cay_str(victim->name));
        cay_point_set_parent(&victim->point, cay_history_parent(session, snapshot));
    }
    cay_list_for_each (struct cay_snapshot, snapshot, &session->snapshots, in_session) {
        const struct cay_snapshot *parent = cay_history_parent(session, snapshot);
        if (!parent || !is_victim(victims, parent) || is_victim(victims, snapshot))
            continue;
        mark_needed(victims, session, parent);
        if (!add_heir(victims, session, snapshot, err))
            return false;
    }
    return true;
}

/* Bytes over the base; 0 for the base itself, less than 0 when it could not be measured. */
static int64_t total_of(struct cay_store *store, const char *store_id, int64_t known)
{
    const struct cay_store_ref ref = {.snapshot = store_id};
    struct cay_store_usage usage;
    struct cay_error ignored = {};
    if (known || !store_id[0])
        return known;
    if (!cay_store_usage(store, &ref, &usage, &ignored))
        return -1;
    return (int64_t)(usage.own_bytes + usage.history_bytes);
}

struct cay_point_size cay_history_measure(struct cay_store *store, const struct cay_point *point)
{
    int64_t total = total_of(store, point->store_id, point->total_bytes);
    int64_t before =
        total < 0 ? -1 : total_of(store, point->parent_store_id, point->parent_total_bytes);
    if (before < 0)
        return (struct cay_point_size){};
    return (struct cay_point_size){
        .own_bytes = CAY_MAX(total - before, INT64_C(0)),
        .total_bytes = total,
    };
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
        struct cay_v1_snapshot spec = heir_spec(victims, session, heir);
        cay_snapshot_set_spec(heir, &spec);
        heir->is_looked_after = false;
    }
    if (victims->heir_count)
        cay_aftermath_soon(session->host);
    for (size_t i = 0; i < victims->count; i++)
        cay_snapshot_free(session, cay_session_snapshot(session, cay_str(victims->items[i].name)));
}

struct cay_pb_strs cay_victims_names(const struct cay_victims *victims, struct cay_arena *arena)
{
    struct cay_pb_strs names = {.items =
                                    cay_arena_array(arena, victims->count, sizeof(struct cay_str))};
    for (size_t i = 0; names.items && i < victims->count; i++)
        names.items[names.count++] = cay_arena_str(arena, cay_str(victims->items[i].name));
    return names;
}

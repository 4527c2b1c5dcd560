/* SPDX-License-Identifier: Apache-2.0 */
#include "host/past/snapshot.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/noun.h"
#include "host/past/history.h"
#include "host/session/host.h"
#include "host/session/record.h"
#include "host/session/session.h"

enum {
    SPEC_BYTES_MAX = 2 * 1024 * 1024,
    AFTERMATH_MS = 5000,
};

void cay_snapshots_look_after(struct cay_host *host)
{
    if (atomic_load(&host->is_stopping) || host->is_aftermath_due)
        return;
    cay_timer_start(&host->aftermath, AFTERMATH_MS, 0);
    host->is_aftermath_due = true;
}

struct cay_snapshot *cay_snapshot_new(struct cay_session *session, const char *name,
                                      const char *store_id, const struct cay_v1_snapshot *spec)
{
    struct cay_snapshot *snapshot = cay_new(struct cay_snapshot);
    snprintf(snapshot->name, sizeof(snapshot->name), "%s", name);
    snprintf(snapshot->store_id, sizeof(snapshot->store_id), "%s", store_id);
    cay_arena_init(&snapshot->arena, SPEC_BYTES_MAX);
    cay_list_init(&snapshot->children);
    cay_snapshot_set_spec(session, snapshot, spec);
    cay_list_push_back(&session->snapshots, &snapshot->in_session);
    cay_map_put(&session->snapshots_by_name, cay_str(snapshot->name), snapshot);
    cay_snapshots_look_after(session->host);
    return snapshot;
}

void cay_snapshot_free(struct cay_session *session, struct cay_snapshot *snapshot)
{
    cay_history_unlink(session, snapshot);
    cay_map_remove(&session->snapshots_by_name, cay_str(snapshot->name));
    cay_list_remove(&snapshot->in_session);
    cay_arena_finish(&snapshot->arena);
    free(snapshot);
}

void cay_snapshot_set_spec(struct cay_session *session, struct cay_snapshot *snapshot,
                           const struct cay_v1_snapshot *spec)
{
    struct cay_arena arena;
    cay_arena_init(&arena, SPEC_BYTES_MAX);
    const struct cay_v1_snapshot kept = cay_snapshot_without_words(spec);
    snapshot->spec = cay_noun_keep(&cay_v1_snapshot_desc, &kept, &arena);
    assert(snapshot->spec); /* requests are bounded well below the arena */
    cay_arena_finish(&snapshot->arena);
    snapshot->arena = arena;
    cay_history_link(session, snapshot);
}

struct cay_snapshot *cay_find_snapshot(const struct cay_session *session, struct cay_str name,
                                       struct cay_error *err)
{
    struct cay_snapshot *snapshot = cay_session_snapshot(session, name);
    if (!snapshot && !(cay_store_caps(session->host->store) & CAY_STORE_SNAPSHOTS)) {
        cay_fail(err, CAY_R_SNAPSHOTS_NOT_AVAILABLE, NULL);
    } else if (!snapshot) {
        cay_fail(err, CAY_R_SNAPSHOT_NOT_FOUND,
                 "session '%s' has no snapshot '%.*s'; 'cay log %s' lists its snapshots",
                 session->id, (int)CAY_MIN(name.len, (size_t)CAY_LIMIT_ID_BYTES),
                 name.len ? name.ptr : "", session->id);
        cay_error_fact(err, "session_id", "%s", session->id);
    }
    return snapshot;
}

static void init(struct cay_session *session)
{
    cay_list_init(&session->snapshots);
    cay_map_init(&session->snapshots_by_name);
}

static void free_all(struct cay_session *session)
{
    cay_list_for_each (struct cay_snapshot, snapshot, &session->snapshots, in_session)
        cay_snapshot_free(session, snapshot);
    cay_map_finish(&session->snapshots_by_name);
}

const struct cay_session_part cay_snapshots_part = {.init = init, .free = free_all};

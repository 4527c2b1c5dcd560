/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/noun.h"
#include "base/crash.h"
#include "base/log.h"
#include "host/base/base_record.h"
#include "host/life/deadline.h"
#include "host/live/filtered.h"
#include "host/live/live.h"
#include "host/live/network.h"
#include "host/live/ports.h"
#include "host/past/history.h"
#include "host/past/restore.h"
#include "host/past/snapshot.h"
#include "host/past/victims.h"
#include "host/process/events.h"
#include "host/process/record.h"
#include "host/service/lost.h"
#include "host/service/service_internal.h"
#include "host/session/host.h"
#include "host/session/record.h"
#include "host/session/request.h"
#include "host/session/tidy.h"

/*
 * After a start: the database says what should be, the store and the kernel say what is. Whatever
 * was begun and not acknowledged is taken back; what was acknowledged is there. What of one session
 * cannot be made sense of, or cannot be done, is that session's failure and nobody else's: it says
 * so and can be destroyed, and the next start tries again.
 */

/* What a record says of work under way and of a sandbox: most have neither. */
struct unsettled {
    struct unsettled *next;
    const struct cay_session *session;
    struct cay_session_record record; /* its texts; the rest is in the session */
};

struct loading {
    struct cay_host *host;
    struct unsettled *first; /* in the order of the sessions' list */
    struct unsettled **end;
};

static void note_unsettled(struct loading *loading, const struct cay_session *session,
                           struct cay_session_record *record)
{
    if (!record->pending[0] && !record->restore.len && !record->sandbox.len) {
        cay_session_record_finish(record);
        return;
    }
    struct unsettled *item = cay_new(struct unsettled);
    item->session = session;
    item->record = *record;
    *loading->end = item;
    loading->end = &item->next;
}

/* The session's record, if there is anything in it to settle: the caller's from now on. */
static bool take_unsettled(struct loading *loading, const struct cay_session *session,
                           struct cay_session_record *out_record)
{
    struct unsettled *item = loading->first;
    if (!item || item->session != session)
        return false;
    *out_record = item->record;
    loading->first = item->next;
    free(item);
    return true;
}

static bool decode_spec(const struct cay_pb_message *desc, const struct cay_buf *bytes,
                        struct cay_arena *arena, void **out_spec)
{
    *out_spec = cay_arena_alloc(arena, desc->size_bytes);
    return *out_spec && cay_pb_decode(desc, cay_buf_str(bytes), arena, *out_spec) == 0;
}

static void break_for(struct cay_session *session, const char *why)
{
    struct cay_error err = {};
    cay_fail(&err, CAY_R_DATA_LOSS, "%s", why);
    cay_session_break(session, &err);
}

/* One that failed is looked at anew: what was wrong may have been put right. */
static enum cay_session_state state_of(const struct cay_session_record *record)
{
    bool is_known = record->state > 0 && record->state < CAY_SESSION_STATES;
    return is_known && record->state != CAY_SESSION_FAILED ? record->state : CAY_SESSION_ACTIVE;
}

static bool load_session(void *context, struct cay_session_record *record, struct cay_error *)
{
    struct loading *loading = context;
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, 4 * 1024 * 1024);
    /* Of one that cannot be read, snapshots can still be forked: with the limits of a new one. */
    struct cay_v1_session unknown = {
        .limits = &loading->host->default_limits,
        .default_user = CAY_STR("root"),
        .default_cwd = CAY_STR("/"),
    };
    void *spec = NULL;
    bool is_read = decode_spec(&cay_v1_session_desc, &record->spec, &arena, &spec);
    struct cay_error err = {};
    bool has_runtime =
        !is_read ||
        cay_runtimes_need(&loading->host->runtimes, ((struct cay_v1_session *)spec)->runtime, &err);
    struct cay_session *session = cay_session_new(loading->host, record->id, record->owner);
    cay_session_set_spec(session, is_read ? spec : &unknown);
    memcpy(session->store_id, record->store_id, sizeof(session->store_id));
    memcpy(session->head, record->head, sizeof(session->head));
    session->state = state_of(record);
    session->created_ns = record->created_ns;
    session->tokens_revoked_ns = record->tokens_revoked_ns;
    session->turn_count = record->turn_count;
    session->branch_count = record->branch_count;
    session->generation = record->generation;
    if (!is_read || record->state <= 0 || record->state >= CAY_SESSION_STATES)
        break_for(session, "its record is damaged");
    if (!has_runtime)
        cay_session_break(session, &err);
    if (!cay_session_claim_slot(session, record->uid_slot))
        break_for(session, "its record has the uids of another session");
    note_unsettled(loading, session, record);
    return true;
}

/* Statements must not nest in a walk over their table: what is to go is gathered first. */
struct pending {
    struct pending *next;
    struct cay_snapshot_record record;
};

struct snapshots_loading {
    struct cay_host *host;
    struct pending *pending;
};

/* Its files are there: it can be read, forked and gone back to, and no rule prunes it. */
static struct cay_v1_snapshot *make_up_spec(const struct cay_snapshot_record *record,
                                            struct cay_arena *arena)
{
    struct cay_v1_snapshot *spec = cay_arena_new(arena, struct cay_v1_snapshot);
    cay_log(CAY_ERROR, "recovery.snapshot_damaged", CAY_S("session", record->session_id),
            CAY_S("snapshot", record->name));
    if (spec)
        *spec = (struct cay_v1_snapshot){
            .name = cay_str(record->name),
            .kind = CAY_V1_SNAPSHOT_KIND_NAMED,
            .created_at = cay_noun_time(arena, record->created_ns),
        };
    return spec;
}

static bool load_snapshot(void *context, struct cay_snapshot_record *record, struct cay_error *)
{
    struct snapshots_loading *loading = context;
    if (record->is_pending) {
        struct pending *item = cay_new(struct pending);
        *item = (struct pending){loading->pending, *record};
        loading->pending = item;
        return true;
    }
    struct cay_session *session =
        cay_map_get(&loading->host->sessions.by_id, cay_str(record->session_id));
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, 4 * 1024 * 1024);
    void *spec = NULL;
    if (!decode_spec(&cay_v1_snapshot_desc, &record->spec, &arena, &spec))
        spec = make_up_spec(record, &arena);
    if (session && spec) {
        struct cay_snapshot *snapshot =
            cay_snapshot_new(session, record->name, record->store_id, spec);
        snapshot->created_ns = record->created_ns;
        memcpy(snapshot->request_id, record->request_id, sizeof(snapshot->request_id));
    }
    cay_snapshot_record_finish(record);
    return true;
}

/* What is not done now is so at the next start. */
static void tell_left(const char *what, const char *id, const struct cay_error *err)
{
    cay_log(CAY_WARN, "recovery.left_behind", CAY_S("what", what), CAY_S("id", id), CAY_ERR(err));
}

/* Never acknowledged: it never was. The session's tree is right either way. */
static void drop_pending(struct cay_host *host, struct pending *item)
{
    while (item) {
        struct pending *next = item->next;
        struct cay_error err = {};
        if (!cay_store_delete_snapshot(host->store, item->record.store_id, &err) ||
            !cay_snapshot_record_delete(host->db, item->record.session_id, item->record.name, &err))
            tell_left("snapshot", item->record.store_id, &err);
        CAY_CRASH_POINT("recovery.pending_dropped");
        cay_snapshot_record_finish(&item->record);
        free(item);
        item = next;
    }
}

static bool load_snapshots(struct cay_host *host, struct cay_error *err)
{
    struct snapshots_loading loading = {.host = host};
    bool is_loaded = cay_snapshot_records_load(host->db, load_snapshot, &loading, err);
    drop_pending(host, loading.pending);
    /* Where a clock was set back, a parent came after what followed it. */
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table) {
        cay_list_for_each (struct cay_snapshot, snapshot, &session->snapshots, in_session)
            cay_history_link(session, snapshot);
    }
    return is_loaded;
}

static bool load_process(void *context, struct cay_process_record *record, struct cay_error *)
{
    struct cay_host *host = context;
    struct cay_session *session = cay_map_get(&host->sessions.by_id, cay_str(record->session_id));
    struct cay_error err = {};
    if (session && !cay_process_restore(&session->processes, record, &err))
        cay_log(CAY_ERROR, "recovery.process_damaged", CAY_S("session", session->id),
                CAY_ERR(&err));
    cay_process_record_finish(record);
    return true;
}

/* Sandboxes that live on say what runs in them; where none does, nothing runs. */
static void recover_processes(struct cay_host *host)
{
    enum { SETTLE_MS = 5000 };
    struct cay_error gone = {};
    cay_fail(&gone, CAY_R_UNAVAILABLE, "its sandbox was gone when the daemon started");
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table) {
        if (session->live)
            cay_live_settle(session->live, SETTLE_MS);
        else if (session->sandbox) /* it says so itself when it is resumed */
            cay_processes_rest(&session->processes);
        else
            cay_processes_detach(&session->processes, CAY_V1_END_CAUSE_LOST, &gone);
    }
}

/* The root as the living sandbox sees it: its overlay must not be mounted a second time. */
static int open_living_root(const struct cay_sandbox *sandbox)
{
    int root_fd = cay_sandbox_root(sandbox);
    return root_fd < 0 ? -1 : fcntl(root_fd, F_DUPFD_CLOEXEC, 0);
}

static struct cay_store_owner owner_of(const struct cay_session *session)
{
    return (struct cay_store_owner){.id_base = cay_session_uid_base(session),
                                    .id_count = CAY_SESSION_ID_COUNT,
                                    .userns_fd = -1};
}

static bool discard_after(struct cay_host *host, struct cay_session *session,
                          struct cay_snapshot *target, struct cay_session_record *record,
                          struct cay_error *err)
{
    cay_auto(cay_victims_finish) struct cay_victims victims;
    cay_victims_init(&victims);
    bool is_good = cay_victims_add_after(&victims, session, target, err);
    is_good = is_good && cay_db_transaction_begin(host->db, err) &&
              cay_db_transaction_end(host->db,
                                     cay_session_record_put(host->db, record, err) &&
                                         cay_victims_unrecord(&victims, host->db, session->id, err),
                                     err);
    if (!is_good)
        return false;
    cay_victims_delete(&victims, host->store);
    cay_victims_forget(&victims, session);
    return true;
}

static bool finish_rollback(struct cay_host *host, struct cay_session *session,
                            struct cay_session_record *record, struct cay_error *err)
{
    bool is_discard = record->pending[0] == CAY_PENDING_DISCARD[0];
    struct cay_snapshot *target =
        cay_session_snapshot(session, cay_str(record->pending + is_discard));
    struct cay_store_point point = {.root_fd = -1};
    const struct cay_store_owner owner = owner_of(session);
    record->pending[0] = '\0';
    if (!target)
        return true;
    if (!cay_store_rollback(host->store, session->store_id, target->store_id, &owner, &point, err))
        return false;
    if (point.root_fd >= 0)
        close(point.root_fd);
    cay_history_set_head(session, target->name);
    memcpy(record->head, target->name, sizeof(record->head));
    session->generation = point.generation;
    record->generation = point.generation;
    return !is_discard || discard_after(host, session, target, record, err);
}

/* A daemon died while it brought paths back: what still differs is put right. */
static bool finish_restore(struct cay_host *host, struct cay_session *session,
                           struct cay_session_record *record, struct cay_error *err)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    void *request = NULL;
    if (!decode_spec(&cay_v1_restore_paths_request_desc, &record->restore, &arena, &request))
        return cay_fail(err, CAY_R_DATA_LOSS, "the record of a restore is damaged");
    cay_auto(cay_restoring_finish) struct cay_restoring restoring;
    cay_restoring_init(&restoring);
    restoring.store = host->store;
    restoring.request = request;
    restoring.owner = owner_of(session);
    memcpy(restoring.session_id, session->store_id, CAY_STORE_ID_SIZE);
    const struct cay_snapshot *snapshot =
        cay_session_snapshot(session, restoring.request->snapshot);
    cay_autoclose int mounted_fd = -1;
    if (session->root_fd < 0 &&
        !cay_store_mount(host->store, session->store_id, &restoring.owner, &mounted_fd, err))
        return false;
    restoring.root_fd = session->root_fd >= 0 ? session->root_fd : mounted_fd;
    if (snapshot) {
        memcpy(restoring.snapshot_id, snapshot->store_id, CAY_STORE_ID_SIZE);
        struct cay_error lost = {};
        if (!cay_restoring_find(&restoring, &lost) || !cay_restoring_apply(&restoring, &lost))
            cay_log(CAY_ERROR, "recovery.restore_failed", CAY_S("session", session->id),
                    CAY_ERR(&lost));
    }
    cay_buf_clear(&record->restore, 0);
    return true;
}

/* What the store has of a session, with its root's generation, or of a snapshot. */
struct stored {
    struct stored *next;
    char store_id[CAY_STORE_ID_SIZE];
    uint64_t generation;
};

struct inventory {
    struct cay_map sessions;
    struct cay_map snapshots;
    struct stored *all;
    size_t item_count; /* of any kind */
};

static bool note_stored(void *context, const struct cay_store_item *item)
{
    struct inventory *inventory = context;
    inventory->item_count++;
    if (item->kind != CAY_STORE_ITEM_SESSION && item->kind != CAY_STORE_ITEM_SNAPSHOT)
        return true;
    struct stored *stored = cay_new(struct stored);
    snprintf(stored->store_id, sizeof(stored->store_id), "%s", item->name);
    stored->generation = item->generation;
    stored->next = inventory->all;
    inventory->all = stored;
    cay_map_put(item->kind == CAY_STORE_ITEM_SESSION ? &inventory->sessions : &inventory->snapshots,
                cay_str(stored->store_id), stored);
    return true;
}

static void free_inventory(struct inventory *inventory)
{
    while (inventory->all) {
        struct stored *next = inventory->all->next;
        free(inventory->all);
        inventory->all = next;
    }
    cay_map_finish(&inventory->sessions);
    cay_map_finish(&inventory->snapshots);
}

/* The dead daemon may have frozen it for a snapshot, or not yet for a pause. */
static bool set_freezer(const struct cay_session *session, struct cay_sandbox *sandbox,
                        struct cay_error *err)
{
    enum { FREEZE_TIMEOUT_MS = 5000 };
    if (session->state == CAY_SESSION_PAUSED)
        return session->spec->pause_mode == CAY_V1_PAUSE_MODE_FREEZE &&
               cay_sandbox_freeze(sandbox, FREEZE_TIMEOUT_MS, err);
    return cay_sandbox_thaw(sandbox, err) || err->reason == CAY_R_NOT_SUPPORTED;
}

static bool recover_session(struct cay_host *host, struct cay_session *session,
                            struct cay_session_record *record, const struct stored *stored,
                            struct cay_error *err)
{
    struct cay_sandbox *sandbox = NULL;
    struct cay_error lost = {};
    bool is_current = !record->pending[0] && stored->generation == record->generation;
    bool is_adopted =
        is_current && record->sandbox.len &&
        cay_runtimes_offer(&host->runtimes, session->runtime, &lost) &&
        cay_runtime_adopt(session->runtime, cay_buf_str(&record->sandbox), &sandbox, &lost);
    if (is_adopted && !set_freezer(session, sandbox, &lost)) {
        (void)cay_sandbox_destroy(cay_take_ptr(sandbox), &lost);
        is_adopted = false;
    }
    if (is_adopted) {
        session->root_fd = open_living_root(sandbox);
        if (session->root_fd < 0)
            (void)cay_sandbox_destroy(sandbox, &lost);
        else
            session->sandbox = sandbox;
        if (session->sandbox && session->state != CAY_SESSION_PAUSED)
            cay_live_open(session, true);
    }
    if (session->sandbox)
        return !record->restore.len || (finish_restore(host, session, record, err) &&
                                        cay_session_record_put(host->db, record, err));
    session->generation = stored->generation;
    record->generation = stored->generation;
    cay_buf_clear(&record->sandbox, 0);
    if (!cay_runtime_remove(session->runtime, session->store_id, err))
        return false;
    CAY_CRASH_POINT("recovery.sandbox_gone");
    if (record->pending[0] && !finish_rollback(host, session, record, err))
        return false;
    CAY_CRASH_POINT("recovery.rolled_back");
    if (record->restore.len && !finish_restore(host, session, record, err))
        return false;
    CAY_CRASH_POINT("recovery.restored");
    return cay_session_record_put(host->db, record, err);
}

static bool remove_session(struct cay_host *host, struct cay_session *session,
                           struct cay_error *err)
{
    if (!cay_runtime_remove(session->runtime, session->store_id, err) ||
        !cay_store_destroy(host->store, session->store_id, err))
        return false;
    cay_filtering_remove_names(host, session->store_id);
    CAY_CRASH_POINT("recovery.half_made_gone");
    if (!cay_session_record_delete(host->db, session->id, err))
        return false;
    CAY_CRASH_POINT("recovery.half_made_forgotten");
    cay_session_forget(session);
    return true;
}

static bool recover_one(struct loading *loading, struct cay_session *session,
                        const struct stored *stored, struct cay_error *err)
{
    struct cay_host *host = loading->host;
    cay_auto(cay_session_record_finish) struct cay_session_record record = {};
    bool is_settled = !take_unsettled(loading, session, &record);
    memcpy(record.head, session->head, sizeof(record.head)); /* the old one may be lost */
    if (session->state == CAY_SESSION_CREATING || session->state == CAY_SESSION_DESTROYING ||
        cay_build_is_label(session->spec->labels))
        return remove_session(host, session, err);
    if (!stored)
        break_for(session, "its files are gone");
    if (session->state == CAY_SESSION_FAILED)
        return cay_runtime_remove(session->runtime, session->store_id, err);
    /* Nothing ran and nothing was under way: its record says what is. There may be thousands. */
    if (is_settled && stored->generation == session->generation)
        return cay_runtime_remove(session->runtime, session->store_id, err);
    if (is_settled)
        cay_session_record_take(&record, session);
    return recover_session(host, session, &record, stored, err);
}

/* Nothing of it runs on in a tree that may not be what it should be. */
static void give_up(struct cay_session *session, const struct cay_error *err)
{
    struct cay_error left = {};
    struct cay_sandbox *sandbox = cay_live_close(session, CAY_R_SESSION_FAILED);
    if (sandbox && !cay_sandbox_destroy(sandbox, &left))
        tell_left("sandbox", session->store_id, &left);
    if (session->root_fd >= 0)
        close(cay_take_fd(session->root_fd));
    cay_session_break(session, err);
}

static void recover_each(struct loading *loading, const struct inventory *inventory)
{
    cay_list_for_each (struct cay_session, session, &loading->host->sessions.list, in_table) {
        const struct stored *stored = cay_map_get(&inventory->sessions, cay_str(session->store_id));
        struct cay_error err = {};
        if (!recover_one(loading, session, stored, &err))
            give_up(session, &err);
    }
}

static bool recover_sessions(struct loading *loading, struct cay_error *err)
{
    struct inventory inventory = {};
    cay_map_init(&inventory.sessions);
    cay_map_init(&inventory.snapshots);
    bool is_good = cay_store_list(loading->host->store, note_stored, &inventory, err) &&
                   cay_lost_check_store(loading->host, inventory.item_count, err);
    if (is_good) {
        cay_lost_forget(loading->host, &inventory.snapshots);
        recover_each(loading, &inventory);
    }
    free_inventory(&inventory);
    return is_good;
}

/* Of an earlier daemon's reserve: nobody's. */
static void remove_waiting(struct cay_host *host)
{
    struct cay_error left = {};
    if (!cay_runtimes_remove_waiting(&host->runtimes, &left))
        tell_left("reserve", "", &left);
    CAY_CRASH_POINT("recovery.reserve_gone");
}

/* Ids in the store that no record knows. */
struct orphans {
    struct cay_map known;
    char (*sessions)[CAY_STORE_ID_SIZE];
    size_t session_count;
    char (*snapshots)[CAY_STORE_ID_SIZE];
    size_t snapshot_count;
};

static bool note_orphan(void *context, const struct cay_store_item *item)
{
    struct orphans *orphans = context;
    if (cay_map_get(&orphans->known, cay_str(item->name)))
        return true;
    if (item->kind == CAY_STORE_ITEM_SESSION) {
        orphans->sessions =
            cay_realloc_array(orphans->sessions, orphans->session_count + 1, CAY_STORE_ID_SIZE);
        snprintf(orphans->sessions[orphans->session_count++], CAY_STORE_ID_SIZE, "%s", item->name);
    } else if (item->kind == CAY_STORE_ITEM_SNAPSHOT) {
        orphans->snapshots =
            cay_realloc_array(orphans->snapshots, orphans->snapshot_count + 1, CAY_STORE_ID_SIZE);
        snprintf(orphans->snapshots[orphans->snapshot_count++], CAY_STORE_ID_SIZE, "%s",
                 item->name);
    }
    return true;
}

static bool remove_orphans(struct cay_host *host, struct cay_error *err)
{
    struct orphans orphans = {};
    cay_map_init(&orphans.known);
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table) {
        cay_map_put(&orphans.known, cay_str(session->store_id), session);
        cay_list_for_each (struct cay_snapshot, snapshot, &session->snapshots, in_session)
            cay_map_put(&orphans.known, cay_str(snapshot->store_id), snapshot);
    }
    bool is_good = cay_store_list(host->store, note_orphan, &orphans, err);
    for (size_t i = 0; is_good && i < orphans.session_count; i++) {
        struct cay_error left = {};
        cay_log(CAY_INFO, "recovery.orphan_session", CAY_S("store_id", orphans.sessions[i]));
        if (!cay_runtimes_remove(&host->runtimes, orphans.sessions[i], &left) ||
            !cay_store_destroy(host->store, orphans.sessions[i], &left))
            tell_left("session", orphans.sessions[i], &left);
        CAY_CRASH_POINT("recovery.orphan_session_gone");
    }
    for (size_t i = 0; is_good && i < orphans.snapshot_count; i++) {
        struct cay_error left = {};
        cay_log(CAY_INFO, "recovery.orphan_snapshot", CAY_S("store_id", orphans.snapshots[i]));
        if (!cay_store_delete_snapshot(host->store, orphans.snapshots[i], &left))
            tell_left("snapshot", orphans.snapshots[i], &left);
        CAY_CRASH_POINT("recovery.orphan_snapshot_gone");
    }
    free(orphans.sessions);
    free(orphans.snapshots);
    cay_map_finish(&orphans.known);
    return is_good;
}

bool cay_host_recover(struct cay_host *host, struct cay_error *err)
{
    struct loading loading = {.host = host, .end = &loading.first};
    bool is_good = cay_session_records_load(host->db, load_session, &loading, err) &&
                   load_snapshots(host, err) &&
                   cay_process_records_load(host->db, load_process, host, err) &&
                   recover_sessions(&loading, err) && cay_network_recover(host, err) &&
                   remove_orphans(host, err) && cay_bases_recover(host, err);
    if (is_good) {
        remove_waiting(host);
        recover_processes(host);
    }
    is_good = is_good && cay_ports_recover(host, err);
    struct cay_session_record left = {};
    while (loading.first && take_unsettled(&loading, loading.first->session, &left))
        cay_session_record_finish(&left);
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table)
        cay_deadline_set(session);
    cay_host_collect_soon(host);
    return is_good || cay_wrap(err, "recovery");
}

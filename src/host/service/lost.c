/* SPDX-License-Identifier: Apache-2.0 */
#include "host/service/lost.h"

#include "base/log.h"
#include "host/past/history.h"
#include "host/past/snapshot.h"
#include "host/past/victims.h"
#include "host/session/record.h"

bool cay_lost_check_store(const struct cay_host *host, size_t item_count, struct cay_error *err)
{
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table) {
        bool had_files =
            session->state != CAY_SESSION_CREATING && session->state != CAY_SESSION_DESTROYING;
        if (had_files && !item_count)
            return cay_fail(
                err, CAY_R_DATA_LOSS,
                "'%.200s' is empty, and there are sessions whose files were in it: "
                "mount its disk, or bring it back; to begin anew, remove '%.200s/cay.db'",
                host->pool.path, host->settings->data_dir);
    }
    return true;
}

static bool find_tree(void *context, const struct cay_store_item *item)
{
    bool *has_trees = context;
    *has_trees =
        *has_trees || item->kind == CAY_STORE_ITEM_SESSION || item->kind == CAY_STORE_ITEM_SNAPSHOT;
    return !*has_trees;
}

bool cay_lost_open_records(struct cay_store *store, const char *db_path, struct cay_db **out_db,
                           struct cay_error *err)
{
    bool has_trees = false;
    if (!cay_store_list(store, find_tree, &has_trees, err))
        return false;
    if (!has_trees)
        return cay_db_open(db_path, out_db, err);
    if (cay_db_open_old(db_path, out_db, err))
        return true;
    return err->reason != CAY_R_DATA_LOSS
               ? false
               : cay_wrap(err,
                          "there are sessions that '%.100s' told of: bring it back with its "
                          "log; to begin anew, remove the store, too",
                          db_path);
}

static void find_lost(const struct cay_session *session, const struct cay_map *stored,
                      struct cay_victims *victims)
{
    cay_list_for_each (struct cay_snapshot, snapshot, &session->snapshots, in_session) {
        if (cay_map_get(stored, cay_str(snapshot->store_id)))
            continue;
        cay_log(CAY_WARN, "recovery.snapshot_lost", CAY_S("session", session->id),
                CAY_S("snapshot", snapshot->name),
                CAY_S("durable", snapshot->spec->durable ? "yes" : "no"));
        cay_victims_add_lost(victims, snapshot);
    }
}

static bool forget(struct cay_host *host, struct cay_session *session, struct cay_victims *victims,
                   struct cay_error *err)
{
    cay_victims_settle(victims, session);
    const struct cay_snapshot *head =
        cay_victims_survivor(victims, cay_session_snapshot(session, cay_str(session->head)));
    char name[sizeof(session->head)] = "";
    if (head)
        memcpy(name, head->name, sizeof(name));
    if (!cay_victims_find_heirs(victims, session, err) ||
        !cay_db_transaction_begin(host->db, err) ||
        !cay_db_transaction_end(host->db,
                                cay_victims_unrecord(victims, host->db, session->id, err) &&
                                    cay_session_record_put_head(host->db, session->id, name, err),
                                err))
        return false;
    cay_history_set_head(session, name);
    cay_victims_forget(victims, session);
    return true;
}

void cay_lost_forget(struct cay_host *host, const struct cay_map *stored)
{
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table) {
        cay_auto(cay_victims_finish) struct cay_victims victims;
        struct cay_error err = {};
        cay_victims_init(&victims);
        find_lost(session, stored, &victims);
        if (victims.count && !forget(host, session, &victims, &err))
            cay_session_break(session, &err);
    }
}

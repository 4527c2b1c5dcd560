/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "host/session/host.h"
#include "host/store/diff.h"
#include "host/transfer/import.h"

/*
 * A stream that continues a session. The new points are made beside it; then the session goes to
 * the last one as a rollback would: the target stands in its record before the store is touched, so
 * that a daemon killed in between finishes it. Live files that differ from the head are a target of
 * their own, which is deleted once they are in place.
 */

static bool on_change(void *ctx, const struct cay_diff_entry *)
{
    *(bool *)ctx = true;
    return false;
}

bool cay_import_check_existing(struct cay_import *self, struct cay_error *err)
{
    bool is_changed = false;
    struct cay_diff_stats stats;
    const struct cay_diff_request request = {
        .from.snapshot = self->since_store_id,
        .to.session = self->session.store_id,
        .visit = on_change,
        .ctx = &is_changed,
    };
    if (!cay_store_diff(self->host->store, &request, &stats, err))
        return false;
    return !is_changed ||
           cay_fail(err, CAY_R_FAILED_PRECONDITION,
                    "the live files have changed since snapshot '%.*s'; end the turn or roll back "
                    "first",
                    (int)self->manifest.since.len, self->manifest.since.ptr);
}

static const char *head_store_id(const struct cay_import *self)
{
    for (size_t i = 0; i < self->snapshot_count; i++) {
        if (cay_str_is(self->manifest.head, self->snapshots[i].name))
            return self->snapshots[i].store_id;
    }
    return self->since_store_id;
}

static bool forget_live(struct cay_import *self, struct cay_error *err)
{
    struct cay_host *host = self->host;
    return cay_store_delete_snapshot(host->store, self->live.store_id, err) &&
           cay_snapshot_record_delete(host->db, self->session.id, self->live.name, err);
}

bool cay_import_continue(struct cay_import *self, struct cay_error *err)
{
    struct cay_host *host = self->host;
    struct cay_session_record *session = &self->session;
    struct cay_store_point point = {.root_fd = -1};
    char head[sizeof(session->head)];
    const char *target = self->has_live ? self->live.store_id : head_store_id(self);
    memcpy(head, session->head, sizeof(head));
    snprintf(session->head, sizeof(session->head), "%.*s", (int)self->manifest.since.len,
             self->manifest.since.ptr);
    snprintf(session->pending, sizeof(session->pending), "%s",
             self->has_live ? self->live.name : head);
    self->live.is_pending = !self->has_live;
    bool is_good =
        cay_db_transaction_begin(host->db, err) &&
        cay_db_transaction_end(host->db,
                               cay_import_put_snapshots(self, false, err) &&
                                   cay_snapshot_record_put(host->db, &self->live, err) &&
                                   cay_session_record_put(host->db, session, err),
                               err) &&
        cay_store_rollback(host->store, session->store_id, target, &self->owner, &point, err);
    if (point.root_fd >= 0)
        close(point.root_fd);
    struct cay_error late = {};
    session->pending[0] = '\0';
    if (!is_good) {
        (void)cay_session_record_put(host->db, session, &late);
        return false;
    }
    session->generation = point.generation;
    memcpy(session->head, head, sizeof(head));
    /* It is done; what cannot be tidied up now is so at the next start. */
    if (!cay_session_record_put(host->db, session, &late) || !forget_live(self, &late))
        cay_log(CAY_WARN, "import.tidy_failed", CAY_S("session", session->id), CAY_ERR(&late));
    return true;
}

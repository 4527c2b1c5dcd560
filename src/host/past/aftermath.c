/* SPDX-License-Identifier: Apache-2.0 */
#include "host/past/aftermath.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/stop.h"
#include "host/past/history.h"
#include "host/past/snapshot.h"
#include "host/session/host.h"
#include "host/session/op.h"
#include "host/session/record.h"
#include "host/store/diff.h"

enum {
    BATCH = 256,
};

/* One snapshot, as values for the worker. */
struct subject {
    char session_id[CAY_ID_SIZE];
    char name[CAY_ID_SIZE];
    char store_id[CAY_STORE_ID_SIZE];
    char parent_id[CAY_STORE_ID_SIZE]; /* of its parent; of the session when that is the base */
    bool is_parent_base;
    bool is_counted;
    struct cay_v1_change_counts changes;
    int64_t total_bytes; /* 0: could not be measured */
};

struct batch {
    struct cay_job job;
    struct cay_host *host;
    struct subject *subjects;
    size_t count;
    bool is_synced;
    bool has_more;
};

/* The answer for the snapshots of one session, inside its gate. */
struct record_op {
    struct cay_op op;
    struct subject *subjects; /* its own copy */
    size_t count;
    bool is_synced;
    struct cay_snapshot_record *records; /* of those that are still there */
    size_t *places;                      /* in `subjects` */
    size_t record_count;
};

static bool on_change(void *context, const struct cay_diff_entry *change)
{
    struct cay_v1_change_counts *changes = context;
    if (change->kind == CAY_DIFF_ADDED)
        changes->added++;
    else if (change->kind == CAY_DIFF_DELETED)
        changes->deleted++;
    else
        changes->modified++;
    return true;
}

static void work(struct cay_job *job)
{
    struct batch *self = CAY_CONTAINER_OF(job, struct batch, job);
    struct cay_error err = {};
    self->is_synced = cay_store_sync(self->host->store, &err);
    if (!self->is_synced)
        cay_log(CAY_WARN, "snapshots.sync_failed", CAY_ERR(&err));
    (void)cay_stop_watch(&self->host->is_ending);
    for (size_t i = 0; i < self->count && !cay_stop_asked(); i++) {
        struct subject *subject = &self->subjects[i];
        const struct cay_diff_request request = {
            .from.origin = subject->is_parent_base ? subject->parent_id : NULL,
            .from.snapshot = subject->is_parent_base ? NULL : subject->parent_id,
            .to.snapshot = subject->store_id,
            .visit = on_change,
            .ctx = &subject->changes,
        };
        struct cay_diff_stats stats = {};
        struct cay_error gone = {}; /* it was deleted meanwhile */
        subject->is_counted = cay_store_diff(self->host->store, &request, &stats, &gone);
        struct cay_point point = {};
        memcpy(point.store_id, subject->store_id, sizeof(point.store_id));
        subject->total_bytes = cay_history_measure(self->host->store, &point).total_bytes;
    }
    (void)cay_stop_watch(NULL);
}

static struct cay_v1_snapshot spec_of(const struct record_op *self, struct subject *subject,
                                      const struct cay_snapshot *snapshot)
{
    struct cay_v1_snapshot spec = *snapshot->spec;
    spec.durable = spec.durable || self->is_synced;
    if (subject->is_counted)
        spec.changes = &subject->changes;
    if (subject->total_bytes)
        spec.total_bytes = subject->total_bytes;
    return spec;
}

static struct cay_snapshot *find(const struct cay_session *session, const struct subject *subject)
{
    struct cay_snapshot *snapshot = cay_session_snapshot(session, cay_str(subject->name));
    return snapshot && strcmp(snapshot->store_id, subject->store_id) == 0 ? snapshot : NULL;
}

static bool record_begin(struct cay_op *op, struct cay_error *err)
{
    struct record_op *self = CAY_CONTAINER_OF(op, struct record_op, op);
    self->records = cay_realloc_array(NULL, self->count, sizeof(*self->records));
    self->places = cay_realloc_array(NULL, self->count, sizeof(*self->places));
    if (op->session->is_gone) /* while this waited at the gate; its records went with it */
        return true;
    for (size_t i = 0; i < self->count; i++) {
        struct subject *subject = &self->subjects[i];
        const struct cay_snapshot *snapshot = find(op->session, subject);
        if (!snapshot)
            continue;
        const struct cay_snapshot *parent = snapshot->parent;
        /* Its parent may have been pruned meanwhile: then this is not what was counted. */
        if (subject->is_parent_base ? parent != NULL
                                    : !parent || strcmp(parent->store_id, subject->parent_id) != 0)
            subject->is_counted = false;
        const struct cay_v1_snapshot spec = spec_of(self, subject, snapshot);
        self->places[self->record_count] = i;
        if (!cay_snapshot_record_take(&self->records[self->record_count++], op->session, snapshot,
                                      &spec, err))
            return false;
    }
    return true;
}

static bool record_work(struct cay_op *op, struct cay_error *err)
{
    struct record_op *self = CAY_CONTAINER_OF(op, struct record_op, op);
    struct cay_db *db = op->host->db;
    if (!self->record_count)
        return true;
    bool is_good = cay_db_transaction_begin_durable(db, err);
    if (!is_good)
        return false;
    for (size_t i = 0; i < self->record_count && is_good; i++)
        is_good = cay_snapshot_record_put(db, &self->records[i], err);
    return cay_db_transaction_end(db, is_good, err);
}

static void record_end(struct cay_op *op)
{
    struct record_op *self = CAY_CONTAINER_OF(op, struct record_op, op);
    for (size_t i = 0; i < self->record_count; i++) {
        struct subject *subject = &self->subjects[self->places[i]];
        struct cay_snapshot *snapshot = find(op->session, subject);
        if (op->is_done && snapshot) {
            const struct cay_v1_snapshot spec = spec_of(self, subject, snapshot);
            cay_snapshot_set_spec(op->session, snapshot, &spec);
            snapshot->is_looked_after = subject->is_counted;
        }
        cay_snapshot_record_finish(&self->records[i]);
    }
    if (!op->is_done)
        cay_log(CAY_WARN, "snapshots.record_failed", CAY_ERR(&op->err));
    cay_op_leave(op);
    free(self->records);
    free(self->places);
    free(self->subjects);
    free(self);
}

static const struct cay_op_steps record_steps = {
    .begin = record_begin, .work = record_work, .end = record_end};

/* Shared: everybody else who writes records of snapshots passes the gate alone. */
static void record(const struct batch *batch, size_t first, size_t count)
{
    struct cay_session *session =
        cay_map_get(&batch->host->sessions.by_id, cay_str(batch->subjects[first].session_id));
    if (!session)
        return;
    struct record_op *self = cay_new(struct record_op);
    self->is_synced = batch->is_synced;
    self->subjects = cay_realloc_array(NULL, count, sizeof(*self->subjects));
    memcpy(self->subjects, batch->subjects + first, count * sizeof(*self->subjects));
    self->count = count;
    cay_op_start_on(&self->op, session, NULL, CAY_VERB_LOOK, false, &record_steps);
}

static void done(struct cay_job *job)
{
    struct batch *self = CAY_CONTAINER_OF(job, struct batch, job);
    struct cay_host *host = self->host;
    /* A daemon that ends leaves it to the next one. */
    size_t count = atomic_load(&host->is_stopping) ? 0 : self->count;
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count; end++) {
            if (strcmp(self->subjects[end].session_id, self->subjects[i].session_id) != 0)
                break;
        }
        record(self, i, end - i);
    }
    if (self->has_more)
        cay_snapshots_look_after(host);
    free(self->subjects);
    free(self);
}

static void add(struct batch *self, const struct cay_session *session,
                struct cay_snapshot *snapshot)
{
    const struct cay_snapshot *parent = snapshot->parent;
    struct subject *subject = &self->subjects[self->count++];
    *subject = (struct subject){.is_parent_base = !parent};
    memcpy(subject->session_id, session->id, sizeof(subject->session_id));
    memcpy(subject->name, snapshot->name, sizeof(subject->name));
    memcpy(subject->store_id, snapshot->store_id, sizeof(subject->store_id));
    memcpy(subject->parent_id, parent ? parent->store_id : session->store_id,
           sizeof(subject->parent_id));
    snapshot->is_looked_after = true;
}

static void on_timer(struct cay_timer *timer)
{
    struct cay_host *host = CAY_CONTAINER_OF(timer, struct cay_host, aftermath);
    host->is_aftermath_due = false;
    struct batch *self = cay_new(struct batch);
    self->host = host;
    self->job.work = work;
    self->job.done = done;
    self->subjects = cay_realloc_array(NULL, BATCH, sizeof(*self->subjects));
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table) {
        bool is_there = !session->is_gone && session->state != CAY_SESSION_DESTROYING;
        cay_list_for_each (struct cay_snapshot, snapshot, &session->snapshots, in_session) {
            if (!is_there || snapshot->is_looked_after ||
                (snapshot->spec->durable && snapshot->spec->changes && snapshot->spec->total_bytes))
                continue;
            self->has_more = self->count == BATCH;
            if (!self->has_more)
                add(self, session, snapshot);
        }
    }
    if (self->count && cay_loop_try_submit(host->loop, &self->job))
        return;
    free(self->subjects);
    free(self);
}

void cay_aftermath_start(struct cay_host *host)
{
    cay_timer_open(&host->aftermath, host->loop, on_timer);
}

void cay_aftermath_stop(struct cay_host *host)
{
    cay_timer_close(&host->aftermath);
}

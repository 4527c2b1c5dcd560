/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/noun.h"
#include "base/log.h"
#include "base/stop.h"
#include "host/live/live.h"
#include "host/owner/account.h"
#include "host/owner/passing.h"
#include "host/past/point.h"
#include "host/session/host.h"
#include "host/session/tidy.h"
#include "host/transfer/export.h"
#include "host/transfer/verbs.h"
#include "tool/tree/path.h"

/*
 * ExportSession. Alone in the gate only for the instant in which the live files become a point;
 * that is recorded as pending, so that a daemon killed at any time forgets it. Then a worker packs
 * into a file without a name, and the loop sends what is there as fast as the reader takes it: a
 * slow reader holds no worker and no session.
 */

enum {
    PIECE_BYTES = 512 * 1024,
    LEVEL_MAX = 19,
};

struct export_op {
    struct cay_op op;
    struct cay_call *call;
    struct cay_host *host;
    struct cay_pointing pointing;
    struct cay_snapshot_record live;
    struct cay_session_record session;
    bool is_pointed;
    bool is_switch_broken;
    struct cay_error switch_err;

    struct cay_export export;
    int64_t estimated_bytes;
    struct cay_job pack_job;
    struct cay_job piece_job;
    struct cay_task more; /* posted by the packer */
    atomic_bool is_posted;
    bool is_abandoned; /* watched by the packer */
    struct cay_passing passing;
    char *piece;
    ssize_t piece_len;
    uint64_t sent;
    bool is_packing;
    bool is_reading;
    bool is_sending;                /* a send may cancel the call from inside */
    bool is_full;                   /* the peer has enough for now */
    struct cay_session *packed_for; /* held while the packer is at work, in its lane */
    bool is_packed;                 /* and all went well */
    struct cay_error pack_err;      /* the packer's until it is done; so with the next */
    struct cay_error take_err;      /* there is no room for more */
    struct cay_error err;
};

static void export_free(struct export_op *self)
{
    cay_export_finish(&self->export);
    cay_snapshot_record_finish(&self->live);
    cay_session_record_finish(&self->session);
    cay_passing_end(&self->passing);
    free(self->piece);
    free(self);
}

static bool export_begin(struct cay_op *op, struct cay_error *err)
{
    struct export_op *self = CAY_CONTAINER_OF(op, struct export_op, op);
    struct cay_session *session = op->session;
    struct cay_snapshot_record *live = &self->live;
    if (!cay_export_plan(&self->export, session, op->call->request, err))
        return false;
    if (!self->export.live_store_id[0])
        return true;
    if (!cay_session_has_files(session, err))
        return false;
    memcpy(live->session_id, session->id, sizeof(live->session_id));
    memcpy(live->store_id, self->export.live_store_id, sizeof(live->store_id));
    snprintf(live->name, sizeof(live->name), "export-%s", live->store_id);
    live->is_pending = true;
    live->created_ns = cay_clock_wall_ns();
    cay_buf_init(&live->spec, CAY_LIMIT_MESSAGE_BYTES);
    cay_session_record_take(&self->session, session);
    cay_pointing_init(&self->pointing, session);
    return true;
}

static bool point_live(struct export_op *self, struct cay_error *err)
{
    struct cay_host *host = self->host;
    struct cay_pointing *pointing = &self->pointing;
    if (!cay_snapshot_record_put(host->db, &self->live, err) || !cay_pointing_freeze(pointing, err))
        return false;
    const struct cay_store_snapshot_request request = {
        .session_id = pointing->store_id,
        .snapshot_id = self->live.store_id,
        .activity = pointing->activity,
        .owner = pointing->is_mounted ? &pointing->owner : NULL,
        .previous_id = pointing->head_store_id,
    };
    self->is_pointed = cay_store_snapshot(host->store, &request, &pointing->point, err);
    cay_pointing_thaw(pointing);
    if (!self->is_pointed)
        return false;
    self->is_switch_broken = !cay_pointing_switch(pointing, &self->switch_err);
    /* A daemon that dies from here on must know the root again. */
    self->session.generation = pointing->point.generation;
    return cay_session_record_put(host->db, &self->session, err);
}

static void forget_live(struct export_op *self)
{
    struct cay_error err = {};
    if (!self->live.store_id[0])
        return;
    if (!cay_store_delete_snapshot(self->host->store, self->live.store_id, &err) ||
        !cay_snapshot_record_delete(self->host->db, self->live.session_id, self->live.name, &err))
        cay_log(CAY_WARN, "export.undo_failed", CAY_S("session", self->live.session_id),
                CAY_ERR(&err));
}

static bool export_work(struct cay_op *op, struct cay_error *err)
{
    struct export_op *self = CAY_CONTAINER_OF(op, struct export_op, op);
    bool is_good = cay_passing_open(&self->passing, "the export", err);
    cay_op_watch(op);
    is_good = is_good && (!self->live.store_id[0] || point_live(self, err));
    if (is_good)
        self->estimated_bytes = cay_export_estimate(&self->export);
    if (cay_op_unwatch(op, is_good, err))
        return true;
    forget_live(self);
    return cay_wrap(err, "export session '%.*s'", (int)self->export.manifest.session->id.len,
                    self->export.manifest.session->id.ptr);
}

static void pump(struct export_op *self);

/* On the packer's thread. */
static bool on_progress(void *ctx)
{
    struct export_op *self = ctx;
    uint64_t written = atomic_load(&self->export.pack.bytes);
    if (written && !atomic_exchange(&self->is_posted, true))
        cay_loop_post(self->host->loop, &self->more);
    return cay_passing_take(&self->passing, (int64_t)written - self->passing.claim.taken_bytes,
                            "the export", &self->take_err) &&
           !cay_stop_asked();
}

static void on_more(struct cay_task *task)
{
    struct export_op *self = CAY_CONTAINER_OF(task, struct export_op, more);
    atomic_store(&self->is_posted, false);
    cay_disk_claim_again(&self->passing.claim, self->host);
    pump(self);
}

static void pack_work(struct cay_job *job)
{
    struct export_op *self = CAY_CONTAINER_OF(job, struct export_op, pack_job);
    (void)cay_stop_watch(&self->is_abandoned);
    self->is_packed =
        cay_export_write(&self->export, self->passing.fd, on_progress, self, &self->pack_err);
    (void)cay_stop_watch(NULL);
    if (self->take_err.reason)
        self->pack_err = self->take_err;
    forget_live(self);
    /* Of the names of a large base, which this thread's part of the heap would keep. */
    (void)malloc_trim(0);
}

static void pack_done(struct cay_job *job)
{
    struct export_op *self = CAY_CONTAINER_OF(job, struct export_op, pack_job);
    struct cay_session *session = cay_take_ptr(self->packed_for);
    self->is_packing = false;
    cay_session_unref(session);
    if (!self->is_packed && !self->err.reason)
        self->err = self->pack_err;
    cay_host_collect_soon(self->host);
    pump(self);
}

static void piece_work(struct cay_job *job)
{
    struct export_op *self = CAY_CONTAINER_OF(job, struct export_op, piece_job);
    uint64_t left = atomic_load(&self->export.pack.bytes) - self->sent;
    self->piece_len = pread(self->passing.fd, self->piece,
                            (size_t)CAY_MIN(left, (uint64_t)PIECE_BYTES), (off_t)self->sent);
    if (self->piece_len <= 0)
        self->piece_len = self->piece_len < 0 ? -errno : -EIO;
}

static void send_frame(struct export_op *self, const struct cay_v1_export_session_response *frame)
{
    self->is_sending = true;
    if (!cay_call_send(self->call, frame))
        self->is_full = true;
    self->is_sending = false;
}

static void piece_done(struct cay_job *job)
{
    struct export_op *self = CAY_CONTAINER_OF(job, struct export_op, piece_job);
    self->is_reading = false;
    if (self->piece_len < 0) {
        cay_stop_ask(&self->is_abandoned);
        cay_fail_errno(&self->err, CAY_R_INTERNAL, (int)self->piece_len, "read the export");
    } else if (!self->call->is_cancelled) {
        const struct cay_v1_export_session_response frame = {
            .which_frame = CAY_V1_EXPORT_SESSION_RESPONSE_FRAME_DATA,
            .frame.data = {self->piece, (size_t)self->piece_len},
        };
        self->sent += (uint64_t)self->piece_len;
        send_frame(self, &frame);
    }
    pump(self);
}

static void finish(struct export_op *self)
{
    struct cay_call *call = self->call;
    struct cay_error err = self->err;
    bool is_good = self->is_packed && !err.reason && !call->is_cancelled;
    if (is_good) {
        struct cay_v1_export_summary summary = {
            .bytes = (int64_t)self->sent,
            .sha256 = cay_str(self->export.sha256),
            .left_out = (int64_t)self->export.left_out,
            .left_out_path = cay_path_text(&call->arena, cay_str(self->export.left_out_first)),
        };
        const struct cay_v1_export_session_response frame = {
            .which_frame = CAY_V1_EXPORT_SESSION_RESPONSE_FRAME_SUMMARY,
            .frame.summary = &summary,
        };
        send_frame(self, &frame);
        is_good = !call->is_cancelled;
    }
    if (!is_good && !err.reason)
        cay_fail(&err, CAY_R_CANCELED, NULL);
    export_free(self);
    if (is_good)
        cay_call_done(call, NULL);
    else
        cay_call_fail(call, &err);
}

/* The one place that decides what is next; called whenever something has changed. */
static void pump(struct export_op *self)
{
    if (self->is_sending || self->is_reading)
        return;
    bool is_over = self->call->is_cancelled || self->err.reason;
    if (is_over)
        cay_stop_ask(&self->is_abandoned);
    bool has_more = !is_over && self->sent < atomic_load(&self->export.pack.bytes);
    if (has_more) {
        if (!self->is_full) {
            self->is_reading = true;
            cay_loop_submit(self->host->loop, &self->piece_job);
        }
        return;
    }
    if (!self->is_packing && !atomic_load(&self->is_posted))
        finish(self);
}

static void on_room(struct cay_call *call)
{
    struct export_op *self = call->state;
    self->is_full = false;
    if (!self->op.session) /* all of a connection hear of it, also who waits at the gate */
        pump(self);
}

static void on_cancel(struct cay_call *call)
{
    struct export_op *self = call->state;
    cay_stop_ask(&self->is_abandoned);
    if (!self->op.session)
        pump(self);
}

static void settle(struct export_op *self, struct cay_session *session)
{
    if (!self->is_pointed) {
        cay_pointing_settle(&self->pointing, session);
        return;
    }
    cay_pointing_install(&self->pointing, session);
    if (session->live && self->pointing.frozen_ns)
        cay_live_skip_clock(session->live, self->pointing.frozen_ns);
    if (self->is_switch_broken)
        cay_live_lost(session, &self->switch_err);
}

static void export_end(struct cay_op *op)
{
    struct export_op *self = CAY_CONTAINER_OF(op, struct export_op, op);
    struct cay_call *call = op->call;
    bool is_done = op->is_done;
    struct cay_session *session = op->session;
    if (session && self->live.store_id[0])
        settle(self, session);
    if (is_done)
        cay_session_ref(session); /* it is not freed while the packer is at work */
    cay_op_leave(op);
    if (!is_done) {
        struct cay_error err = op->err;
        export_free(self);
        cay_call_fail(call, &err);
        return;
    }
    struct cay_v1_export_info info = {
        .session = self->export.manifest.session,
        .snapshot_count = (int64_t)self->export.manifest.point_count,
        .since = self->export.manifest.since,
        .estimated_bytes = self->estimated_bytes,
        .format_version = CAY_EXPORT_VERSION,
    };
    const struct cay_v1_export_session_response frame = {
        .which_frame = CAY_V1_EXPORT_SESSION_RESPONSE_FRAME_INFO, .frame.info = &info};
    self->piece = cay_alloc(PIECE_BYTES);
    self->is_packing = true;
    self->packed_for = session;
    self->pack_job.lane = &session->search_lane;
    cay_loop_submit(self->host->loop, &self->pack_job);
    if (!call->is_cancelled)
        send_frame(self, &frame);
    pump(self);
}

static const struct cay_op_steps export_steps = {
    .begin = export_begin,
    .work = export_work,
    .end = export_end,
};

void cay_host_export_session(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_export_session_request *request = call->request;
    struct cay_error err = {};
    if (request->compression_level < 0 || request->compression_level > LEVEL_MAX) {
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "compression_level must be 1 to %d", LEVEL_MAX);
        cay_call_fail(call, &err);
        return;
    }
    struct export_op *self = cay_new(struct export_op);
    self->call = call;
    self->host = cay_host_of(service);
    cay_passing_begin(&self->passing, self->host, &call->caller,
                      cay_account_of(self->host, call->caller.owner));
    self->pack_job.work = pack_work;
    self->pack_job.done = pack_done;
    self->piece_job.work = piece_work;
    self->piece_job.done = piece_done;
    self->piece_job.lane = &cay_account_of(self->host, call->caller.owner)->lane;
    self->more.run = on_more;
    call->state = self;
    call->on_room = on_room;
    call->on_cancel = on_cancel;
    cay_op_start(&self->op, self->host, call, request->session_id, CAY_VERB_EXPORT, true,
                 &export_steps);
}

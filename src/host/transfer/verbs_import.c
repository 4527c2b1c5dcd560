/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/noun.h"
#include "base/id.h"
#include "base/log.h"
#include "base/stop.h"
#include "host/life/deadline.h"
#include "host/life/tokens.h"
#include "host/life/verbs_session.h"
#include "host/live/live.h"
#include "host/live/watching.h"
#include "host/owner/account.h"
#include "host/owner/account_quota.h"
#include "host/owner/passing.h"
#include "host/past/snapshot.h"
#include "host/session/endless.h"
#include "host/session/host.h"
#include "host/session/op.h"
#include "host/session/request.h"
#include "host/session/tidy.h"
#include "host/transfer/import.h"
#include "host/transfer/verbs.h"
#include "sys/sha256.h"

/*
 * ImportSession. The stream is kept in a file without a name until it is whole and has the digest
 * it should; a client that is slow or leaves holds nothing but that.
 */

#define STREAM_BYTES_MAX ((uint64_t)128 << 30)

struct import_op {
    struct cay_op op;
    struct cay_job job; /* pieces, then the look at the head */
    struct cay_call *call;
    struct cay_host *host;
    const struct cay_v1_import_options *options; /* a copy in the call's arena */
    struct cay_import import;
    struct cay_sha256 sha;
    struct cay_str data;
    uint64_t bytes;
    struct cay_passing passing;
    bool is_begun;
    bool is_last;
    bool is_working;
    bool is_good;
    struct cay_sandbox *sandbox; /* of a session that goes on; it starts again later */
    int root_fd;
    struct cay_error err;
};

static void import_free(struct import_op *self)
{
    cay_import_finish(&self->import);
    cay_sha256_finish(&self->sha);
    cay_passing_end(&self->passing);
    free(self);
}

static void import_fail(struct import_op *self)
{
    struct cay_call *call = self->call;
    struct cay_error err = self->err;
    import_free(self);
    cay_call_fail(call, &err);
}

static bool keep_piece(struct import_op *self, struct cay_error *err)
{
    self->bytes += self->data.len;
    if (self->bytes > STREAM_BYTES_MAX)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "the stream has more than %llu bytes",
                        (unsigned long long)STREAM_BYTES_MAX);
    cay_sha256_add(&self->sha, self->data.ptr, self->data.len);
    return cay_passing_write(&self->passing, self->data, "the stream", err);
}

static bool inspect(struct import_op *self, struct cay_error *err)
{
    char sha256[CAY_SHA256_HEX_SIZE];
    if (self->passing.fd < 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the stream is empty");
    cay_sha256_end(&self->sha, sha256);
    if (self->options->sha256.len && !cay_str_is(self->options->sha256, sha256))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "sha256: the data have another one, %s",
                        sha256);
    cay_import_init(&self->import, self->host, cay_take_fd(self->passing.fd));
    return cay_import_inspect(&self->import, err);
}

static void piece_work(struct cay_job *job)
{
    struct import_op *self = CAY_CONTAINER_OF(job, struct import_op, job);
    (void)cay_stop_watch(&self->call->is_cancelled);
    cay_stop_watch_also(&self->host->is_ending);
    self->is_good = self->is_last ? inspect(self, &self->err) : keep_piece(self, &self->err);
    (void)cay_stop_watch(NULL);
}

static bool new_begin(struct cay_op *op, struct cay_error *err)
{
    struct import_op *self = CAY_CONTAINER_OF(op, struct import_op, op);
    return cay_session_take_slot(op->session, err) &&
           cay_import_plan_records(&self->import, op->session, self->call, err);
}

static bool apply_work(struct cay_op *op, struct cay_error *err)
{
    struct import_op *self = CAY_CONTAINER_OF(op, struct import_op, op);
    struct cay_error ignored = {};
    if (self->sandbox)
        (void)cay_sandbox_destroy(cay_take_ptr(self->sandbox), &ignored);
    if (self->root_fd >= 0)
        close(cay_take_fd(self->root_fd));
    cay_op_watch(op);
    cay_stop_watch_also(&self->host->is_ending);
    return cay_op_unwatch(op, cay_import_apply(&self->import, err), err);
}

static void answer(struct import_op *self, struct cay_session *session)
{
    struct cay_call *call = self->call;
    struct cay_v1_import_session_response response = {
        .session = cay_session_message(session, &call->arena),
        .tokens = cay_session_tokens(session, &call->arena),
        .snapshot_count = (int64_t)self->import.snapshot_count,
        .bytes = (int64_t)self->bytes,
    };
    cay_log(CAY_INFO, "session.imported", CAY_S("session", session->id),
            CAY_S("owner", session->owner));
    import_free(self);
    cay_call_done(call, &response);
}

static void new_end(struct cay_op *op)
{
    struct import_op *self = CAY_CONTAINER_OF(op, struct import_op, op);
    struct cay_session *session = op->session;
    struct cay_error ignored = {};
    cay_host_collect_soon(self->host);
    if (!op->is_done) {
        self->err = op->err;
        cay_session_forget(session);
        cay_op_leave(op);
        import_fail(self);
        return;
    }
    cay_import_install(&self->import, session);
    (void)cay_session_step(session, CAY_VERB_CREATED, &ignored);
    cay_deadline_set(session);
    cay_session_ref(session); /* till the answer */
    cay_op_leave(op);
    answer(self, session);
    cay_session_unref(session);
}

static const struct cay_op_steps new_steps = {
    .begin = new_begin,
    .work = apply_work,
    .end = new_end,
};

static bool plan_new(struct import_op *self, struct cay_session **out_session,
                     struct cay_error *err)
{
    struct cay_host *host = self->host;
    const struct cay_v1_import_options *options = self->options;
    struct cay_str wanted = options->session_id;
    struct cay_v1_session spec;
    char id[CAY_ID_SIZE];
    /* The exported one's, if it is free here. */
    struct cay_str exported = self->import.manifest.session->id;
    if (!wanted.len && cay_id_valid(exported) && !cay_map_get(&host->sessions.by_id, exported))
        wanted = exported;
    if (!cay_session_choose_id(host, wanted, id, sizeof(id), err) ||
        !cay_session_check_room(host, 1, err))
        return false;
    if (cay_map_get(&host->sessions.by_id, cay_str(id)))
        return cay_fail(err, CAY_R_SESSION_EXISTS, "the name '%s' is taken; choose another one",
                        id);
    if (!cay_import_plan_spec(&self->import, self->call, options, &spec, err) ||
        !cay_quotas_check_sessions(host, &self->call->caller, self->call->caller.owner, spec.limits,
                                   1, NULL, err))
        return false;
    *out_session = cay_session_new(host, id, self->call->caller.owner);
    cay_session_set_spec(*out_session, &spec);
    cay_store_new_id((*out_session)->store_id);
    return true;
}

/* Every session has a turn-0001; what is put onto another one's is a mixture of both. */
static bool is_same_time(const struct google_protobuf_timestamp *told,
                         const struct google_protobuf_timestamp *here)
{
    return !told || (here && told->seconds == here->seconds && told->nanos == here->nanos);
}

static bool existing_begin(struct cay_op *op, struct cay_error *err)
{
    struct import_op *self = CAY_CONTAINER_OF(op, struct import_op, op);
    struct cay_import *import = &self->import;
    struct cay_session *session = op->session;
    struct cay_str since = import->manifest.since;
    const struct cay_snapshot *snapshot = cay_session_snapshot(session, since);
    if (!since.len)
        return cay_fail(err, CAY_R_FAILED_PRECONDITION,
                        "the stream holds a whole session and continues none; import it as a "
                        "session of its own");
    if (!snapshot || strcmp(session->head, snapshot->name) != 0)
        return cay_fail(
            err, snapshot ? CAY_R_FAILED_PRECONDITION : CAY_R_SNAPSHOT_NOT_FOUND,
            "session '%s' does not stand on snapshot '%.*s', which the stream continues",
            session->id, (int)since.len, since.ptr);
    if (!is_same_time(import->manifest.since_time, snapshot->spec->created_at))
        return cay_fail(err, CAY_R_FAILED_PRECONDITION,
                        "snapshot '%s' of session '%s' is not the one that the stream continues: "
                        "it was taken at another time",
                        snapshot->name, session->id);
    if (session->live && !cay_live_is_quiet(session->live))
        return cay_fail(err, CAY_R_TOOLS_IN_FLIGHT, "commands run in session '%s'; end them first",
                        session->id);
    import->is_existing = true;
    import->owner = (struct cay_store_owner){
        .id_base = cay_session_uid_base(session),
        .id_count = CAY_SESSION_ID_COUNT,
        .userns_fd = -1,
    };
    memcpy(import->since_store_id, snapshot->store_id, CAY_STORE_ID_SIZE);
    if (!cay_import_plan_records(import, session, self->call, err))
        return false;
    struct cay_snapshot_record *live = &import->live;
    cay_store_new_id(live->store_id);
    memcpy(live->session_id, session->id, sizeof(live->session_id));
    snprintf(live->name, sizeof(live->name), "import-%s", live->store_id);
    live->is_pending = true;
    live->created_ns = cay_clock_wall_ns();
    struct cay_v1_snapshot spec = {
        .name = cay_str(live->name),
        .kind = CAY_V1_SNAPSHOT_KIND_NAMED,
        .parent = import->manifest.head,
        .message = CAY_STR("live files of an import"),
        .created_at = cay_noun_time(&self->call->arena, live->created_ns),
    };
    if (!cay_snapshot_record_set_spec(live, &spec, err))
        return false;
    if (session->live)
        self->sandbox = cay_live_close(session, CAY_R_ROLLBACK_IN_PROGRESS);
    cay_fail(err, CAY_R_ROLLBACK_IN_PROGRESS, NULL);
    cay_watching_end(session, err);
    *err = (struct cay_error){};
    self->root_fd = cay_take_fd(session->root_fd);
    return true;
}

static void existing_end(struct cay_op *op)
{
    struct import_op *self = CAY_CONTAINER_OF(op, struct import_op, op);
    struct cay_session *session = op->session;
    cay_host_collect_soon(self->host);
    if (!op->is_done) {
        self->err = op->err;
        cay_op_leave(op);
        import_fail(self);
        return;
    }
    cay_import_install(&self->import, session);
    cay_session_ref(session);
    cay_op_leave(op);
    answer(self, session);
    cay_session_unref(session);
}

static const struct cay_op_steps existing_steps = {
    .begin = existing_begin,
    .work = apply_work,
    .end = existing_end,
};

static void start_apply(struct import_op *self)
{
    struct cay_session *session = NULL;
    self->is_working = true;
    cay_passing_end(&self->passing); /* what it holds is about to be the session's */
    if (self->options->into_existing) {
        cay_op_start(&self->op, self->host, self->call, self->options->session_id,
                     CAY_VERB_ROLLBACK, true, &existing_steps);
        return;
    }
    if (!plan_new(self, &session, &self->err)) {
        import_fail(self);
        return;
    }
    cay_op_start_on(&self->op, session, self->call, CAY_VERB_CREATED, true, &new_steps);
}

static void piece_done(struct cay_job *job)
{
    struct import_op *self = CAY_CONTAINER_OF(job, struct import_op, job);
    self->is_working = false;
    if (self->is_good && self->call->is_cancelled)
        self->is_good = cay_fail(&self->err, CAY_R_CANCELED, NULL);
    if (!self->is_good)
        import_fail(self);
    else if (self->is_last)
        start_apply(self);
    else
        cay_call_next(self->call);
}

static bool take_options(struct import_op *self,
                         const struct cay_v1_import_session_request *request, struct cay_error *err)
{
    if (!request || request->which_frame != CAY_V1_IMPORT_SESSION_REQUEST_FRAME_OPTIONS)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the first message must carry options");
    const struct cay_v1_import_options *options =
        cay_noun_copy(&cay_v1_import_options_desc, request->frame.options, &self->call->arena);
    struct cay_session *session = NULL;
    if (!options)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    self->options = options;
    if (options->sha256.len && !cay_sha256_is_hex(options->sha256))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "sha256: 64 lower-case hex digits");
    if (options->session_id.len && !cay_id_check(options->session_id, "session_id", err))
        return false;
    if (options->into_existing)
        return cay_session_check(self->host, self->call, options->session_id, CAY_VERB_ROLLBACK,
                                 &session, err);
    return cay_check_labels(options->labels, err) && cay_check_lifecycle(options->lifecycle, err);
}

static void on_message(struct cay_call *call, const void *message)
{
    struct import_op *self = call->state;
    const struct cay_v1_import_session_request *request = message;
    if (!self->is_begun) {
        if (!take_options(self, request, &self->err)) {
            import_fail(self);
            return;
        }
        self->is_begun = true;
        cay_call_next(call);
        return;
    }
    if (request && request->which_frame != CAY_V1_IMPORT_SESSION_REQUEST_FRAME_DATA) {
        cay_fail(&self->err, CAY_R_INVALID_ARGUMENT, "after the first message comes data only");
        import_fail(self);
        return;
    }
    self->is_last = !request;
    self->data = request ? request->frame.data : (struct cay_str){};
    self->is_working = true;
    cay_disk_claim_again(&self->passing.claim, self->host);
    cay_loop_submit(self->host->loop, &self->job);
}

static void on_cancel(struct cay_call *call)
{
    struct import_op *self = call->state;
    if (self->is_working)
        return; /* who is at work will see */
    cay_fail(&self->err, CAY_R_CANCELED, NULL);
    import_fail(self);
}

void cay_host_import_session(struct cay_service *service, struct cay_call *call)
{
    struct import_op *self = cay_new(struct import_op);
    self->call = call;
    self->host = cay_host_of(service);
    cay_passing_begin(&self->passing, self->host, &call->caller,
                      cay_account_of(self->host, call->caller.owner));
    self->root_fd = -1;
    self->import.fd = -1;
    self->job.work = piece_work;
    self->job.done = piece_done;
    self->job.lane = &cay_account_of(self->host, self->call->caller.owner)->lane;
    cay_sha256_init(&self->sha);
    call->state = self;
    call->on_message = on_message;
    call->on_cancel = on_cancel;
    cay_host_endless(self->host, call); /* its client may take any time */
    cay_call_next(call);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <unistd.h>

#include "api/limits.h"
#include "base/crash.h"
#include "host/life/wake.h"
#include "host/live/live.h"
#include "host/past/point.h"
#include "host/past/restore.h"
#include "host/past/snapshot.h"
#include "host/past/verbs.h"
#include "host/session/host.h"
#include "host/session/tell.h"
#include "tool/tree/path.h"

struct restore_op {
    struct cay_op op;
    struct cay_pointing pointing;
    struct cay_restoring restoring;
    struct cay_v1_restore_paths_request request; /* as it is written down; in the call's arena */
    struct cay_session_record session;
};

static struct restore_op *restore_of(struct cay_op *op)
{
    return CAY_CONTAINER_OF(op, struct restore_op, op);
}

/* Absolute, without `.` and `..`; links mean nothing here. */
static bool clean_path(struct cay_str cwd, struct cay_str text, struct cay_arena *arena,
                       struct cay_str *out_path, struct cay_error *err)
{
    struct cay_path path;
    struct cay_buf clean;
    if (!text.len)
        return cay_fail(err, CAY_R_INVALID_PATH, "one of the paths is empty");
    if (!cay_path_decode(text, &path, err))
        return false;
    cay_buf_init(&clean, (size_t)2 * CAY_PATH_BYTES_MAX);
    struct cay_str parts[] = {path.bytes[0] == '/' ? CAY_STR("") : cwd, {path.bytes, path.len}};
    for (size_t i = 0; i < CAY_COUNT(parts); i++) {
        struct cay_str name;
        while (cay_str_split(&parts[i], '/', &name)) {
            if (!name.len || cay_str_is(name, "."))
                continue;
            if (cay_str_is(name, "..")) {
                while (clean.len && clean.data[--clean.len] != '/')
                    ;
                continue;
            }
            cay_buf_append_byte(&clean, '/');
            cay_buf_append_str(&clean, name);
        }
    }
    if (!clean.len)
        cay_buf_append_byte(&clean, '/');
    *out_path = cay_arena_str(arena, cay_buf_str(&clean));
    bool is_good = !clean.failed && clean.len < CAY_PATH_BYTES_MAX && out_path->len;
    cay_buf_finish(&clean);
    return is_good || cay_fail(err, CAY_R_INVALID_PATH, "one of the paths is too long");
}

static bool restore_begin(struct cay_op *op, struct cay_error *err)
{
    struct restore_op *self = restore_of(op);
    struct cay_session *session = op->session;
    const struct cay_v1_restore_paths_request *request = op->call->request;
    const struct cay_snapshot *snapshot = cay_find_snapshot(session, request->snapshot, err);
    if (!snapshot)
        return false;
    self->request = *request;
    self->request.paths = (struct cay_pb_strs){
        .items = cay_arena_array(&op->call->arena, request->paths.count, sizeof(struct cay_str))};
    if (!self->request.paths.items)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    for (size_t i = 0; i < request->paths.count; i++) {
        if (!clean_path(session->spec->default_cwd, request->paths.items[i], &op->call->arena,
                        &self->request.paths.items[self->request.paths.count++], err))
            return false;
    }
    cay_pointing_init(&self->pointing, session);
    self->restoring.store = op->host->store;
    self->restoring.owner = self->pointing.owner;
    self->restoring.root_fd = session->root_fd;
    self->restoring.request = &self->request;
    self->restoring.arena = &op->call->arena;
    memcpy(self->restoring.session_id, session->store_id, CAY_STORE_ID_SIZE);
    memcpy(self->restoring.snapshot_id, snapshot->store_id, CAY_STORE_ID_SIZE);
    cay_session_record_take(&self->session, session);
    return true;
}

static bool restore(struct restore_op *self, struct cay_host *host, struct cay_error *err)
{
    struct cay_buf *intent = &self->session.restore;
    cay_op_watch(&self->op);
    if (!cay_op_unwatch(&self->op, cay_restoring_find(&self->restoring, err), err))
        return false;
    if (self->request.dry_run || !self->restoring.path_count)
        return true;
    if (cay_pb_encode(&cay_v1_restore_paths_request_desc, &self->request, intent) < 0)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    if (!cay_session_record_put(host->db, &self->session, err))
        return false;
    CAY_CRASH_POINT("restore.intended");
    cay_op_watch(&self->op);
    bool is_restored = cay_op_unwatch(&self->op, cay_restoring_apply(&self->restoring, err), err);
    /* Also after a failure, and when the caller has gone: what was put right stays, and is not
     * tried again by surprise. */
    struct cay_error record_err = {};
    CAY_CRASH_POINT("restore.applied");
    cay_buf_clear(intent, SIZE_MAX);
    bool is_recorded = cay_session_record_put(host->db, &self->session, &record_err);
    if (is_restored && !is_recorded)
        *err = record_err;
    return is_restored && is_recorded;
}

static bool restore_work(struct cay_op *op, struct cay_error *err)
{
    struct restore_op *self = restore_of(op);
    if (!cay_pointing_freeze(&self->pointing, err))
        return false;
    bool is_done = restore(self, op->host, err);
    cay_pointing_thaw(&self->pointing);
    return is_done || cay_wrap(err, "restore paths of session '%s'", self->session.id);
}

static void restore_end(struct cay_op *op)
{
    struct restore_op *self = restore_of(op);
    struct cay_session *session = op->session;
    if (session && session->live && self->pointing.frozen_ns)
        cay_live_skip_clock(session->live, self->pointing.frozen_ns);
    if (op->is_done && !self->request.dry_run)
        cay_tell(op->host, &(struct cay_happening){.type = "session.restored",
                                                   .session = session,
                                                   .call = op->call,
                                                   .snapshot = cay_arena_copy(
                                                       &op->call->arena, self->request.snapshot)});
    if (op->is_done) {
        struct cay_v1_restore_paths_response response = {
            .entries = self->restoring.entries,
            .changes = &self->restoring.counts,
        };
        cay_call_done(op->call, &response);
    } else {
        cay_call_fail(op->call, &op->err);
    }
    cay_restoring_finish(&self->restoring);
    cay_session_record_finish(&self->session);
    cay_op_leave(op);
    free(self);
}

static const struct cay_op_steps restore_steps = {
    .begin = restore_begin,
    .work = restore_work,
    .end = restore_end,
};

static void awake(struct cay_call *call, struct cay_session *session, void *,
                  const struct cay_error *err)
{
    if (err) {
        cay_call_fail(call, err);
        return;
    }
    struct restore_op *self = cay_new(struct restore_op);
    cay_restoring_init(&self->restoring);
    cay_op_start_on(&self->op, session, call, CAY_VERB_ROLLBACK, true, &restore_steps);
}

void cay_host_restore_paths(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_restore_paths_request *request = call->request;
    struct cay_session *session = NULL;
    struct cay_error err = {};
    if (!request->paths.count || request->paths.count > CAY_LIMIT_DIFF_PATHS)
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "paths must name 1 to %d", CAY_LIMIT_DIFF_PATHS);
    else
        (void)cay_session_check(cay_host_of(service), call, request->session_id, CAY_VERB_ROLLBACK,
                                &session, &err);
    if (err.reason)
        cay_call_fail(call, &err);
    else
        cay_wake(session, call, false, awake, NULL);
}

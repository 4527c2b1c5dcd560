/* SPDX-License-Identifier: Apache-2.0 */
#include "host/life/wake.h"

#include <errno.h>
#include <stdlib.h>

#include "base/crash.h"
#include "base/log.h"
#include "host/life/pause.h"
#include "host/life/start.h"
#include "host/life/waking.h"
#include "host/session/host.h"
#include "host/session/op.h"
#include "host/session/record.h"
#include "host/session/session.h"
#include "host/session/state.h"
#include "host/session/tidy.h"
#include "sys/mount.h"

struct wake_op {
    struct cay_op op;
    struct cay_waking waking;
    struct cay_session_record record;
    bool needs_sandbox;
    void (*awake)(struct cay_call *call, struct cay_session *session, void *context,
                  const struct cay_error *err);
    void *context;
};

/* A root that was taken over with its sandbox is a mount of the sandbox's own: when that is lost,
 * no other can have it, and the tree is mounted anew. Nobody else uses it now. */
static void drop_foreign_root(struct cay_session *session)
{
    if (session->root_fd < 0 || session->live)
        return;
    int copy_fd = cay_mount_clone(session->root_fd, "", false);
    if (copy_fd == -EINVAL)
        cay_host_close_later(session->host, cay_take_fd(session->root_fd));
    cay_host_close_later(session->host, copy_fd);
}

static bool wake_begin(struct cay_op *op, struct cay_error *)
{
    struct wake_op *self = CAY_CONTAINER_OF(op, struct wake_op, op);
    drop_foreign_root(op->session);
    cay_waking_init(&self->waking, op->session, self->needs_sandbox);
    cay_session_record_take(&self->record, op->session);
    return true;
}

static bool wake_work(struct cay_op *op, struct cay_error *err)
{
    struct wake_op *self = CAY_CONTAINER_OF(op, struct wake_op, op);
    struct cay_host *host = op->host;
    /* What a dead sandbox left behind must not be in the way of the new one. */
    if (self->waking.needs_sandbox &&
        !cay_runtime_remove(self->waking.runtime, self->waking.store_id, err))
        return false;
    if (!cay_waking_work(&self->waking, host, err))
        return cay_wrap(err, "wake session '%s'", self->record.id);
    if (!self->waking.sandbox)
        return true;
    CAY_CRASH_POINT("wake.started");
    cay_sandbox_describe(self->waking.sandbox, &self->record.sandbox);
    if (cay_session_record_put(host->db, &self->record, err)) {
        CAY_CRASH_POINT("wake.recorded");
        return true;
    }
    cay_waking_undo(&self->waking, host);
    return false;
}

/* A tree that the store or its disk does not have will not come back by itself. */
static bool is_tree_gone(const struct cay_error *err)
{
    return err->reason == CAY_R_SESSION_NOT_FOUND ||
           (err->reason == CAY_R_STORE_FAILED && err->sys_errno == ENOENT);
}

static void wake_end(struct cay_op *op)
{
    struct wake_op *self = CAY_CONTAINER_OF(op, struct wake_op, op);
    struct cay_session *session = op->session;
    if (op->is_done)
        cay_waking_install(&self->waking, session);
    if (op->is_done && self->waking.needs_sandbox && session->live)
        cay_start_soon(session);
    if (!op->is_done && !session->is_gone && is_tree_gone(&op->err)) {
        struct cay_error gone = {};
        cay_log(CAY_ERROR, "session.wake_failed", CAY_S("session", session->id), CAY_ERR(&op->err));
        cay_fail(&gone, CAY_R_DATA_LOSS, "its files are gone");
        cay_session_break(session, &gone);
        (void)cay_session_step(session, CAY_VERB_TOOL, &op->err); /* refused, in the words for it */
    }
    cay_session_record_finish(&self->record);
    /* Held until the caller has looked: leaving may free a session that is gone. */
    self->awake(op->call, session, self->context, op->is_done ? NULL : &op->err);
    cay_op_leave(op);
    free(self);
}

static const struct cay_op_steps wake_steps = {
    .begin = wake_begin,
    .work = wake_work,
    .end = wake_end,
};

/* A call found the session paused and may wake it; now it is active, or not to be woken. */
static void wake_resumed(struct cay_session *session, void *context, const struct cay_error *err)
{
    struct wake_op *self = context;
    if (err)
        self->awake(self->op.call, session, self->context, err);
    else
        cay_wake(session, self->op.call, self->needs_sandbox, self->awake, self->context);
    free(self);
}

void cay_wake(struct cay_session *session, struct cay_call *call, bool needs_sandbox,
              void (*awake)(struct cay_call *call, struct cay_session *session, void *context,
                            const struct cay_error *err),
              void *context)
{
    bool is_paused = session->state == CAY_SESSION_PAUSED;
    if (!is_paused && session->root_fd >= 0 && (session->live || !needs_sandbox)) {
        awake(call, session, context, NULL);
        return;
    }
    struct wake_op *self = cay_new(struct wake_op);
    self->needs_sandbox = needs_sandbox;
    self->awake = awake;
    self->context = context;
    self->op.call = call;
    if (is_paused)
        cay_resume_then(session, wake_resumed, self);
    else
        cay_op_start_on(&self->op, session, call, CAY_VERB_TOOL, true, &wake_steps);
}

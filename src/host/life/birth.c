/* SPDX-License-Identifier: Apache-2.0 */
#include "host/life/birth.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/crash.h"
#include "base/log.h"
#include "base/stop.h"
#include "host/life/cwd.h"
#include "host/life/deadline.h"
#include "host/life/start.h"
#include "host/live/network.h"
#include "host/owner/space.h"
#include "host/session/host.h"
#include "host/session/quota.h"
#include "host/session/tell.h"
#include "host/session/tidy.h"

static struct cay_birth *birth_of(struct cay_op *op)
{
    return CAY_CONTAINER_OF(op, struct cay_birth, op);
}

static bool birth_begin(struct cay_op *op, struct cay_error *err)
{
    struct cay_birth *birth = birth_of(op);
    struct cay_session *session = op->session;
    if (!session->waiting && !cay_session_take_slot(session, err))
        return false;
    cay_session_record_take(&birth->record, session);
    bool needs_sandbox = birth->waking.needs_sandbox;
    cay_waking_init(&birth->waking, session, needs_sandbox);
    birth->waking.waiting = cay_take_ptr(session->waiting);
    birth->cwd = session->spec->default_cwd; /* stays where it is: nobody else is in the gate */
    const struct cay_v1_resource_limits *limits = session->spec->limits;
    birth->disk_bytes = limits->has_disk_bytes ? limits->disk_bytes : 0;
    birth->user = session->spec->default_user;
    return true;
}

static bool make_tree(struct cay_birth *birth, struct cay_host *host, struct cay_error *err)
{
    if (birth->is_existing_tree)
        return true;
    struct cay_store_source source = {};
    if (birth->snapshot_store_id[0]) {
        source.snapshot = birth->snapshot_store_id;
    } else {
        source.base = birth->base;
    }
    return cay_store_create(host->store, birth->record.store_id, &source, err);
}

/* A base without the user that it names itself, or that is the default, can be used as somebody
 * else. */
static bool make_cwd(const struct cay_birth *birth, struct cay_error *err)
{
    struct cay_error ignored = {};
    return cay_session_make_cwd(birth->waking.root_fd, birth->waking.uid_base, birth->user,
                                birth->cwd, birth->is_user_wanted ? err : &ignored) ||
           !birth->is_user_wanted;
}

static bool birth_work(struct cay_op *op, struct cay_error *err)
{
    struct cay_birth *birth = birth_of(op);
    struct cay_host *host = op->host;
    struct cay_session_record *record = &birth->record;
    if (!cay_space_check(host, err) || !cay_session_record_put(host->db, record, err))
        return false;
    CAY_CRASH_POINT("create.intended");
    cay_op_watch(op);
    cay_stop_watch_also(&host->is_ending);
    bool is_made = cay_op_unwatch(op, make_tree(birth, host, err), err);
    CAY_CRASH_POINT("create.tree_made");
    is_made = is_made && cay_quota_set(host, record->store_id, birth->disk_bytes, err) &&
              cay_waking_work(&birth->waking, host, err);
    CAY_CRASH_POINT("create.awake");
    if (is_made && birth->base[0])
        is_made = make_cwd(birth, err);
    if (is_made && cay_network_has_names(birth->waking.network))
        cay_network_make_resolver(birth->waking.root_fd, birth->waking.uid_base);
    if (is_made) {
        record->state = CAY_SESSION_ACTIVE;
        if (birth->waking.sandbox)
            cay_sandbox_describe(birth->waking.sandbox, &record->sandbox);
        is_made = birth->is_held || cay_session_record_put(host->db, record, err);
        CAY_CRASH_POINT("create.recorded");
    }
    if (is_made)
        return true;
    struct cay_error ignored = {};
    cay_waking_undo(&birth->waking, host);
    if (!cay_store_destroy(host->store, record->store_id, &ignored) ||
        !cay_session_record_delete(host->db, record->id, &ignored))
        cay_log(CAY_WARN, "session.undo_failed", CAY_S("session", record->id), CAY_ERR(&ignored));
    return cay_wrap(err, "create session '%s'", record->id);
}

static void come_to_be(struct cay_session *session, const struct cay_call *call)
{
    struct cay_error ignored = {};
    (void)cay_session_step(session, CAY_VERB_CREATED, &ignored);
    cay_log(CAY_INFO, "session.created", CAY_S("session", session->id),
            CAY_S("owner", session->owner), CAY_S("base", session->spec->base));
    cay_deadline_set(session);
    if (session->live)
        cay_start_soon(session);
    cay_tell(session->host, &(struct cay_happening){.type = session->spec->parent_session_id.len
                                                                ? "session.forked"
                                                                : "session.created",
                                                    .session = session,
                                                    .call = call,
                                                    .fact = "base",
                                                    .value = session->spec->base});
}

static void leave(struct cay_birth *birth)
{
    cay_session_record_finish(&birth->record);
    cay_op_leave(&birth->op);
    free(birth);
}

void cay_birth_release(struct cay_birth *birth)
{
    come_to_be(birth->session, birth->call);
    leave(birth);
}

static void birth_end(struct cay_op *op)
{
    struct cay_birth *birth = birth_of(op);
    struct cay_session *session = op->session;
    birth->err = op->err;
    birth->session = session;
    if (op->is_done) {
        cay_waking_install(&birth->waking, session);
        if (!birth->is_held)
            come_to_be(session, birth->call);
        cay_host_prepare_soon(op->host);
        cay_host_spares_soon(op->host);
    } else {
        cay_waiting_drop(op->host, cay_take_ptr(birth->waking.waiting));
        cay_session_forget(session);
        birth->session = NULL;
        cay_host_collect_soon(op->host); /* what there was of its tree */
    }
    bool is_kept = op->is_done && birth->is_held;
    birth->born(birth);
    if (!is_kept)
        leave(birth);
}

static const struct cay_op_steps birth_steps = {
    .begin = birth_begin,
    .work = birth_work,
    .end = birth_end,
};

void cay_birth_name(struct cay_session *session, bool is_lazy)
{
    /* Those that wait are closed, and stay so. */
    if (!session->store_id[0] && !is_lazy && !session->spec->nesting)
        cay_reserve_take(session);
    if (!session->store_id[0])
        cay_store_new_id(session->store_id);
}

static void start_birth(struct cay_session *session, struct cay_call *call,
                        const struct cay_birth_source *source, bool is_lazy, bool is_held,
                        cay_birth_fn *born)
{
    struct cay_birth *birth = cay_new(struct cay_birth);
    birth->call = call;
    birth->is_held = is_held;
    birth->born = born;
    birth->waking.needs_sandbox = !is_lazy;
    birth->is_user_wanted = source->is_user_wanted;
    birth->is_existing_tree = !source->base && !source->snapshot_store_id;
    if (source->base)
        snprintf(birth->base, sizeof(birth->base), "%s", source->base);
    if (source->snapshot_store_id)
        snprintf(birth->snapshot_store_id, sizeof(birth->snapshot_store_id), "%s",
                 source->snapshot_store_id);
    cay_birth_name(session, is_lazy);
    cay_op_start_on(&birth->op, session, call, CAY_VERB_CREATED, true, &birth_steps);
}

void cay_birth_start(struct cay_session *session, struct cay_call *call,
                     const struct cay_birth_source *source, bool is_lazy, cay_birth_fn *born)
{
    start_birth(session, call, source, is_lazy, false, born);
}

void cay_birth_start_held(struct cay_session *session, struct cay_call *call,
                          const struct cay_birth_source *source, bool is_lazy, cay_birth_fn *born)
{
    start_birth(session, call, source, is_lazy, true, born);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/life/deadline.h"

#include <stdlib.h>

#include "api/noun.h"
#include "base/log.h"
#include "host/session/host.h"
#include "host/session/op.h"
#include "host/session/record.h"

enum {
    RETRY_MS = 1000,
    SLEEP_MS_MAX = 3'600'000, /* the wall clock may be set; look again now and then */
};

/* What is to happen next by itself. */
struct due {
    int64_t at_ns; /* wall clock; INT64_MAX: nothing */
    enum cay_v1_expiry_action action;
    const char *why;
};

static struct due next_due(const struct cay_session *session)
{
    const struct cay_v1_lifecycle *lifecycle = session->spec->lifecycle;
    struct due due = {.at_ns = INT64_MAX};
    bool is_paused = session->state == CAY_SESSION_PAUSED;
    bool is_ending = session->state == CAY_SESSION_DESTROYING; /* and it did not come to its end */
    if (!lifecycle || (session->state != CAY_SESSION_ACTIVE && !is_paused && !is_ending))
        return due;
    if (session->spec->deadline) {
        due.at_ns = cay_noun_time_ns(session->spec->deadline);
        due.action = lifecycle->on_expiry ? lifecycle->on_expiry : CAY_V1_EXPIRY_ACTION_DESTROY;
        due.why = "expired";
    }
    if (lifecycle->idle_timeout && !is_paused) {
        int64_t idle_ns =
            session->last_active_ns + cay_noun_duration_ms(lifecycle->idle_timeout) * CAY_NS_PER_MS;
        if (idle_ns < due.at_ns) {
            due.at_ns = idle_ns;
            due.action = lifecycle->on_idle ? lifecycle->on_idle : CAY_V1_EXPIRY_ACTION_PAUSE;
            due.why = "idle";
        }
    }
    if (is_ending)
        due.action = CAY_V1_EXPIRY_ACTION_DESTROY;
    /* A paused session sleeps already; only its end is still to come. */
    if (is_paused && due.action != CAY_V1_EXPIRY_ACTION_DESTROY)
        due.at_ns = INT64_MAX;
    return due;
}

static bool is_in_use(const struct cay_session *session)
{
    return session->tools_in_flight > 0 || session->ref_count > 0;
}

static void fall_due(struct cay_session *session, const struct due *due)
{
    cay_log(CAY_INFO, "session.due", CAY_S("session", session->id), CAY_S("why", due->why));
    cay_session_expire(session, due->action, due->why);
}

static void fired(struct cay_timer *timer)
{
    struct cay_session *session = CAY_CONTAINER_OF(timer, struct cay_session, deadline);
    const struct due due = next_due(session);
    int64_t now_ns = cay_clock_wall_ns();
    if (due.at_ns > now_ns)
        cay_deadline_set(session);
    else if (strcmp(due.why, "idle") == 0 && is_in_use(session))
        cay_deadline_retry(session);
    else if (session->pausing && due.action != CAY_V1_EXPIRY_ACTION_DESTROY)
        cay_deadline_retry(session); /* what waits now may still fail */
    else
        fall_due(session, &due);
}

void cay_deadline_set(struct cay_session *session)
{
    const struct due due = next_due(session);
    if (due.at_ns == INT64_MAX || session->is_gone) {
        cay_timer_close(&session->deadline);
        return;
    }
    int64_t delay_ms = (due.at_ns - cay_clock_wall_ns() + CAY_NS_PER_MS - 1) / CAY_NS_PER_MS;
    if (!session->deadline.handle)
        cay_timer_open(&session->deadline, session->host->loop, fired);
    cay_timer_start(&session->deadline, (uint64_t)CAY_MIN(CAY_MAX(delay_ms, 0), SLEEP_MS_MAX), 0);
}

void cay_deadline_retry(struct cay_session *session)
{
    if (session->is_gone || next_due(session).at_ns == INT64_MAX)
        return;
    if (!session->deadline.handle)
        cay_timer_open(&session->deadline, session->host->loop, fired);
    cay_timer_start(&session->deadline, RETRY_MS, 0);
}

struct google_protobuf_timestamp *cay_deadline_of(const struct cay_v1_lifecycle *lifecycle,
                                                  struct cay_arena *arena)
{
    if (!lifecycle || !lifecycle->timeout)
        return NULL;
    return cay_noun_time(arena, cay_clock_wall_ns() +
                                    cay_noun_duration_ms(lifecycle->timeout) * CAY_NS_PER_MS);
}

static void set_spec(struct cay_session *session, struct google_protobuf_timestamp *deadline)
{
    struct cay_v1_session spec = *session->spec;
    spec.deadline = deadline;
    cay_session_set_spec(session, &spec);
    cay_deadline_set(session);
}

void cay_deadline_renew(struct cay_session *session)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, 4096);
    set_spec(session, cay_deadline_of(session->spec->lifecycle, &arena));
}

struct write_op {
    struct cay_op op;
    struct cay_session_record record;
};

static bool write_begin(struct cay_op *op, struct cay_error *)
{
    cay_session_record_take(&CAY_CONTAINER_OF(op, struct write_op, op)->record, op->session);
    return true;
}

static bool write_work(struct cay_op *op, struct cay_error *err)
{
    return cay_session_record_put(op->host->db, &CAY_CONTAINER_OF(op, struct write_op, op)->record,
                                  err);
}

static void write_end(struct cay_op *op)
{
    struct write_op *self = CAY_CONTAINER_OF(op, struct write_op, op);
    if (!op->is_done && op->err.reason)
        cay_log(CAY_WARN, "session.record_failed", CAY_ERR(&op->err));
    cay_session_record_finish(&self->record);
    cay_op_leave(op);
    free(self);
}

static const struct cay_op_steps write_steps = {
    .begin = write_begin,
    .work = write_work,
    .end = write_end,
};

void cay_deadline_expire_in(struct cay_session *session, int64_t delay_ms, bool is_extend_only)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, 4096);
    int64_t at_ns = cay_clock_wall_ns() + delay_ms * CAY_NS_PER_MS;
    /* None is later than any. */
    if (is_extend_only &&
        (!session->spec->deadline || cay_noun_time_ns(session->spec->deadline) >= at_ns))
        return;
    set_spec(session, cay_noun_time(&arena, at_ns));
    struct write_op *self = cay_new(struct write_op);
    cay_op_start_on(&self->op, session, NULL, CAY_VERB_UPDATE, true, &write_steps);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/quota.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "host/session/host.h"
#include "host/session/live.h"
#include "host/session/op.h"

enum {
    PERIOD_MS = 2000,
    KERNEL_PERIODS = 15, /* where the kernel keeps the limit, measuring is only for telling */
};

static bool is_kept_by_kernel(const struct cay_host *host)
{
    return cay_store_caps(host->store) & CAY_STORE_KERNEL_QUOTA;
}

struct measure_op {
    struct cay_op op;
    char store_id[CAY_STORE_ID_SIZE];
    struct cay_store_usage usage;
};

static bool measure_begin(struct cay_op *op, struct cay_error *)
{
    struct measure_op *self = CAY_CONTAINER_OF(op, struct measure_op, op);
    memcpy(self->store_id, op->session->store_id, sizeof(self->store_id));
    return true;
}

static bool measure_work(struct cay_op *op, struct cay_error *err)
{
    struct measure_op *self = CAY_CONTAINER_OF(op, struct measure_op, op);
    const struct cay_store_ref ref = {.session = self->store_id};
    return cay_store_usage(op->host->store, &ref, &self->usage, err);
}

static void measure_end(struct cay_op *op)
{
    struct measure_op *self = CAY_CONTAINER_OF(op, struct measure_op, op);
    struct cay_session *session = op->session;
    if (session)
        session->is_measured = false;
    if (session && op->is_done && session->spec->limits->has_disk_bytes) {
        bool was_over = session->is_over_quota;
        session->disk_bytes = (int64_t)(self->usage.own_bytes + self->usage.history_bytes);
        session->is_over_quota =
            !is_kept_by_kernel(op->host) && session->disk_bytes > session->spec->limits->disk_bytes;
        if (session->is_over_quota && !was_over)
            cay_log(CAY_WARN, "session.over_quota", CAY_S("session", session->id),
                    CAY_I("bytes", session->disk_bytes),
                    CAY_I("limit", session->spec->limits->disk_bytes));
        if (session->is_over_quota && session->live)
            cay_live_kill_all(session->live, CAY_V1_END_CAUSE_QUOTA);
    }
    cay_op_leave(op);
    free(self);
}

static const struct cay_op_steps measure_steps = {
    .begin = measure_begin,
    .work = measure_work,
    .end = measure_end,
};

static void on_period(struct cay_timer *timer)
{
    struct cay_host *host = CAY_CONTAINER_OF(timer, struct cay_host, quota);
    if (host->quota_periods++ % KERNEL_PERIODS && is_kept_by_kernel(host))
        return;
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table) {
        bool is_due = session->state == CAY_SESSION_ACTIVE && !session->is_gone && session->live &&
                      session->spec->limits->has_disk_bytes && !session->is_measured;
        if (!is_due)
            continue;
        struct measure_op *self = cay_new(struct measure_op);
        session->is_measured = true;
        cay_op_start_on(&self->op, session, NULL, CAY_VERB_LOOK, false, &measure_steps);
    }
}

void cay_quota_start(struct cay_host *host)
{
    cay_timer_open(&host->quota, host->loop, on_period);
    cay_timer_start(&host->quota, PERIOD_MS, PERIOD_MS);
}

void cay_quota_stop(struct cay_host *host)
{
    cay_timer_close(&host->quota);
}

bool cay_quota_set(struct cay_host *host, const char *store_id, int64_t bytes_max,
                   struct cay_error *err)
{
    return !is_kept_by_kernel(host) ||
           cay_store_set_quota(host->store, store_id, (uint64_t)bytes_max, err);
}

bool cay_quota_check(const struct cay_session *session, struct cay_error *err)
{
    if (!session->is_over_quota)
        return true;
    cay_fail(err, CAY_R_QUOTA_EXCEEDED,
             "session '%s' uses %" PRId64 " bytes of its %" PRId64 "; remove files or roll back",
             session->id, session->disk_bytes, session->spec->limits->disk_bytes);
    cay_error_fact(err, "session_id", "%s", session->id);
    return cay_error_fact(err, "limit", "%" PRId64, session->spec->limits->disk_bytes);
}

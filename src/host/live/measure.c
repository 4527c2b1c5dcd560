/* SPDX-License-Identifier: Apache-2.0 */
#include "host/live/measure.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "host/live/usage.h"
#include "host/owner/held.h"
#include "host/session/host.h"
#include "host/session/op.h"
#include "host/session/quota.h"
#include "host/session/session.h"
#include "host/session/state.h"
#include "sys/hidden_files.h"

enum {
    TICK_MS = 250,
    PERIOD_MS = 2000,
    UNLIMITED_PERIOD_MS = 30'000,
    FILL_BYTES_PER_MS = 1 << 20, /* the rate of a writer that has to be caught */
    FILL_FILES_PER_MS = 100,
    COST_FACTOR = 4, /* times what a look takes, there is no other */
    LOOKS_AT_ONCE = 4,
    IN_FLIGHT_MS = 1000,
};

struct cay_measuring {
    struct cay_host *host;
    struct cay_timer timer;
    unsigned looks; /* under way */
};

struct measure_op {
    struct cay_op op;
    struct cay_session_trees trees;
    int group_fd;      /* of its processes, or -1 */
    dev_t dev;         /* of its tree */
    struct stat *held; /* what readers have open of it */
    size_t held_count;
    bool may_skip;
    bool is_skipped; /* nobody ran since the last look */
    uint64_t cpu_usec;
    struct cay_store_usage usage;
    struct cay_hidden_files hidden;
    uint64_t took_ms;
};

static bool measure_begin(struct cay_op *op, struct cay_error *)
{
    struct measure_op *self = CAY_CONTAINER_OF(op, struct measure_op, op);
    struct cay_session *session = op->session;
    const struct cay_sandbox *sandbox = session->sandbox;
    struct stat root;
    cay_session_trees_copy(session, &self->trees);
    self->held = cay_held_look(session, &self->held_count);
    self->may_skip =
        !session->quota.is_dirty && !session->quota.is_over && !session->quota.in_flight_ms;
    self->cpu_usec = session->quota.cpu_usec;
    session->quota.is_dirty = false;
    if (sandbox && session->root_fd >= 0 && fstat(session->root_fd, &root) == 0) {
        self->group_fd = cay_sandbox_group(sandbox);
        self->dev = root.st_dev;
    }
    return true;
}

static bool measure_work(struct cay_op *op, struct cay_error *err)
{
    struct measure_op *self = CAY_CONTAINER_OF(op, struct measure_op, op);
    int64_t started_ns = cay_clock_ns();
    uint64_t cpu_usec = 0;
    bool is_known = self->group_fd >= 0 && cay_hidden_files_cpu(self->group_fd, &cpu_usec);
    self->is_skipped = is_known && self->may_skip && cpu_usec == self->cpu_usec;
    self->cpu_usec = cpu_usec;
    if (self->is_skipped)
        return true;
    bool is_done = cay_session_trees_measure(op->host->store, &self->trees, &self->usage, err);
    if (is_done)
        (void)cay_hidden_files_look(self->group_fd, self->dev, self->held, self->held_count,
                                    &self->hidden);
    self->took_ms = (uint64_t)(cay_clock_ns() - started_ns) / 1'000'000;
    return is_done;
}

/* How long it takes to fill what is left, at the rate that has to be caught. */
static uint64_t until_full_ms(const struct cay_session *session)
{
    const struct cay_v1_resource_limits *limits = session->spec->limits;
    const struct cay_quota *quota = &session->quota;
    int64_t bytes = limits->has_disk_bytes ? limits->disk_bytes - quota->bytes : INT64_MAX;
    int64_t files = limits->has_inodes ? limits->inodes - quota->files : INT64_MAX;
    return (uint64_t)CAY_MAX(CAY_MIN(bytes / FILL_BYTES_PER_MS, files / FILL_FILES_PER_MS),
                             (int64_t)0);
}

static uint64_t next_look_ms(const struct cay_session *session, uint64_t took_ms)
{
    uint64_t wait_ms = cay_quota_is_limited(session)
                           ? CAY_MIN(until_full_ms(session), (uint64_t)PERIOD_MS)
                           : (uint64_t)UNLIMITED_PERIOD_MS;
    return cay_loop_now_ms(session->host->loop) + CAY_MAX(wait_ms, COST_FACTOR * took_ms);
}

/* Descriptors that were sent and not received hide what they hold. A moment of that is how programs
 * talk; more is not counted, so it is too much. */
static bool hides_descriptors(struct cay_session *session, uint64_t in_flight)
{
    struct cay_quota *quota = &session->quota;
    uint64_t now_ms = cay_loop_now_ms(session->host->loop);
    if (!in_flight) {
        quota->in_flight_ms = 0;
        return false;
    }
    if (!quota->in_flight_ms)
        quota->in_flight_ms = now_ms;
    return now_ms - quota->in_flight_ms >= IN_FLIGHT_MS;
}

static void judge(struct cay_session *session, const struct measure_op *self)
{
    struct cay_quota *quota = &session->quota;
    const struct cay_v1_resource_limits *limits = session->spec->limits;
    bool was_over = quota->is_over;
    int64_t before = quota->bytes;
    quota->bytes =
        (int64_t)(self->usage.own_bytes + self->usage.history_bytes + self->hidden.bytes);
    quota->files =
        (int64_t)(self->usage.entries + self->usage.history_entries + self->hidden.count);
    quota->handed_bytes = quota->handed_files = 0;
    quota->is_dirty = quota->is_dirty || self->usage.is_behind;
    bool is_bytes = limits->has_disk_bytes && quota->bytes > limits->disk_bytes;
    bool is_files = limits->has_inodes && quota->files > limits->inodes;
    bool hides = hides_descriptors(session, self->hidden.in_flight);
    quota->why = !cay_quota_is_limited(session) ? NULL
                 : self->usage.is_too_deep      ? "has directories too deep to be measured"
                 : hides                        ? "has open files in messages that nobody receives"
                                                : NULL;
    quota->is_over = is_bytes || is_files || quota->why;
    if (quota->is_over && !was_over)
        cay_log(CAY_WARN, "session.over_quota", CAY_S("session", session->id),
                CAY_I("bytes", quota->bytes), CAY_I("files", quota->files),
                CAY_S("why", quota->why ? quota->why : ""));
    /* Who tidies up is let alone. */
    bool is_growing = !was_over || quota->bytes > before || hides;
    if (quota->is_over && is_growing && session->live)
        cay_session_kill(session, CAY_V1_END_CAUSE_QUOTA);
}

static void measure_end(struct cay_op *op)
{
    struct measure_op *self = CAY_CONTAINER_OF(op, struct measure_op, op);
    struct cay_session *session = op->session;
    op->host->measuring->looks--;
    if (session) {
        session->quota.is_measured = false;
        session->quota.cpu_usec = self->cpu_usec;
        if (op->is_done && !self->is_skipped)
            judge(session, self);
        session->quota.due_ms = next_look_ms(session, self->took_ms);
    }
    cay_op_leave(op);
    if (self->group_fd >= 0)
        close(self->group_fd);
    cay_session_trees_finish(&self->trees);
    free(self->held);
    free(self);
}

static const struct cay_op_steps measure_steps = {
    .begin = measure_begin,
    .work = measure_work,
    .end = measure_end,
    .ends_with_call = true,
};

static bool is_due(const struct cay_session *session, uint64_t now_ms)
{
    const struct cay_quota *quota = &session->quota;
    return !session->is_gone && !quota->is_measured && now_ms >= quota->due_ms &&
           (session->state == CAY_SESSION_ACTIVE || session->state == CAY_SESSION_PAUSED) &&
           (quota->is_dirty || (session->live && session->state == CAY_SESSION_ACTIVE));
}

static void on_tick(struct cay_timer *timer)
{
    struct cay_host *host = CAY_CONTAINER_OF(timer, struct cay_measuring, timer)->host;
    uint64_t now_ms = cay_loop_now_ms(host->loop);
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table) {
        if (host->measuring->looks >= LOOKS_AT_ONCE)
            break;
        if (!is_due(session, now_ms))
            continue;
        struct measure_op *self = cay_new(struct measure_op);
        self->group_fd = -1;
        session->quota.is_measured = true;
        host->measuring->looks++;
        cay_op_start_on(&self->op, session, NULL, CAY_VERB_LOOK, false, &measure_steps);
    }
}

void cay_measure_start(struct cay_host *host)
{
    host->measuring = cay_new(struct cay_measuring);
    host->measuring->host = host;
    cay_timer_open(&host->measuring->timer, host->loop, on_tick);
    cay_timer_start(&host->measuring->timer, TICK_MS, TICK_MS);
}

void cay_measure_stop(struct cay_host *host)
{
    if (host->measuring)
        cay_timer_close(&host->measuring->timer);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "api/noun.h"
#include "base/crash.h"
#include "base/log.h"
#include "host/life/birth.h"
#include "host/life/deadline.h"
#include "host/life/death.h"
#include "host/life/start.h"
#include "host/life/tokens.h"
#include "host/life/verbs_session.h"
#include "host/live/bindings.h"
#include "host/live/filtered.h"
#include "host/live/live.h"
#include "host/live/nesting.h"
#include "host/live/network.h"
#include "host/owner/account.h"
#include "host/owner/account_quota.h"
#include "host/past/point.h"
#include "host/past/snapshot.h"
#include "host/past/verbs.h"
#include "host/session/host.h"
#include "host/session/request.h"

/*
 * Forking: one or more new sessions from one instant of another, all or nothing. From a snapshot
 * they are born on its layers. From the live tree the store forks once; the others are forks of
 * that first one, which nothing has touched yet.
 */

struct fork_op {
    struct cay_op op;
    struct cay_pointing pointing;
    struct cay_session **forks;      /* in the call's arena; NULL once one failed */
    struct cay_gate_ticket *tickets; /* in the forks' gates: whoever wants one of them waits */
    char (*store_ids)[CAY_STORE_ID_SIZE];
    size_t count;
    size_t waiting;            /* births, and then start commands, under way */
    struct cay_birth **births; /* that went well, in the call's arena */
    size_t born;
    struct cay_job publish;
    size_t failed;
    bool is_from_snapshot;
    bool is_lazy;
    bool is_pointed; /* the source may have a new root */
    uint64_t first_generation;
    struct cay_session_record source; /* as it will be */
    char snapshot_store_id[CAY_STORE_ID_SIZE];
    bool is_switch_broken;
    struct cay_error switch_err;
    struct cay_error birth_err;
};

static struct fork_op *fork_of(struct cay_op *op)
{
    return CAY_CONTAINER_OF(op, struct fork_op, op);
}

static bool fork_spec(struct fork_op *self, const struct cay_session *source,
                      struct cay_v1_session *out_spec, struct cay_error *err)
{
    struct cay_call *call = self->op.call;
    const struct cay_v1_fork_session_request *request = call->request;
    struct cay_v1_resource_limits *limits =
        cay_arena_new(&call->arena, struct cay_v1_resource_limits);
    static const struct cay_v1_secret_binding_array none;
    struct cay_runtime *runtime = NULL;
    bool is_admin = call->caller.role == CAY_ROLE_ADMIN;
    if (!limits)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    *out_spec = *source->spec;
    if (!cay_runtimes_choose(&self->op.host->runtimes, source->spec->runtime, is_admin, &runtime,
                             err) ||
        !cay_nesting_check(self->op.host, runtime, source->spec->nesting, is_admin, err) ||
        !cay_check_limits(request->limits, source->spec->limits, limits, err) ||
        !cay_network_choose(self->op.host, runtime, request->network, source->spec->network,
                            &call->arena, &out_spec->network, err) ||
        !cay_bindings_choose(&source->spec->secrets, &none, (struct cay_pb_strs){},
                             out_spec->network, &call->arena, &out_spec->secrets, err))
        return false;
    out_spec->limits = limits;
    out_spec->runtime = cay_str(cay_runtime_name(runtime));
    if (!cay_noun_merge(&call->arena, source->spec->labels, request->labels, &out_spec->labels) ||
        !cay_noun_merge(&call->arena, source->spec->env, request->env, &out_spec->env))
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    if (request->lifecycle) {
        if (!cay_check_lifecycle(request->lifecycle, err))
            return false;
        out_spec->lifecycle = request->lifecycle;
    }
    out_spec->deadline = cay_deadline_of(out_spec->lifecycle, &call->arena);
    out_spec->pause_mode = CAY_V1_PAUSE_MODE_UNSPECIFIED;
    out_spec->parent_session_id = cay_str(source->id);
    out_spec->parent_snapshot = request->snapshot;
    return cay_check_labels(out_spec->labels, err) && cay_check_env(out_spec->env, err);
}

static void reserved(struct cay_gate_ticket *)
{
}

/* Lets in who waits for a fork; that may be the end of it, and of the call with all its memory. */
static void open_gate(struct cay_session *fork, struct cay_gate_ticket *ticket)
{
    cay_session_ref(fork);
    cay_gate_leave(&fork->gate, ticket);
    cay_session_unref(fork);
}

static bool reserve(struct fork_op *self, struct cay_session *source, struct cay_error *err)
{
    struct cay_call *call = self->op.call;
    struct cay_host *host = self->op.host;
    const struct cay_v1_fork_session_request *request = call->request;
    struct cay_v1_session spec = {};
    self->forks = cay_arena_array(&call->arena, self->count, sizeof(*self->forks));
    self->store_ids = cay_arena_array(&call->arena, self->count, sizeof(*self->store_ids));
    self->tickets = cay_arena_array(&call->arena, self->count, sizeof(*self->tickets));
    self->births = cay_arena_array(&call->arena, self->count, sizeof(*self->births));
    if (!self->forks || !self->store_ids || !self->tickets || !self->births)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    if (!fork_spec(self, source, &spec, err) || !cay_session_check_room(host, self->count, err) ||
        !cay_quotas_check_sessions(host, &call->caller, source->owner, spec.limits, self->count,
                                   NULL, err))
        return false;
    for (size_t i = 0; i < self->count; i++) {
        char id[CAY_ID_SIZE];
        struct cay_str wanted = request->new_session_id;
        if (wanted.len && self->count > 1)
            wanted = cay_str(
                cay_arena_printf(&call->arena, "%.*s-%zu", (int)wanted.len, wanted.ptr, i + 1)
                    ?: "");
        if (!cay_session_choose_id(host, wanted, id, sizeof(id), err))
            return false;
        if (cay_map_get(&host->sessions.by_id, cay_str(id)))
            return cay_fail(err, CAY_R_SESSION_EXISTS, "the name '%s' is taken; choose another one",
                            id);
        self->forks[i] = cay_session_new(host, id, source->owner);
        cay_session_ref(self->forks[i]); /* somebody may destroy it before it is born */
        cay_gate_enter(&self->forks[i]->gate, &self->tickets[i], true, reserved);
        cay_session_set_spec(self->forks[i], &spec);
        cay_birth_name(self->forks[i], request->lazy_start);
        memcpy(self->store_ids[i], self->forks[i]->store_id, CAY_STORE_ID_SIZE);
    }
    return true;
}

static bool fork_begin(struct cay_op *op, struct cay_error *err)
{
    struct fork_op *self = fork_of(op);
    const struct cay_v1_fork_session_request *request = op->call->request;
    struct cay_session *source = op->session;
    if (request->snapshot.len) {
        const struct cay_snapshot *snapshot = cay_find_snapshot(source, request->snapshot, err);
        if (!snapshot)
            return false;
        memcpy(self->snapshot_store_id, snapshot->store_id, CAY_STORE_ID_SIZE);
        self->is_from_snapshot = true;
    } else if (!cay_session_has_files(source, err)) {
        return false;
    }
    cay_pointing_init(&self->pointing, source);
    cay_session_record_take(&self->source, source);
    return reserve(self, source, err);
}

static bool fork_live(struct fork_op *self, struct cay_host *host, struct cay_error *err)
{
    struct cay_pointing *pointing = &self->pointing;
    if (!cay_pointing_freeze(pointing, err))
        return false;
    const struct cay_store_fork_request first = {
        .session_id = pointing->store_id,
        .new_session_id = self->store_ids[0],
        .activity = pointing->activity,
        .owner = pointing->is_mounted ? &pointing->owner : NULL,
    };
    CAY_CRASH_POINT("fork.frozen");
    cay_op_watch(&self->op);
    bool is_forked =
        cay_op_unwatch(&self->op, cay_store_fork(host->store, &first, &pointing->point, err), err);
    CAY_CRASH_POINT("fork.taken");
    cay_pointing_thaw(pointing);
    if (!is_forked)
        return false;
    self->is_pointed = true;
    self->is_switch_broken = !cay_pointing_switch(pointing, &self->switch_err);
    CAY_CRASH_POINT("fork.switched");
    /* A daemon that dies from here on must know the source's root again, or it would take the
     * sandbox for one that was left behind. */
    self->source.generation = pointing->point.generation;
    if (!cay_session_record_put(host->db, &self->source, err))
        return false;
    CAY_CRASH_POINT("fork.recorded");
    for (size_t i = 1; i < self->count; i++) {
        const struct cay_store_fork_request next = {
            .session_id = self->store_ids[0],
            .new_session_id = self->store_ids[i],
            .activity = CAY_STORE_QUIET,
        };
        struct cay_store_point point = {.root_fd = -1};
        if (!cay_store_fork(host->store, &next, &point, err))
            return false;
        self->first_generation = point.generation;
        CAY_CRASH_POINT("fork.next_taken");
    }
    return true;
}

static bool fork_work(struct cay_op *op, struct cay_error *err)
{
    struct fork_op *self = fork_of(op);
    struct cay_error ignored = {};
    if (self->is_from_snapshot || fork_live(self, op->host, err)) {
        for (size_t i = 0; i < self->count; i++)
            cay_filtering_copy_names(op->host, self->source.store_id, self->store_ids[i]);
        return true;
    }
    for (size_t i = 0; i < self->count; i++)
        (void)cay_store_destroy(op->host->store, self->store_ids[i], &ignored);
    return cay_wrap(err, "fork");
}

/* Until then each fork is held: a client may destroy one while the others are born. */
static void answer(struct fork_op *self)
{
    struct cay_call *call = self->op.call;
    if (self->failed) {
        for (size_t i = 0; i < self->count; i++) {
            if (!self->forks[i])
                continue;
            if (!self->forks[i]->is_gone)
                cay_death_start(self->forks[i], "undone");
            cay_session_unref(self->forks[i]);
        }
        cay_call_fail(call, &self->birth_err);
        return;
    }
    struct cay_v1_fork_session_response response = {
        .forks.items =
            cay_arena_array(&call->arena, self->count, sizeof(struct cay_v1_forked_session))};
    for (size_t i = 0; response.forks.items && i < self->count; i++)
        response.forks.items[response.forks.count++] = (struct cay_v1_forked_session){
            .session = cay_session_message(self->forks[i], &call->arena),
            .tokens = cay_session_tokens(self->forks[i], &call->arena),
        };
    for (size_t i = 0; i < self->count; i++)
        cay_session_unref(self->forks[i]);
    cay_call_done(call, &response);
}

/* One of them is ready or will not be; the last one brings the answer. */
static void fork_ready(struct cay_call *call, struct cay_session *, const struct cay_error *err)
{
    struct fork_op *self = call->state;
    if (err) {
        self->failed++;
        self->birth_err = *err;
    }
    if (--self->waiting > 0)
        return;
    answer(self);
    free(self);
}

/* All are there, or none: their records change together. */
static void publish_work(struct cay_job *job)
{
    struct fork_op *self = CAY_CONTAINER_OF(job, struct fork_op, publish);
    struct cay_db *db = self->births[0]->op.host->db;
    struct cay_error *err = &self->birth_err;
    bool is_good = cay_db_transaction_begin(db, err);
    if (is_good) {
        for (size_t i = 0; is_good && i < self->born; i++)
            is_good = cay_session_record_put(db, &self->births[i]->record, err);
        is_good = cay_db_transaction_end(db, is_good, err);
    }
    self->failed += !is_good;
    CAY_CRASH_POINT("fork.published");
}

static void publish_done(struct cay_job *job)
{
    struct fork_op *self = CAY_CONTAINER_OF(job, struct fork_op, publish);
    size_t count = self->failed ? 0 : self->count;
    struct cay_session **forks = self->forks;
    struct cay_call *call = self->op.call;
    for (size_t i = 0; i < self->born; i++)
        cay_birth_release(self->births[i]);
    self->waiting = count + 1;
    for (size_t i = 0; i < count; i++)
        cay_start_wait(forks[i], call, fork_ready);
    fork_ready(call, NULL, NULL);
}

/* The forks are held by their place in self->forks, found by the call's state. */
static void fork_born(struct cay_birth *birth)
{
    struct fork_op *self = birth->call->state;
    if (!birth->err.reason) {
        self->births[self->born++] = birth;
    } else {
        self->failed++;
        self->birth_err = birth->err;
        for (size_t i = 0; i < self->count; i++) {
            if (self->forks[i] == birth->op.session) {
                cay_session_unref(self->forks[i]); /* its birth still holds it */
                self->forks[i] = NULL;
            }
        }
    }
    if (--self->waiting > 0)
        return;
    if (self->failed) {
        publish_done(&self->publish);
        return;
    }
    self->publish.work = publish_work;
    self->publish.done = publish_done;
    self->publish.lane = &cay_account_of(birth->op.host, self->op.call->caller.owner)->lane;
    cay_loop_submit(birth->op.host->loop, &self->publish);
}

static void forget_reserved(struct fork_op *self)
{
    for (size_t i = 0; self->forks && i < self->count; i++) {
        if (!self->forks[i])
            continue;
        struct cay_session *fork = self->forks[i];
        cay_session_forget(fork);
        cay_gate_leave(&fork->gate, &self->tickets[i]);
        cay_session_unref(fork);
    }
}

static void install_point(struct fork_op *self, struct cay_session *source)
{
    if (!self->is_pointed)
        return;
    cay_pointing_install(&self->pointing, source);
    if (source->live && self->pointing.frozen_ns)
        cay_live_skip_clock(source->live, self->pointing.frozen_ns);
    if (self->is_switch_broken)
        cay_live_lost(source, &self->switch_err);
    if (self->first_generation)
        self->forks[0]->generation = self->first_generation;
}

static void fork_end(struct cay_op *op)
{
    struct fork_op *self = fork_of(op);
    if (op->session)
        install_point(self, op->session);
    cay_session_record_finish(&self->source);
    if (!op->is_done) {
        struct cay_call *call = op->call;
        struct cay_error err = op->err;
        forget_reserved(self);
        cay_op_leave(op);
        free(self);
        cay_call_fail(call, &err);
        return;
    }
    struct cay_call *call = op->call;
    call->state = self;
    self->waiting = self->count;
    size_t count = self->count;
    struct cay_session **forks = self->forks;
    struct cay_gate_ticket *tickets = self->tickets;
    const struct cay_birth_source from = {
        .snapshot_store_id = self->is_from_snapshot ? self->snapshot_store_id : NULL};
    bool is_lazy = self->is_lazy;
    cay_op_leave(op);
    for (size_t i = 0; i < count; i++) {
        cay_birth_start_held(forks[i], call, &from, is_lazy, fork_born);
        open_gate(forks[i], &tickets[i]);
    }
}

static const struct cay_op_steps fork_steps = {
    .begin = fork_begin,
    .work = fork_work,
    .end = fork_end,
};

void cay_host_fork_session(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_fork_session_request *request = call->request;
    struct cay_error err = {};
    if (request->count < 0 || request->count > CAY_LIMIT_FORKS)
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "count must be 1 to %d", CAY_LIMIT_FORKS);
    else if (cay_check_labels(request->labels, &err) && cay_check_env(request->env, &err))
        (void)cay_check_lifecycle(request->lifecycle, &err);
    if (err.reason) {
        cay_call_fail(call, &err);
        return;
    }
    struct fork_op *self = cay_new(struct fork_op);
    self->count = request->count ? (size_t)request->count : 1;
    self->is_lazy = request->lazy_start;
    cay_op_start(&self->op, cay_host_of(service), call, request->session_id, CAY_VERB_FORK, true,
                 &fork_steps);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/cay_v1.h"
#include "base/id.h"
#include "base/log.h"
#include "host/owner/account.h"
#include "host/owner/account_quota.h"
#include "host/owner/verbs.h"
#include "host/session/access.h"
#include "host/session/host.h"

enum { CPUS_MAX = 1'000'000 };

static const struct cay_quotas nothing = {
    CAY_QUOTA_UNSET, CAY_QUOTA_UNSET, CAY_QUOTA_UNSET, CAY_QUOTA_UNSET, CAY_QUOTA_UNSET,
    CAY_QUOTA_UNSET, CAY_QUOTA_UNSET, CAY_QUOTA_UNSET, CAY_QUOTA_UNSET,
};

static struct cay_quotas *own_of(struct cay_account *account)
{
    if (!account->quotas) {
        account->quotas = cay_new(struct cay_quotas);
        *account->quotas = nothing;
    }
    return account->quotas;
}

bool cay_quotas_load(struct cay_host *host, struct cay_error *err)
{
    struct cay_db_query query;
    cay_db_begin(&query, host->db, "SELECT owner, name, value FROM quotas");
    while (cay_db_row(&query)) {
        char owner[CAY_ID_SIZE];
        struct cay_str text = cay_db_text(&query, 0);
        snprintf(owner, sizeof(owner), "%.*s", (int)text.len, text.len ? text.ptr : "");
        struct cay_quotas *own = own_of(cay_account_of(host, owner));
        for (size_t i = 0; i < CAY_QUOTA_KINDS; i++) {
            if (cay_str_is(cay_db_text(&query, 1), cay_quota_kinds[i].field))
                *cay_quotas_at(own, i) = cay_db_int(&query, 2);
        }
    }
    return cay_db_end(&query, err) || cay_wrap(err, "read the quotas of owners");
}

static bool save(struct cay_db *db, const char *owner, struct cay_quotas *own,
                 struct cay_error *err)
{
    if (!cay_db_transaction_begin_durable(db, err))
        return false;
    struct cay_db_query query;
    cay_db_begin(&query, db, "DELETE FROM quotas WHERE owner = ?");
    cay_db_bind_text(&query, cay_str(owner));
    bool is_good = cay_db_end(&query, err);
    for (size_t i = 0; is_good && i < CAY_QUOTA_KINDS; i++) {
        if (*cay_quotas_at(own, i) == CAY_QUOTA_UNSET)
            continue;
        cay_db_begin(&query, db, "INSERT INTO quotas (owner, name, value) VALUES (?, ?, ?)");
        cay_db_bind_text(&query, cay_str(owner));
        cay_db_bind_text(&query, cay_str(cay_quota_kinds[i].field));
        cay_db_bind_int(&query, *cay_quotas_at(own, i));
        is_good = cay_db_end(&query, err);
    }
    return cay_db_transaction_end(db, is_good, err) || cay_wrap(err, "record a quota");
}

/* Values that are `absent` are left out. */
static struct cay_v1_quota_limits *to_limits(struct cay_call *call, struct cay_quotas quotas,
                                             int64_t absent)
{
    struct cay_v1_quota_limits *limits = cay_arena_new(&call->arena, struct cay_v1_quota_limits);
    if (!limits)
        return NULL;
    *limits = (struct cay_v1_quota_limits){
        .sessions = quotas.sessions,
        .memory_bytes = quotas.memory_bytes,
        .cpus = (double)quotas.cpu_millis / 1000,
        .disk_bytes = quotas.disk_bytes,
        .pids = quotas.pids,
        .snapshots = quotas.snapshots,
        .ports = quotas.ports,
        .bases = quotas.bases,
        .streams = quotas.streams,
        .has_sessions = quotas.sessions != absent,
        .has_memory_bytes = quotas.memory_bytes != absent,
        .has_cpus = quotas.cpu_millis != absent,
        .has_disk_bytes = quotas.disk_bytes != absent,
        .has_pids = quotas.pids != absent,
        .has_snapshots = quotas.snapshots != absent,
        .has_ports = quotas.ports != absent,
        .has_bases = quotas.bases != absent,
        .has_streams = quotas.streams != absent,
    };
    return limits;
}

static struct cay_quotas from_limits(const struct cay_v1_quota_limits *limits)
{
    if (!limits)
        return nothing;
    return (struct cay_quotas){
        .sessions = limits->has_sessions ? limits->sessions : CAY_QUOTA_UNSET,
        .memory_bytes = limits->has_memory_bytes ? limits->memory_bytes : CAY_QUOTA_UNSET,
        .cpu_millis = limits->has_cpus ? llround(limits->cpus * 1000) : CAY_QUOTA_UNSET,
        .disk_bytes = limits->has_disk_bytes ? limits->disk_bytes : CAY_QUOTA_UNSET,
        .pids = limits->has_pids ? limits->pids : CAY_QUOTA_UNSET,
        .snapshots = limits->has_snapshots ? limits->snapshots : CAY_QUOTA_UNSET,
        .ports = limits->has_ports ? limits->ports : CAY_QUOTA_UNSET,
        .bases = limits->has_bases ? limits->bases : CAY_QUOTA_UNSET,
        .streams = limits->has_streams ? limits->streams : CAY_QUOTA_UNSET,
    };
}

static struct cay_v1_quota to_message(const struct cay_host *host, struct cay_call *call,
                                      const char *owner)
{
    const struct cay_account *account = cay_map_get(&host->accounts, cay_str(owner));
    struct cay_quotas own = account && account->quotas ? *account->quotas : nothing;
    return (struct cay_v1_quota){
        .owner = cay_arena_str(&call->arena, cay_str(owner)),
        .own = to_limits(call, own, CAY_QUOTA_UNSET),
        .limits = to_limits(call, cay_quotas_of(host, owner), 0),
        .used = to_limits(call, cay_quotas_used(host, owner), CAY_QUOTA_UNSET),
    };
}

static bool read_owner(struct cay_str text, char owner[CAY_ID_SIZE], struct cay_error *err)
{
    if (!cay_id_check(text, "owner", err))
        return false;
    snprintf(owner, CAY_ID_SIZE, "%.*s", (int)text.len, text.ptr);
    return true;
}

static bool find_owner(const struct cay_call *call, char owner[CAY_ID_SIZE], struct cay_error *err)
{
    const struct cay_v1_get_quota_request *request = call->request;
    struct cay_str wanted = request->owner.len ? request->owner : cay_str(call->caller.owner);
    if (!cay_may_know_owned(&call->caller, wanted))
        return cay_fail(err, CAY_R_NOT_FOUND, "there is no owner '%.*s' that this key knows of",
                        (int)CAY_MIN(wanted.len, (size_t)64), wanted.len ? wanted.ptr : "");
    return read_owner(wanted, owner, err);
}

void cay_host_get_quota(struct cay_service *service, struct cay_call *call)
{
    char owner[CAY_ID_SIZE];
    struct cay_error err = {};
    if (!find_owner(call, owner, &err)) {
        cay_call_fail(call, &err);
        return;
    }
    struct cay_v1_quota quota = to_message(cay_host_of(service), call, owner);
    struct cay_v1_get_quota_response response = {.quota = &quota};
    cay_call_done(call, &response);
}

/* A write to the quotas table, on a worker. */
struct set_job {
    struct cay_job job;
    struct cay_host *host;
    struct cay_call *call;
    struct cay_account *account; /* of whose quota it is */
    struct cay_quotas own;       /* what it shall be */
    bool is_done;
    struct cay_error err;
};

static void set_work(struct cay_job *job)
{
    struct set_job *self = CAY_CONTAINER_OF(job, struct set_job, job);
    self->is_done = save(self->host->db, self->account->owner, &self->own, &self->err);
}

static void set_done(struct cay_job *job)
{
    struct set_job *self = CAY_CONTAINER_OF(job, struct set_job, job);
    self->account->is_quota_changing = false;
    if (self->is_done) {
        *own_of(self->account) = self->own;
        cay_log(CAY_INFO, "quota.set", CAY_S("owner", self->account->owner));
        struct cay_v1_quota quota = to_message(self->host, self->call, self->account->owner);
        struct cay_v1_set_quota_response response = {.quota = &quota};
        cay_call_done(self->call, &response);
    } else {
        cay_call_fail(self->call, &self->err);
    }
    free(self);
}

static bool check_values(const struct cay_v1_quota_limits *set, struct cay_error *err)
{
    if (set && set->has_cpus && !(set->cpus >= 0 && set->cpus <= CPUS_MAX))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "set.cpus must be 0 to %d; 0 is no limit",
                        CPUS_MAX);
    struct cay_quotas values = from_limits(set);
    const bool has[] = {
        set && set->has_sessions,   set && set->has_memory_bytes, set && set->has_cpus,
        set && set->has_disk_bytes, set && set->has_pids,         set && set->has_snapshots,
        set && set->has_ports,      set && set->has_bases,        set && set->has_streams,
    };
    static_assert(CAY_COUNT(has) == CAY_QUOTA_KINDS);
    for (size_t i = 0; i < CAY_QUOTA_KINDS; i++) {
        if (has[i] && *cay_quotas_at(&values, i) < 0)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "set.%s: a number that is not negative; 0: no limit",
                            cay_quota_kinds[i].field);
    }
    return true;
}

static bool clear(struct cay_str name, const struct cay_quotas *set, struct cay_quotas *own,
                  struct cay_error *err)
{
    struct cay_quotas given = *set;
    for (size_t i = 0; i < CAY_QUOTA_KINDS; i++) {
        if (!cay_str_is(name, cay_quota_kinds[i].field))
            continue;
        if (*cay_quotas_at(&given, i) != CAY_QUOTA_UNSET)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "clear: '%s' is also set; say one of the two",
                            cay_quota_kinds[i].field);
        *cay_quotas_at(own, i) = CAY_QUOTA_UNSET;
        return true;
    }
    return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "clear: there is no quota '%.*s'; there are sessions, memory_bytes, cpus, "
                    "disk_bytes, pids, snapshots, ports, bases and streams",
                    (int)CAY_MIN(name.len, (size_t)64), name.len ? name.ptr : "");
}

/* `own` as the request wants it. */
static bool change(const struct cay_v1_set_quota_request *request, struct cay_quotas *own,
                   struct cay_error *err)
{
    if (!check_values(request->set, err))
        return false;
    struct cay_quotas set = from_limits(request->set);
    for (size_t i = 0; i < CAY_QUOTA_KINDS; i++) {
        if (*cay_quotas_at(&set, i) != CAY_QUOTA_UNSET)
            *cay_quotas_at(own, i) = *cay_quotas_at(&set, i);
    }
    for (size_t i = 0; i < request->clear.count; i++) {
        if (!clear(request->clear.items[i], &set, own, err))
            return false;
    }
    return true;
}

/* What the request comes to; NULL with *err filled when to nothing. */
static struct set_job *make_job(struct cay_host *host, struct cay_call *call, struct cay_error *err)
{
    const struct cay_v1_set_quota_request *request = call->request;
    char owner[CAY_ID_SIZE];
    if (call->caller.role != CAY_ROLE_ADMIN) {
        cay_fail(err, CAY_R_PERMISSION_DENIED, "only an admin key may set quotas");
        return NULL;
    }
    if (!read_owner(request->owner, owner, err))
        return NULL;
    const struct cay_account *known = cay_map_get(&host->accounts, cay_str(owner));
    struct cay_quotas own = known && known->quotas ? *known->quotas : nothing;
    if (!change(request, &own, err))
        return NULL;
    if (known && known->is_quota_changing) { /* the two would be written in any order */
        cay_fail(err, CAY_R_UNAVAILABLE, "another call is changing the quota of '%s'; call again",
                 owner);
        return NULL;
    }
    struct set_job *self = cay_new(struct set_job);
    *self = (struct set_job){.job = {.work = set_work, .done = set_done},
                             .host = host,
                             .call = call,
                             .account = cay_account_of(host, owner),
                             .own = own};
    self->job.lane = &cay_account_of(host, call->caller.owner)->lane;
    return self;
}

void cay_host_set_quota(struct cay_service *service, struct cay_call *call)
{
    struct cay_host *host = cay_host_of(service);
    struct cay_error err = {};
    struct set_job *self = make_job(host, call, &err);
    if (!self) {
        cay_call_fail(call, &err);
        return;
    }
    self->account->is_quota_changing = true;
    cay_loop_submit(host->loop, &self->job);
}

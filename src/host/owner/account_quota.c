/* SPDX-License-Identifier: Apache-2.0 */
#include "host/owner/account_quota.h"

#include <stdio.h>

#include "host/owner/account.h"
#include "host/session/host.h"

#define REMOVE "remove some"
const struct cay_quota_kind cay_quota_kinds[CAY_QUOTA_KINDS] = {
    {"quota_sessions", "sessions", "sessions", "sessions", 1, REMOVE},
    {"quota_memory", "memory_bytes", "memory", "MiB of memory for its sessions", 1 << 20, REMOVE},
    {"quota_cpus", "cpus", "cpus", "processors for its sessions", 1000, REMOVE},
    {"quota_disk", "disk_bytes", "disk", "MiB of disk space", 1 << 20, REMOVE},
    {"quota_pids", "pids", "pids", "processes for its sessions", 1, REMOVE},
    {"quota_snapshots", "snapshots", "snapshots", "snapshots", 1, REMOVE},
    {"quota_ports", "ports", "ports", "exposed ports", 1, REMOVE},
    {"quota_bases", "bases", "bases", "bases", 1, REMOVE},
    {"quota_streams", "streams", "streams", "streams under way", 1, "end some"},
};
enum { SNAPSHOTS = 5, PORTS, BASES, STREAMS };

static_assert(sizeof(struct cay_quotas) == CAY_QUOTA_KINDS * sizeof(int64_t));

static struct cay_quotas quotas_as_set(const struct cay_host_settings *settings)
{
    return (struct cay_quotas){.sessions = settings->quota_sessions,
                               .memory_bytes = (int64_t)settings->quota_memory_bytes,
                               .cpu_millis = (int64_t)(settings->quota_cpus * 1000),
                               .disk_bytes = (int64_t)settings->quota_disk_bytes,
                               .pids = settings->quota_pids,
                               .snapshots = settings->quota_snapshots,
                               .ports = settings->quota_ports,
                               .bases = settings->quota_bases,
                               .streams = settings->quota_streams};
}

struct cay_quotas cay_quotas_of(const struct cay_host *host, const char *owner)
{
    const struct cay_account *account = cay_map_get(&host->accounts, cay_str(owner));
    struct cay_quotas quotas = quotas_as_set(host->settings);
    for (size_t i = 0; account && account->quotas && i < CAY_QUOTA_KINDS; i++) {
        int64_t own = *cay_quotas_at(account->quotas, i);
        if (own != CAY_QUOTA_UNSET)
            *cay_quotas_at(&quotas, i) = own;
    }
    return quotas;
}

/* Limits are what clients say: they may be anything. */
static int64_t add(int64_t a, int64_t b)
{
    int64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static bool check(const struct cay_host *host, const char *owner, size_t kind, int64_t used,
                  int64_t more, struct cay_error *err)
{
    struct cay_quotas quotas = cay_quotas_of(host, owner);
    int64_t most = *cay_quotas_at(&quotas, kind);
    if (!most || more <= 0 || add(used, more) <= most)
        return true;
    const struct cay_quota_kind *it = &cay_quota_kinds[kind];
    double unit = (double)it->unit;
    return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                    "%s: owner '%.64s' has %.10g of at most %.10g %s and asks for %.10g more; "
                    "%s, or let an administrator raise it: cay quota set %.64s --%s N",
                    it->key, owner, (double)used / unit, (double)most / unit, it->noun,
                    (double)more / unit, it->less, owner, it->flag);
}

static struct cay_quotas of_limits(const struct cay_v1_resource_limits *limits)
{
    return (struct cay_quotas){
        .sessions = 1,
        .memory_bytes = limits && limits->has_memory_bytes ? limits->memory_bytes : 0,
        .cpu_millis = limits && limits->has_cpus ? (int64_t)(limits->cpus * 1000) : 0,
        .disk_bytes = limits && limits->has_disk_bytes ? limits->disk_bytes : 0,
        .pids = limits && limits->has_pids ? limits->pids : 0,
    };
}

static struct cay_quotas of_session(const struct cay_session *session)
{
    struct cay_quotas one = of_limits(session->spec ? session->spec->limits : NULL);
    one.snapshots = (int64_t)cay_session_snapshot_count(session);
    for (struct cay_list_node *node = cay_list_first(&session->ports); node;
         node = cay_list_next(&session->ports, node))
        one.ports++;
    return one;
}

static int64_t bases_of(const struct cay_host *host, const char *owner)
{
    const struct cay_account *account = cay_map_get(&host->accounts, cay_str(owner));
    return account ? account->bases + account->bases_coming : 0;
}

int64_t cay_quotas_bases_bytes(const struct cay_host *host, const char *owner)
{
    const struct cay_account *account = cay_map_get(&host->accounts, cay_str(owner));
    return account ? account->bases_bytes : 0;
}

struct cay_quotas cay_quotas_used(const struct cay_host *host, const char *owner)
{
    const struct cay_account *account = cay_map_get(&host->accounts, cay_str(owner));
    struct cay_quotas sum = {
        .bases = bases_of(host, owner),
        .disk_bytes = cay_quotas_bases_bytes(host, owner) + (account ? account->claimed_bytes : 0),
        .streams = account ? (int64_t)account->stream_count : 0,
    };
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table) {
        if (session->is_gone || strcmp(session->owner, owner) != 0)
            continue;
        struct cay_quotas one = of_session(session);
        for (size_t i = 0; i < CAY_QUOTA_KINDS; i++)
            *cay_quotas_at(&sum, i) = add(*cay_quotas_at(&sum, i), *cay_quotas_at(&one, i));
    }
    return sum;
}

static bool check_ceilings(const struct cay_host *host, const struct cay_v1_resource_limits *limits,
                           struct cay_error *err)
{
    int64_t memory = host->session_memory_bytes_max;
    int64_t pids = host->settings->session_max_pids;
    if (memory && limits->has_memory_bytes && limits->memory_bytes > memory)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "limits.memory_bytes: a session of this host may have %lld bytes (%lld "
                        "MiB) at most; session_max_memory in the configuration says so",
                        (long long)memory, (long long)(memory >> 20));
    if (pids && limits->has_pids && limits->pids > pids)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "limits.pids: a session of this host may have %lld at most; "
                        "session_max_pids in the configuration says so",
                        (long long)pids);
    return true;
}

/* What has no limit cannot be counted. */
static bool has_limits(const struct cay_host *host, const char *owner,
                       const struct cay_v1_resource_limits *limits, struct cay_error *err)
{
    struct cay_quotas quotas = cay_quotas_of(host, owner);
    const struct {
        bool is_missing;
        const char *key;
        const char *field;
    } rules[] = {
        {quotas.memory_bytes && !limits->has_memory_bytes, "quota_memory", "memory_bytes"},
        {quotas.cpu_millis && !limits->has_cpus, "quota_cpus", "cpus"},
        {quotas.disk_bytes && !limits->has_disk_bytes, "quota_disk", "disk_bytes"},
        {quotas.pids && !limits->has_pids, "quota_pids", "pids"},
    };
    for (size_t i = 0; i < CAY_COUNT(rules); i++) {
        if (rules[i].is_missing)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "limits.%s: a session of owner '%.64s' needs this limit, because of "
                            "its %s; set it",
                            rules[i].field, owner, rules[i].key);
    }
    return true;
}

bool cay_quotas_check_sessions(const struct cay_host *host, const struct cay_caller *caller,
                               const char *owner, const struct cay_v1_resource_limits *limits,
                               size_t count, const struct cay_session *changed,
                               struct cay_error *err)
{
    if (limits && !check_ceilings(host, limits, err))
        return false;
    if (caller->role == CAY_ROLE_ADMIN)
        return true;
    if (limits && !has_limits(host, owner, limits, err))
        return false;
    struct cay_quotas used = cay_quotas_used(host, owner);
    struct cay_quotas one = of_limits(limits);
    struct cay_quotas old = {};
    if (changed) /* who has too much may always have less */
        old = of_session(changed);
    for (size_t i = 0; i < CAY_QUOTA_KINDS; i++) {
        int64_t more = 0;
        if (__builtin_mul_overflow(*cay_quotas_at(&one, i), (int64_t)count, &more))
            more = INT64_MAX;
        if (!check(host, owner, i, *cay_quotas_at(&used, i), more - *cay_quotas_at(&old, i), err))
            return false;
    }
    return true;
}

bool cay_quotas_check_snapshot(const struct cay_session *session, const struct cay_caller *caller,
                               struct cay_error *err)
{
    const struct cay_host *host = session->host;
    if (host->settings->session_max_snapshots &&
        (int64_t)cay_session_snapshot_count(session) >= host->settings->session_max_snapshots)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "session '%s' has %zu snapshots, as many as session_max_snapshots allows; "
                        "prune it, or set its max_snapshots, so that old ones go by themselves",
                        session->id, cay_session_snapshot_count(session));
    if (!caller || caller->role == CAY_ROLE_ADMIN)
        return true;
    return check(host, session->owner, SNAPSHOTS, cay_quotas_used(host, session->owner).snapshots,
                 1, err);
}

bool cay_quotas_claim_base(struct cay_host *host, const struct cay_caller *caller,
                           struct cay_account **out_claim, struct cay_error *err)
{
    if (caller->role == CAY_ROLE_ADMIN)
        return true;
    if (!check(host, caller->owner, BASES, bases_of(host, caller->owner), 1, err))
        return false;
    *out_claim = cay_account_of(host, caller->owner);
    (*out_claim)->bases_coming++;
    return true;
}

void cay_quotas_unclaim_base(struct cay_account *claim)
{
    if (claim)
        claim->bases_coming--;
}

bool cay_quotas_claim_stream(struct cay_host *host, struct cay_call *call, struct cay_error *err)
{
    const struct cay_caller *caller = &call->caller;
    if (caller->is_host || caller->is_door)
        return true;
    struct cay_account *account = cay_account_of(host, caller->owner);
    if (caller->role != CAY_ROLE_ADMIN &&
        !check(host, caller->owner, STREAMS, (int64_t)account->stream_count, 1, err))
        return false;
    account->stream_count++;
    call->counted_in = &account->stream_count;
    return true;
}

bool cay_quotas_check_port(const struct cay_session *session, const struct cay_caller *caller,
                           struct cay_error *err)
{
    const struct cay_host *host = session->host;
    return caller->role == CAY_ROLE_ADMIN ||
           check(host, session->owner, PORTS, cay_quotas_used(host, session->owner).ports, 1, err);
}

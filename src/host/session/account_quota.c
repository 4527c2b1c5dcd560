/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/account_quota.h"

#include <stdio.h>

#include "host/session/host.h"
#include "host/session/ports.h"

enum { QUOTAS = 7 };

/* How much of what: in the order of struct cay_quotas. */
static const struct {
    const char *key; /* of the configuration */
    const char *noun;
    int64_t unit; /* that the sentence counts in */
    const char *unit_name;
} kinds[QUOTAS] = {
    {"quota_sessions", "sessions", 1, ""},
    {"quota_memory", "memory of its sessions", 1 << 20, " MiB"},
    {"quota_cpus", "thousandths of processors of its sessions", 1, ""},
    {"quota_disk", "disk space of its sessions", 1 << 20, " MiB"},
    {"quota_pids", "processes of its sessions", 1, ""},
    {"quota_snapshots", "snapshots", 1, ""},
    {"quota_ports", "exposed ports", 1, ""},
};

static_assert(sizeof(struct cay_quotas) == QUOTAS * sizeof(int64_t));

static bool check(const struct cay_host *host, const char *owner, size_t kind, int64_t used,
                  int64_t more, struct cay_error *err)
{
    int64_t most = ((const int64_t *)&host->quotas)[kind];
    if (!most || more <= 0 || used + more <= most)
        return true;
    cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
             "%s: owner '%.64s' may have %lld%s of %s, has %lld%s and asks for %lld%s more; remove "
             "some, or let an administrator raise %s",
             kinds[kind].key, owner, (long long)(most / kinds[kind].unit), kinds[kind].unit_name,
             kinds[kind].noun, (long long)(used / kinds[kind].unit), kinds[kind].unit_name,
             (long long)((more + kinds[kind].unit - 1) / kinds[kind].unit), kinds[kind].unit_name,
             kinds[kind].key);
    return false;
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

/* What the owner's sessions may use together. */
static struct cay_quotas sum_up(const struct cay_host *host, const char *owner,
                                const struct cay_session *except)
{
    struct cay_quotas sum = {};
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table) {
        if (session->is_gone || session == except || strcmp(session->owner, owner) != 0)
            continue;
        struct cay_quotas one = of_limits(session->spec ? session->spec->limits : NULL);
        for (size_t i = 0; i < QUOTAS; i++)
            ((int64_t *)&sum)[i] += ((int64_t *)&one)[i];
    }
    return sum;
}

static bool check_ceilings(const struct cay_host *host, const struct cay_v1_resource_limits *limits,
                           struct cay_error *err)
{
    int64_t memory = host->ceilings.memory_bytes;
    int64_t pids = host->ceilings.pids;
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
static bool has_limits(const struct cay_host *host, const struct cay_v1_resource_limits *limits,
                       struct cay_error *err)
{
    const struct {
        bool is_missing;
        const char *key;
        const char *flag;
    } rules[] = {
        {host->quotas.memory_bytes && !limits->has_memory_bytes, "quota_memory", "memory_bytes"},
        {host->quotas.cpu_millis && !limits->has_cpus, "quota_cpus", "cpus"},
        {host->quotas.disk_bytes && !limits->has_disk_bytes, "quota_disk", "disk_bytes"},
        {host->quotas.pids && !limits->has_pids, "quota_pids", "pids"},
    };
    for (size_t i = 0; i < CAY_COUNT(rules); i++) {
        if (rules[i].is_missing)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "limits.%s: a session needs this limit on a host with %s; set it",
                            rules[i].flag, rules[i].key);
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
    if (limits && !has_limits(host, limits, err))
        return false;
    struct cay_quotas used = sum_up(host, owner, changed);
    struct cay_quotas one = of_limits(limits);
    for (size_t i = 0; i < QUOTAS; i++) {
        if (!check(host, owner, i, ((int64_t *)&used)[i], ((int64_t *)&one)[i] * (int64_t)count,
                   err))
            return false;
    }
    return true;
}

bool cay_quotas_check_snapshot(const struct cay_session *session, const struct cay_caller *caller,
                               struct cay_error *err)
{
    const struct cay_host *host = session->host;
    int64_t used = 0;
    if (host->ceilings.snapshots &&
        (int64_t)cay_session_snapshot_count(session) >= host->ceilings.snapshots)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "session '%s' has %zu snapshots, as many as session_max_snapshots allows; "
                        "prune it, or set its max_snapshots, so that old ones go by themselves",
                        session->id, cay_session_snapshot_count(session));
    if (!caller || caller->role == CAY_ROLE_ADMIN || !host->quotas.snapshots)
        return true;
    cay_list_for_each (struct cay_session, each, &host->sessions.list, in_table) {
        if (!each->is_gone && strcmp(each->owner, session->owner) == 0)
            used += (int64_t)cay_session_snapshot_count(each);
    }
    return check(host, session->owner, 5, used, 1, err);
}

bool cay_quotas_check_port(const struct cay_session *session, const struct cay_caller *caller,
                           struct cay_error *err)
{
    const struct cay_host *host = session->host;
    int64_t used = 0;
    if (caller->role == CAY_ROLE_ADMIN || !host->quotas.ports)
        return true;
    cay_list_for_each (struct cay_session, each, &host->sessions.list, in_table) {
        if (each->is_gone || strcmp(each->owner, session->owner) != 0)
            continue;
        for (struct cay_list_node *node = cay_list_first(&each->ports); node;
             node = cay_list_next(&each->ports, node))
            used++;
    }
    return check(host, session->owner, 6, used, 1, err);
}

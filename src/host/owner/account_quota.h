/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What one owner may have of this host, and one session. The quotas of owners bind everybody but
 * administrators; the ceilings of sessions bind all. Loop thread only.
 */

#include "host/session/session.h"

enum {
    CAY_QUOTA_UNSET = -1, /* of an owner's own: the configuration's holds */
    CAY_QUOTA_KINDS = 9,
};

/* 0: no limit. All of one type: they are also walked, in the order of cay_quota_kinds. */
struct cay_quotas {
    int64_t sessions;
    int64_t memory_bytes; /* the sum of its sessions' limits; so with the next three, but */
    int64_t cpu_millis;
    int64_t disk_bytes; /* bases and what passes through take some, too */
    int64_t pids;
    int64_t snapshots;
    int64_t ports;
    int64_t bases;
    int64_t streams;
};

static inline int64_t *cay_quotas_at(struct cay_quotas *quotas, size_t kind)
{
    return (int64_t *)quotas + kind;
}

struct cay_quota_kind {
    const char *key;   /* of the configuration */
    const char *field; /* of cay.v1.QuotaLimits, and in the database */
    const char *flag;  /* of `cay quota set` */
    const char *noun;
    int64_t unit;     /* that the noun counts in */
    const char *less; /* what to do to have fewer */
};
extern const struct cay_quota_kind cay_quota_kinds[CAY_QUOTA_KINDS];

/* What holds for an owner: its own, else the configuration's. */
[[nodiscard]] struct cay_quotas cay_quotas_of(const struct cay_host *host, const char *owner);

/* What it has. */
[[nodiscard]] struct cay_quotas cay_quotas_used(const struct cay_host *host, const char *owner);

/* Of that, the disk space of its bases. */
[[nodiscard]] int64_t cay_quotas_bases_bytes(const struct cay_host *host, const char *owner);

/* verbs_quota.c: the owners' own, from the database. */
[[nodiscard]] bool cay_quotas_load(struct cay_host *host, struct cay_error *err);

/* Whether the owner may have `count` more sessions with these limits, or `changed` with them
 * instead of its own. `limits` may be NULL. */
[[nodiscard]] bool cay_quotas_check_sessions(const struct cay_host *host,
                                             const struct cay_caller *caller, const char *owner,
                                             const struct cay_v1_resource_limits *limits,
                                             size_t count, const struct cay_session *changed,
                                             struct cay_error *err);

/* One more. `caller` is NULL for what the daemon does by itself. */
[[nodiscard]] bool cay_quotas_check_snapshot(const struct cay_session *session,
                                             const struct cay_caller *caller,
                                             struct cay_error *err);
/* One more base, which counts from now on: others that are begun meanwhile may not be one too many.
 * `claim` is NULL for an administrator, whose bases are nobody's; let go of when the base is in the
 * table, or will not be. */
[[nodiscard]] bool cay_quotas_claim_base(struct cay_host *host, const struct cay_caller *caller,
                                         struct cay_account **out_claim, struct cay_error *err);
void cay_quotas_unclaim_base(struct cay_account *claim);
/* One more call that streams, which counts until it is answered. */
[[nodiscard]] bool cay_quotas_claim_stream(struct cay_host *host, struct cay_call *call,
                                           struct cay_error *err);
[[nodiscard]] bool cay_quotas_check_port(const struct cay_session *session,
                                         const struct cay_caller *caller, struct cay_error *err);

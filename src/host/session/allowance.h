/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What one owner may have of this host, and one session, as numbers. */

#include "base/base.h"

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

struct cay_ceilings {
    int64_t memory_bytes;
    int64_t pids;
    int64_t snapshots;
};

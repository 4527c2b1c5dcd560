/* SPDX-License-Identifier: Apache-2.0 */
#include "host/owner/account_disk.h"

#include "host/owner/account.h"
#include "host/owner/account_quota.h"
#include "host/session/host.h"

static int64_t left_beside(const struct cay_host *host, const char *owner, int64_t used_bytes)
{
    int64_t quota = cay_quotas_of(host, owner).disk_bytes;
    return quota ? CAY_MAX(quota - used_bytes, (int64_t)0) : INT64_MAX;
}

/* Without what is claimed. */
static int64_t left_beside_sessions(const struct cay_host *host, const char *owner)
{
    int64_t used = cay_quotas_bases_bytes(host, owner);
    cay_list_for_each (const struct cay_session, session, &host->sessions.list, in_table) {
        if (!session->is_gone && strcmp(session->owner, owner) == 0)
            used += session->quota.bytes;
    }
    return left_beside(host, owner, used);
}

static void begin(struct cay_disk_claim *claim, struct cay_account *account, int64_t bytes_max)
{
    claim->account = account;
    claim->taken_bytes = 0;
    claim->bytes_max = bytes_max;
}

void cay_disk_claim_begin(struct cay_disk_claim *claim, const struct cay_host *host,
                          const struct cay_caller *caller, struct cay_account *account)
{
    begin(claim, account,
          caller->role == CAY_ROLE_ADMIN ? INT64_MAX : left_beside_sessions(host, account->owner));
}

void cay_disk_claim_begin_base(struct cay_disk_claim *claim, const struct cay_host *host,
                               const struct cay_caller *caller, struct cay_account *account,
                               int64_t makes_way_bytes)
{
    int64_t used = cay_quotas_used(host, account->owner).disk_bytes - account->claimed_bytes;
    begin(claim, account,
          caller->role == CAY_ROLE_ADMIN
              ? INT64_MAX
              : left_beside(host, account->owner, used - makes_way_bytes));
}

void cay_disk_claim_again(struct cay_disk_claim *claim, const struct cay_host *host)
{
    if (claim->account && claim->bytes_max != INT64_MAX)
        claim->bytes_max = left_beside_sessions(host, claim->account->owner);
}

bool cay_disk_claim_fits(const struct cay_disk_claim *claim, int64_t bytes)
{
    return claim->account->claimed_bytes + bytes <= claim->bytes_max;
}

bool cay_disk_claim_take(struct cay_disk_claim *claim, int64_t bytes, struct cay_error *err)
{
    struct cay_account *account = claim->account;
    if (!account)
        return true;
    int64_t sum = atomic_fetch_add(&account->claimed_bytes, bytes) + bytes;
    if (sum > claim->bytes_max) {
        account->claimed_bytes -= bytes;
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "quota_disk: owner '%.64s' has no room on the disk for %lld MiB more; "
                        "remove sessions or bases, or let an administrator raise it: cay quota "
                        "set %.64s --disk N",
                        account->owner, (long long)((bytes + (1 << 20) - 1) >> 20), account->owner);
    }
    claim->taken_bytes += bytes;
    return true;
}

void cay_disk_claim_end(struct cay_disk_claim *claim)
{
    struct cay_account *account = cay_take_ptr(claim->account);
    if (account)
        account->claimed_bytes -= claim->taken_bytes;
    claim->taken_bytes = 0;
}

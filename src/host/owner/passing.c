/* SPDX-License-Identifier: Apache-2.0 */
#include "host/owner/passing.h"

#include <errno.h>
#include <sys/statvfs.h>

#include "host/owner/account.h"
#include "host/owner/space.h"
#include "host/session/host.h"
#include "host/session/tidy.h"
#include "host/store/spool.h"

void cay_passing_begin(struct cay_passing *passing, struct cay_host *host,
                       const struct cay_caller *caller, struct cay_account *account)
{
    passing->host = host;
    passing->fd = -1;
    cay_disk_claim_begin(&passing->claim, host, caller, account);
}

void cay_passing_end(struct cay_passing *passing)
{
    struct cay_host *host = cay_take_ptr(passing->host);
    if (!host)
        return;
    cay_host_close_later(host, cay_take_fd(passing->fd)); /* with the close it is freed */
    cay_disk_claim_end(&passing->claim);
}

void cay_passing_move(struct cay_passing *from, struct cay_passing *to)
{
    *to = *from;
    *from = (struct cay_passing){.fd = -1};
}

bool cay_passing_open(struct cay_passing *passing, const char *what, struct cay_error *err)
{
    if (passing->fd < 0)
        passing->fd = cay_spool_open(passing->host->data_fd);
    return passing->fd >= 0 || cay_fail_errno(err, CAY_R_NO_SPACE, passing->fd, "keep %s", what);
}

/* What its owner has claimed already is among what the disk has in use. */
static bool has_room(const struct cay_passing *passing, int64_t bytes)
{
    struct statvfs fs;
    if (fstatvfs(passing->fd, &fs) < 0)
        return false;
    const struct cay_pool_space space = {
        .used_bytes = (uint64_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize,
        .available_bytes = (uint64_t)fs.f_bavail * fs.f_frsize,
    };
    uint64_t kept = (uint64_t)(passing->claim.account->claimed_bytes + bytes);
    return kept <= cay_space_room(passing->host, &space);
}

bool cay_passing_take(struct cay_passing *passing, int64_t bytes, const char *what,
                      struct cay_error *err)
{
    if (!has_room(passing, bytes))
        return cay_fail(err, CAY_R_NO_SPACE,
                        "keep %s: the disk has too little room left; remove sessions, or send "
                        "less at a time",
                        what);
    return cay_disk_claim_take(&passing->claim, bytes, err);
}

bool cay_passing_write(struct cay_passing *passing, struct cay_str data, const char *what,
                       struct cay_error *err)
{
    if (!cay_passing_open(passing, what, err) ||
        !cay_passing_take(passing, (int64_t)data.len, what, err))
        return false;
    int rc = cay_spool_write(passing->fd, data.ptr, data.len);
    return rc == 0 || cay_fail_errno(err, rc == -ENOSPC ? CAY_R_NO_SPACE : CAY_R_INTERNAL, rc,
                                     "keep %s", what);
}

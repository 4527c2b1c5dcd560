/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/quota.h"

#include <inttypes.h>

#include "host/session/host.h"

enum { TELL_AFTER_MS = 1000 }; /* a session without limits was written to */

static bool is_kept_by_kernel(const struct cay_host *host)
{
    return cay_store_caps(host->store) & CAY_STORE_KERNEL_QUOTA;
}

bool cay_quota_is_limited(const struct cay_session *session)
{
    const struct cay_v1_resource_limits *limits = session->spec->limits;
    return limits->has_disk_bytes || limits->has_inodes;
}

bool cay_quota_set(struct cay_host *host, const char *store_id, int64_t bytes_max,
                   struct cay_error *err)
{
    return !is_kept_by_kernel(host) ||
           cay_store_set_quota(host->store, store_id, (uint64_t)bytes_max, err);
}

static bool fail_files(const struct cay_session *session, struct cay_error *err)
{
    const struct cay_quota *quota = &session->quota;
    return cay_fail(err, CAY_R_QUOTA_EXCEEDED,
                    "session '%s' has %" PRId64 " files, and its limit is %" PRId64
                    "; remove files, roll back, or raise the limit",
                    session->id, quota->files + quota->handed_files, session->spec->limits->inodes);
}

static bool fail_over(const struct cay_session *session, int64_t more, struct cay_error *err)
{
    const struct cay_quota *quota = &session->quota;
    const struct cay_v1_resource_limits *limits = session->spec->limits;
    if (quota->why)
        return cay_fail(err, CAY_R_QUOTA_EXCEEDED, "session '%s' %s; remove them or roll back",
                        session->id, quota->why);
    if (limits->has_inodes && quota->files > limits->inodes)
        return fail_files(session, err);
    return cay_fail(err, CAY_R_QUOTA_EXCEEDED,
                    "session '%s' uses %" PRId64 " bytes, and its limit is %" PRId64
                    "; remove files, roll back, or raise the limit",
                    session->id, quota->bytes + more, limits->disk_bytes);
}

bool cay_quota_check(const struct cay_session *session, struct cay_error *err)
{
    return !session->quota.is_over || fail_over(session, 0, err);
}

bool cay_quota_reserve(struct cay_session *session, int64_t bytes, struct cay_error *err)
{
    struct cay_quota *quota = &session->quota;
    const struct cay_v1_resource_limits *limits = session->spec->limits;
    if (!cay_quota_check(session, err))
        return false;
    int64_t more = quota->handed_bytes + quota->reserved_bytes;
    int64_t left = limits->has_disk_bytes ? limits->disk_bytes - quota->bytes - more : INT64_MAX;
    if (limits->has_inodes && quota->files + quota->handed_files > limits->inodes)
        return fail_files(session, err);
    if (bytes > left)
        return fail_over(session, more + CAY_MIN(bytes, limits->disk_bytes), err);
    quota->reserved_bytes += bytes;
    return true;
}

void cay_quota_release(struct cay_session *session, int64_t reserved_bytes, int64_t written_bytes,
                       int64_t written_files)
{
    session->quota.reserved_bytes -= reserved_bytes;
    session->quota.handed_bytes += written_bytes;
    session->quota.handed_files += written_files;
    cay_quota_touch(session);
}

void cay_quota_taker_init(struct cay_quota_taker *taker, struct cay_session *session)
{
    const struct cay_v1_resource_limits *limits = session->spec->limits;
    *taker = (struct cay_quota_taker){
        .quota = &session->quota,
        .bytes_max = limits->has_disk_bytes ? limits->disk_bytes : INT64_MAX,
        .files_max = limits->has_inodes ? limits->inodes : INT64_MAX,
    };
}

bool cay_quota_take(void *context, uint64_t bytes, uint64_t files)
{
    const struct cay_quota_taker *taker = context;
    struct cay_quota *quota = taker->quota;
    int64_t handed = atomic_fetch_add(&quota->handed_bytes, (int64_t)bytes) + (int64_t)bytes;
    int64_t handed_files = atomic_fetch_add(&quota->handed_files, (int64_t)files) + (int64_t)files;
    if (handed + quota->bytes + quota->reserved_bytes <= taker->bytes_max &&
        handed_files + quota->files <= taker->files_max)
        return true;
    quota->handed_bytes -= (int64_t)bytes;
    quota->handed_files -= (int64_t)files;
    return false;
}

void cay_quota_touch(struct cay_session *session)
{
    struct cay_quota *quota = &session->quota;
    uint64_t now_ms = cay_loop_now_ms(session->host->loop);
    if (!quota->is_dirty && !cay_quota_is_limited(session) &&
        quota->due_ms < now_ms + TELL_AFTER_MS)
        quota->due_ms = now_ms + TELL_AFTER_MS;
    quota->is_dirty = true;
}

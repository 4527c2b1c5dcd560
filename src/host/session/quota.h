/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Limits of bytes and files on disk. Where the store's file system has quotas the kernel keeps the
 * bytes: commands and tools get EDQUOT or ENOSPC, and measuring is only for telling. All else is
 * kept by measuring, on a worker: a session's layers, those of all its snapshots, and the files
 * without names that its processes hold, or readers (held.h). Who is over its limit has its
 * commands killed (cause: quota), and everything that adds to it refused until it is below again.
 */

#include "host/session/session.h"

/* Whether it has a limit of bytes or files. */
[[nodiscard]] bool cay_quota_is_limited(const struct cay_session *session);

/* On a worker: lets the kernel keep the limit of a tree, where it can; 0 is none. */
[[nodiscard]] bool cay_quota_set(struct cay_host *host, const char *store_id, int64_t bytes_max,
                                 struct cay_error *err);

/* For what adds to a session's files. QUOTA_EXCEEDED. */
[[nodiscard]] bool cay_quota_check(const struct cay_session *session, struct cay_error *err);

/* So many bytes are about to be written by the daemon: they count from now on, until they are
 * released with what became of them. QUOTA_EXCEEDED, and then nothing is reserved. */
[[nodiscard]] bool cay_quota_reserve(struct cay_session *session, int64_t bytes,
                                     struct cay_error *err);
void cay_quota_release(struct cay_session *session, int64_t reserved_bytes, int64_t written_bytes,
                       int64_t written_files);

/* For a worker that writes much at once, inside an operation on the session: what it takes counts
 * from then on. False, and nothing is taken, when a limit leaves no room. */
struct cay_quota_taker {
    struct cay_quota *quota;
    int64_t bytes_max, files_max;
};
void cay_quota_taker_init(struct cay_quota_taker *taker, struct cay_session *session);
bool cay_quota_take(void *taker, uint64_t bytes, uint64_t files);

/* Something of the session was or may have been written: an operation ended. */
void cay_quota_touch(struct cay_session *session);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Disk limits. Where the store's file system has quotas the kernel keeps them: commands and tools
 * get EDQUOT or ENOSPC, and measuring is only for telling. Elsewhere by measuring: every few
 * seconds the sessions that have a limit and a sandbox are measured on a worker. One that is over
 * it has its commands killed (cause: quota) and its writing tools refused until it is below again;
 * it may be exceeded for that long, no longer.
 */

#include "base/error.h"

struct cay_host;
struct cay_session;

void cay_quota_start(struct cay_host *host);
void cay_quota_stop(struct cay_host *host);

/* On a worker: lets the kernel keep the limit of a tree, where it can; 0 is none. */
[[nodiscard]] bool cay_quota_set(struct cay_host *host, const char *store_id, int64_t bytes_max,
                                 struct cay_error *err);

/* For what adds to a session's files. QUOTA_EXCEEDED. */
[[nodiscard]] bool cay_quota_check(const struct cay_session *session, struct cay_error *err);

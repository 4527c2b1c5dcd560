/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Disk limits where the store's file system has no quotas: by measuring. Every few seconds the
 * sessions that have a limit and a sandbox are measured on a worker. One that is over it has its
 * commands killed (cause: quota) and its writing tools refused until it is below again; it may be
 * exceeded for that long, no longer.
 */

#include "base/error.h"

struct cay_host;
struct cay_session;

void cay_quota_start(struct cay_host *host);
void cay_quota_stop(struct cay_host *host);

/* For what adds to a session's files. QUOTA_EXCEEDED. */
[[nodiscard]] bool cay_quota_check(const struct cay_session *session, struct cay_error *err);

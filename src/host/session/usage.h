/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a session uses, for the verbs that tell it. */

#include "host/session/session.h"

/* On the loop thread: what its sandbox uses, a few small files of the kernel. */
void cay_usage_read(const struct cay_session *session, struct cay_v1_session_usage *usage,
                    struct cay_arena *arena);
/* On a worker: what it holds on disk, which may be a walk over its files. */
void cay_usage_measure(struct cay_store *store, const char *store_id,
                       struct cay_v1_session_usage *out_usage);

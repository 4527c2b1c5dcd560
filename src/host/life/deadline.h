/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * When a session ends or sleeps by itself: at its deadline, or after a time without use. The rules
 * and the deadline are part of its record, so they hold across restarts: what fell due while no
 * daemon ran happens at the next start.
 */

#include "host/session/session.h"

/* Looks at the rules and at the time; to be called whenever either changed. */
void cay_deadline_set(struct cay_session *session);
/* What fell due could not be done: tries again soon. */
void cay_deadline_retry(struct cay_session *session);
/* A session that begins, or begins again: the deadline is its timeout from now. Not recorded. */
void cay_deadline_renew(struct cay_session *session);
/* Now plus so much, recorded in the background. */
void cay_deadline_expire_in(struct cay_session *session, int64_t delay_ms, bool is_extend_only);

/* For a spec that is being made: the deadline that `lifecycle` gives; NULL: none. */
struct google_protobuf_timestamp *cay_deadline_of(const struct cay_v1_lifecycle *lifecycle,
                                                  struct cay_arena *arena);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pausing and resuming. A session that is about to pause takes no new tools; those that run may
 * finish, or time runs out and everything is as before. Then its processes are frozen, or ended.
 * The freezer is the kernel's and init stands still too: a restarted daemon keeps such a sandbox
 * without talking to it (cay_session_is_resting) until the session is resumed.
 */

#include "host/session/op.h"

/* At the end of every tool call that was counted in tools_in_flight. */
void cay_pause_tool_ended(struct cay_session *session);

/* The daemon ends: a pause that still waits for tools is answered, and none. */
void cay_pause_leave(struct cay_session *session);

/* Without a caller, at a deadline: whatever runs is frozen or ended. A failure is logged. */
void cay_pause_now(struct cay_session *session, enum cay_v1_pause_mode mode, const char *why);

/* Without a caller: for a call that found the session paused. `resumed` runs exactly once, maybe
 * before this returns; err is NULL when the session is active. */
typedef void cay_resumed_fn(struct cay_session *session, void *context,
                            const struct cay_error *err);
void cay_resume_then(struct cay_session *session, cay_resumed_fn *resumed, void *context);
/* The same for a caller; a cold one is started anew. */
void cay_resume_for(struct cay_session *session, struct cay_call *call, bool is_cold,
                    cay_resumed_fn *resumed, void *context);

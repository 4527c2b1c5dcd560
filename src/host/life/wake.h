/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A session for a call that needs its tree or its sandbox: mounted, started, resumed. One operation
 * alone in the gate; an active session that a dead daemon left is woken so when somebody calls. */

#include "host/session/session.h"

/* Makes sure the tree is mounted and, if wanted, a sandbox runs; then calls `awake` with success or
 * with op->err filled. */
void cay_wake(struct cay_session *session, struct cay_call *call, bool needs_sandbox,
              void (*awake)(struct cay_call *call, struct cay_session *session, void *context,
                            const struct cay_error *err),
              void *context);

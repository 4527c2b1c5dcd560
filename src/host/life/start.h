/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The start command of a base: whenever a sandbox of the session is started (creation, fork, wake
 * after a stop, a loss or a reboot of the machine), it is the first process in it. Whoever makes,
 * forks or resumes a session also waits until the ready command of the base succeeds.
 */

#include "host/session/session.h"

#define CAY_START_TAG "start"
#define CAY_READY_TAG "ready"

/* On the loop thread, inside the gate: it waits there for whoever holds it now. */
void cay_start_soon(struct cay_session *session);

/* Calls back when the start command runs and the ready command of the base has succeeded, at once
 * where there is neither; err is NULL then. NOT_READY: it says why, with what was printed last. */
typedef void cay_ready_fn(struct cay_call *call, struct cay_session *session,
                          const struct cay_error *err);
void cay_start_wait(struct cay_session *session, struct cay_call *call, cay_ready_fn *ready);

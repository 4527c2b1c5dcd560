/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which processes of a session listen on which ports, told as events and in their status. Looked at
 * only while processes run: soon after one has started or ended, then less and less often while
 * nothing changes. A sandbox without processes costs nothing.
 */

#include "host/session/session.h"

/* A process has started or ended, or a sandbox was taken over. */
void cay_hearing_poke(struct cay_session *session);
/* The sandbox is gone. */
void cay_hearing_end(struct cay_session *session);

/* Ports of one process, in the arena. */
void cay_hearing_list(const struct cay_session *session, const char *process_id,
                      struct cay_arena *arena, struct cay_v1_process *message);

extern const struct cay_session_part cay_hearing_part;

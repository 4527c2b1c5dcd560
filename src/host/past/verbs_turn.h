/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Turns for other verbs. */

#include "host/session/host.h"

/* Takes a snapshot on behalf of a tool call that has ended; `taken` runs once, with
 * the snapshot's name or with what was wrong. */
typedef void cay_tool_snapshot_fn(void *context, const char *name, const struct cay_error *err);
void cay_snapshot_after_tool(struct cay_host *host, struct cay_call *call,
                             struct cay_str session_id, struct cay_str tool_call_id,
                             cay_tool_snapshot_fn *taken, void *context);

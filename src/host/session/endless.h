/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Calls that end only when something else does: followed events, attached processes, watches,
 * terminals, tunnels. A daemon that stops does not wait for them: they are cut with the reason
 * `daemon_restarting`, which tells a client to call again from where it was.
 */

#include "api/call.h"

struct cay_host;

/* From now on the client has what it needs to come back. Leaves by itself when the verb answers. */
void cay_host_endless(struct cay_host *host, struct cay_call *call);

/* The daemon is about to stop: they are cut, now and until it has stopped. */
void cay_host_cut_endless(struct cay_host *host);

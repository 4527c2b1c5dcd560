/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One connection to a port of a sandbox, carried through the daemon. */

#include "base/error.h"

struct cay_client;

/* Carries bytes between `fd`, a connected socket that does not block, and the port, both ways and
 * each half to its own end. Takes `fd`, and closes it: with a reset when it fails. A daemon that is
 * being restarted is waited for as long as nothing was said. CANCELED: whoever is at `fd` hung up.
 */
[[nodiscard]] bool cay_tunnel_run(struct cay_client *client, const char *session_id, uint16_t port,
                                  int fd, struct cay_error *err);

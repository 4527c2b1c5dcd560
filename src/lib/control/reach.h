/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which address leads from here to a daemon, and to the ports that it exposes. A daemon knows where
 * it listens, not how its callers come to it: "0.0.0.0" and "127.0.0.1" mean something else on
 * another machine.
 */

#include "api/cay_v1.h"
#include "base/error.h"

enum { CAY_PLACE_BYTES = 1088, CAY_REACH_BYTES = 320 };

/* Where a daemon is, as far as its URL says. */
struct cay_place {
    char address[CAY_PLACE_BYTES]; /* host:port, or unix:PATH */
    char host[CAY_PLACE_BYTES];    /* without brackets; empty for a Unix socket */
    bool is_local;                 /* a Unix socket, or a name or number of this machine */
};

/* Of a URL that a client has accepted. */
[[nodiscard]] bool cay_place_of(const char *url, struct cay_place *out_place,
                                struct cay_error *err);

/* Where to connect for an exposed port. Fails with FAILED_PRECONDITION when it can only be reached
 * on the daemon's machine, which is not ours. */
[[nodiscard]] bool cay_place_reach(const struct cay_place *place,
                                   const struct cay_v1_exposed_port *port,
                                   char out_address[static CAY_REACH_BYTES], struct cay_error *err);

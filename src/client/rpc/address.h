/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where a daemon is, as people write it: `unix:/run/cay/cayd.sock`, `http://host:port`,
 * `https://host`. Everything said about a wrong one says how to write it right.
 *
 * Order: parse -> use -> finish. A zeroed struct may be finished.
 */

#include "base/error.h"

struct cay_address {
    char *text;      /* as given, for error texts */
    char *unix_path; /* NULL for TCP */
    char *origin;    /* what a method's path is appended to; no '/' at its end */
    char *authority; /* host and port as given: the Host of a request */
    char *host;      /* without brackets; NULL for a Unix socket, as is the port */
    char *port;
    char *path;       /* of the origin, empty or with a '/' at its front */
    bool is_plain;    /* without TLS */
    bool is_loopback; /* a Unix socket, or a name or number of this machine */
};

[[nodiscard]] bool cay_address_parse(const char *url, struct cay_address *out_address,
                                     struct cay_error *err);
void cay_address_finish(struct cay_address *address);

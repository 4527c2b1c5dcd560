/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where a daemon is, as people write it: `unix:/run/cay/cayd.sock`, `http://host:port`,
 * `https://host`. Everything said about a wrong one says how to write it right.
 *
 * The struct owns nothing and may be copied.
 */

#include "base/error.h"

enum { CAY_URL_BYTES_MAX = 1024, CAY_HOST_BYTES_MAX = 255 };

struct cay_address {
    char text[CAY_URL_BYTES_MAX + 1];      /* as given, for error texts */
    char authority[CAY_URL_BYTES_MAX + 1]; /* host and port as given: the Host of a request */
    char path[CAY_URL_BYTES_MAX + 1];      /* before that of methods: empty, or '/' at its front */
    char unix_path[108];                   /* empty for TCP */
    char host[CAY_HOST_BYTES_MAX + 1];     /* without brackets; empty for a Unix socket */
    char port[6];                          /* the same */
    bool is_plain;                         /* without TLS */
    bool is_loopback;                      /* a Unix socket, or a name or number of this machine */
};

[[nodiscard]] bool cay_address_parse(const char *url, struct cay_address *out_address,
                                     struct cay_error *err);

/* "[::1]:80", "host:80", "host"; the port is "" where there is none. */
[[nodiscard]] bool cay_address_split(struct cay_str authority,
                                     char out_host[CAY_HOST_BYTES_MAX + 1], char out_port[6]);

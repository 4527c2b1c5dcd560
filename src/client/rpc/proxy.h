/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The proxy that the environment names for an address: http_proxy, https_proxy, all_proxy,
 * no_proxy. The upper case of http_proxy is not looked at: a server passes it on from a header of
 * whoever calls.
 */

#include "base/secret.h"
#include "client/rpc/address.h"

struct cay_proxy {
    char host[CAY_HOST_BYTES_MAX + 1]; /* empty: there is none */
    char port[6];
    char credentials[344]; /* "user:password" in base64; empty: none. Wiped with the client */
};

/* Reads the environment. False when it names a proxy of a kind that is not supported. */
[[nodiscard]] bool cay_proxy_find(const struct cay_address *address, struct cay_proxy *out_proxy,
                                  struct cay_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Addresses of IPv4 and IPv6, and ranges of them: "10.0.0.0/8", "fd00::/8", or one address alone.
 */

#include "base/base.h"

/* IPv4 or IPv6, in the order of the wire. */
struct cay_ip {
    int family;
    uint8_t bytes[16];
};

static inline size_t cay_ip_bytes(int family)
{
    return family == 2 /* AF_INET */ ? 4 : 16;
}

struct cay_subnet {
    struct cay_ip first; /* what is below the bits is 0 */
    unsigned bits;
};

enum { CAY_SUBNET_TEXT_SIZE = 64 };

/* False for anything else, also when bits below the range are set. */
[[nodiscard]] bool cay_subnet_parse(const char *text, struct cay_subnet *out_subnet);
void cay_subnet_format(const struct cay_subnet *subnet, char out_text[CAY_SUBNET_TEXT_SIZE]);
/* All of the inner one is in the outer one. */
[[nodiscard]] bool cay_subnet_covers(const struct cay_subnet *outer,
                                     const struct cay_subnet *inner);

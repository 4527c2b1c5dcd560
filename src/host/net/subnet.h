/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A range of addresses: "10.0.0.0/8", "fd00::/8", or one address alone. */

#include "sys/netdev.h"

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

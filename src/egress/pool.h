/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Addresses made up for names: 198.18.0.0/15 and fd00:e900::/32, the same number in both. */

#include "base/subnet.h"

void egress_pool_address(int family, uint32_t slot, struct cay_ip *out_address);
/* False for an address that is not of the pool. */
[[nodiscard]] bool egress_pool_slot(const struct cay_ip *address, uint32_t *out_slot);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is not the internet: this machine, private networks, where clouds keep their secrets, and
 * IPv4 dressed as IPv6. Sandboxes reach none of it unless somebody who may says so. The one list
 * of it: the rules of open networks (host/net) are written from it, and filtered ones ask it.
 */

#include "base/subnet.h"

/* Every closed range, of either family: start with a *cursor of 0. What is closed of IPv4 comes a
 * second time behind the well-known prefix of NAT64. False at the end. */
[[nodiscard]] bool cay_closed_next(size_t *cursor, struct cay_subnet *out_range);

/* All that there is of IPv6 outside; the rest of it is closed besides. */
enum { CAY_OUTSIDE6_COUNT = 2 };
extern const struct cay_subnet cay_outside6[CAY_OUTSIDE6_COUNT];

enum cay_guard {
    CAY_GUARD_NONE,   /* the internet, or a range that has some of it */
    CAY_GUARD_CLOSED, /* a rule that names it, or a part of it, opens it */
    CAY_GUARD_NEVER,  /* no rule opens it */
};

/* Of a range that lies in a guarded one entirely; *out_what (NULL: not wanted) is what that is:
 * "a private network". */
[[nodiscard]] enum cay_guard cay_guard_of(const struct cay_subnet *range, const char **out_what);

/* Is this an address that no name and no wide range leads to? */
[[nodiscard]] bool cay_address_is_guarded(const struct cay_ip *address);

/* The IPv4 address in one of NAT64's well-known prefix; false for every other address. */
[[nodiscard]] bool cay_address_embedded(const struct cay_ip *address, struct cay_ip *out_four);

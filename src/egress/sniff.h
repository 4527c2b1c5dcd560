/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the client of a connection says, as it is passed on: the name in a TLS hello, and the Host
 * of every request of HTTP, must be the name that the connection is for. Everything else is
 * somebody else's protocol and passes. Told of every byte, in pieces of any size.
 */

#include "base/base.h"
#include "wire/egress/egress.h"

struct egress_sniff {
    unsigned phase;
};

/* 0, or why the connection may not go on. `name` is empty when it is for an address. */
[[nodiscard]] enum cay_egress_why egress_sniff(struct egress_sniff *sniff, const char *name,
                                               const char *bytes, size_t len);
/* Is what it heard enough to pass something on? */
[[nodiscard]] bool egress_sniff_is_done(const struct egress_sniff *sniff);
void egress_sniff_finish(struct egress_sniff *sniff);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the client of a connection says, before it is passed on: the name in a TLS hello, and the
 * host of every request of HTTP, must be the name that the connection is for. Everything else is
 * somebody else's protocol and passes, and so does whatever is for an address.
 */

#include "wire/egress/egress.h"
#include "wire/hello.h"
#include "wire/http_host.h"

enum egress_sniff_phase {
    EGRESS_SNIFF_BEGIN,
    EGRESS_SNIFF_HTTP,
    EGRESS_SNIFF_INTERCEPT, /* a good hello, of a connection that is looked into */
    EGRESS_SNIFF_THROUGH,   /* nothing is looked at any more */
};

struct egress_sniff {
    enum egress_sniff_phase phase;
    bool intercepts; /* it is to be looked into: nothing but TLS will do */
    struct cay_hello_look look;
    struct cay_http_host http;
};

/* How many of the bytes, which are all that were not passed on yet, may be now; or why none ever
 * may, as a negative number. `name` is empty when it is for an address. */
[[nodiscard]] ssize_t egress_sniff(struct egress_sniff *sniff, const char *name, const char *bytes,
                                   size_t len);
/* The first bytes of an answer, for which a client may be waiting that wants to leave HTTP. True:
 * what is held back is to be looked at again. */
[[nodiscard]] bool egress_sniff_answered(struct egress_sniff *sniff, const char *bytes, size_t len);

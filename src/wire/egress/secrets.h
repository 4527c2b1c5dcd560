/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the helper of a filtered network puts into requests: inside the sandbox there is only a
 * placeholder, and the helper writes the value in its place, in one header of requests to one
 * name. The file that comes with SECRETS is a list of these; values are in no other frame, and in
 * nobody's arguments or environment.
 */

#include "base/buf.h"

enum {
    CAY_EGRESS_SECRETS_MAX = 64, /* of one session */
    CAY_EGRESS_HEADER_BYTES_MAX = 64,
    CAY_EGRESS_PLACEHOLDER_BYTES_MIN = 16, /* nobody writes so many by chance */
    CAY_EGRESS_PLACEHOLDER_BYTES_MAX = 128,
    CAY_EGRESS_VALUE_BYTES_MAX = 8 * 1024,
    CAY_EGRESS_SECRETS_BYTES_MAX = CAY_EGRESS_SECRETS_MAX * 9 * 1024,
};

struct cay_egress_secret {
    struct cay_str host;        /* one exact name of DNS, lower case */
    struct cay_str header;      /* lower case: "authorization" */
    struct cay_str placeholder; /* letters, digits and '-' */
    struct cay_str value;
};

struct cay_egress_secrets {
    struct cay_egress_secret *items;
    size_t count;
};

/* NULL, or what is wrong with it, as a clause: "the value has characters that no header may". */
[[nodiscard]] const char *cay_egress_secret_fault(const struct cay_egress_secret *secret);

void cay_egress_secret_put(struct cay_buf *out, const struct cay_egress_secret *secret);
/* Cuts the next from *rest, of which its texts are part; false at the end, and when there is no
 * whole and good one: then *rest is not empty. */
[[nodiscard]] bool cay_egress_secret_next(struct cay_str *rest,
                                          struct cay_egress_secret *out_secret);

/* Of a list whose texts are the heap's: overwrites and frees them, and leaves none. */
void cay_egress_secrets_finish(struct cay_egress_secrets *secrets);
/* Adds a copy, whose texts are the heap's. */
void cay_egress_secrets_add(struct cay_egress_secrets *secrets,
                            const struct cay_egress_secret *secret);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What somebody would connect to, as people write it: "https://example.org/x", "example.org:22",
 * "192.0.2.1", "[2001:db8::1]:443"; "POST https://example.org/x" is another request than GET. */

#include "egress/rules/rules.h"

struct cay_destination {
    bool is_address;
    struct cay_ip address;
    char name[CAY_NAME_SIZE]; /* empty for an address */
    uint16_t port;            /* the scheme's, or 443, when none is given */
    /* Of an https URL, borrowed from its text or constants; empty: it is a connection. */
    struct cay_str method, path;
};

/* Reason: INVALID_ARGUMENT. */
[[nodiscard]] bool cay_destination_parse(struct cay_str text, struct cay_destination *out,
                                         struct cay_error *err);

void cay_policy_decide(const struct cay_policy *policy, const struct cay_destination *destination,
                       struct cay_decision *out);

/* "example.org:443" */
enum { CAY_DESTINATION_TEXT_SIZE = 272 };
void cay_destination_format(const struct cay_destination *destination,
                            char out_text[CAY_DESTINATION_TEXT_SIZE]);

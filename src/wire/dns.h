/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Questions of DNS (RFC 1035), as a relay looks at them that passes on nothing but plain ones: an
 * ordinary query with one question in the class of the internet, no transfer of zones, and nothing
 * behind it but what says how large an answer may be (RFC 6891). Pure functions.
 */

#include "base/base.h"

enum {
    CAY_DNS_HEADER_BYTES = 12,
    CAY_DNS_MESSAGE_BYTES_MAX = 65535,
};

/* Codes of answers. */
enum cay_dns_code {
    CAY_DNS_GOOD = 0,
    CAY_DNS_MALFORMED = 1,
    CAY_DNS_FAILED = 2, /* nobody could be asked */
    CAY_DNS_UNKNOWN_KIND = 4,
    CAY_DNS_REFUSED = 5,
};

/* A message that is no question at all is not answered either. */
[[nodiscard]] bool cay_dns_is_question(const uint8_t *bytes, size_t len);

/* CAY_DNS_GOOD for a question that may be passed on, or how it is refused. */
[[nodiscard]] enum cay_dns_code cay_dns_check(const uint8_t *bytes, size_t len);

/* The answer of one code to a question that is not passed on, or that nobody answered. */
void cay_dns_refuse(const uint8_t *question, enum cay_dns_code code,
                    uint8_t out_answer[static CAY_DNS_HEADER_BYTES]);

/* Is it an answer, to a question of this number? */
[[nodiscard]] bool cay_dns_is_answer(const uint8_t *bytes, size_t len, const uint8_t id[static 2]);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Questions of DNS (RFC 1035), as a relay looks at them that passes on nothing but plain ones: an
 * ordinary query with one question in the class of the internet, no transfer of zones, and nothing
 * behind it but what says how large an answer may be (RFC 6891). Besides, what somebody needs who
 * answers questions for addresses himself, and asks them (dns_answer.c). Pure functions.
 */

#include "base/subnet.h"

enum {
    CAY_DNS_HEADER_BYTES = 12,
    CAY_DNS_MESSAGE_BYTES_MAX = 65535,
    CAY_DNS_NAME_SIZE = 256, /* in text, with a zero at its end */
    CAY_DNS_ADDRESSES_MAX = 16,
    /* An answer of our own, or a question. */
    CAY_DNS_OWN_BYTES_MAX = CAY_DNS_HEADER_BYTES + 255 + 4 + CAY_DNS_ADDRESSES_MAX * 28,
};

/* Codes of answers. */
enum cay_dns_code {
    CAY_DNS_GOOD = 0,
    CAY_DNS_MALFORMED = 1,
    CAY_DNS_FAILED = 2, /* nobody could be asked */
    CAY_DNS_NO_NAME = 3,
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

enum { CAY_DNS_TYPE_A = 1, CAY_DNS_TYPE_AAAA = 28 };

/* What is asked for. */
struct cay_dns_question {
    char name[CAY_DNS_NAME_SIZE]; /* lower case, without a dot at its end */
    uint16_t type;
    size_t len; /* of header and question: what an answer repeats */
};

/* Of a question that cay_dns_check finds good. False for names that text cannot say: with dots in
 * their parts, blanks, or what is not ASCII. */
[[nodiscard]] bool cay_dns_read_question(const uint8_t *bytes, size_t len,
                                         struct cay_dns_question *out);

/* The answer to it: none or all of these addresses, which are of the family that was asked for. How
 * long it is. */
[[nodiscard]] size_t cay_dns_write_answer(const uint8_t *question,
                                          const struct cay_dns_question *read,
                                          const struct cay_ip *addresses, size_t count,
                                          uint32_t ttl_s,
                                          uint8_t out[static CAY_DNS_OWN_BYTES_MAX]);

/* A question for the addresses of a name (text, as above); 0 when there is no such name. */
[[nodiscard]] size_t cay_dns_write_question(struct cay_str name, uint16_t type,
                                            const uint8_t id[static 2],
                                            uint8_t out[static CAY_DNS_OWN_BYTES_MAX]);

struct cay_dns_addresses {
    struct cay_ip list[CAY_DNS_ADDRESSES_MAX];
    size_t count; /* more are left out */
    bool is_cut;  /* the answer was too long for a datagram: ask by TCP */
};

/*
 * What somebody says to a question of ours: the addresses of the name, or of what it is another
 * name for, in as many steps as are usual. CAY_DNS_MALFORMED when this is no answer to it at all
 * (wait for another one); GOOD with no address when there are none of that type.
 */
[[nodiscard]] enum cay_dns_code cay_dns_read_answer(const uint8_t *bytes, size_t len,
                                                    const uint8_t *question, size_t question_len,
                                                    struct cay_dns_addresses *out);

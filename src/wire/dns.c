/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/dns.h"

enum {
    /* Places in the header. */
    FLAGS = 2,
    CODE = 3,
    QUESTIONS = 4,
    ANSWERS = 6,
    AUTHORITIES = 8,
    ADDITIONS = 10,

    IS_ANSWER = 0x80, /* in FLAGS */
    KIND = 0x78,      /* 0: a query */
    KEPT_FLAGS = 0x79,

    LABEL_BYTES_MAX = 63,
    NAME_BYTES_MAX = 255,

    CLASS_INTERNET = 1,
    TYPE_OPTIONS = 41,
    TYPE_META_FIRST = 249, /* keys, signatures, transfers (251, 252), mail boxes */
    TYPE_META_LAST = 254,
};

static unsigned number_at(const uint8_t *bytes, size_t at)
{
    return (unsigned)bytes[at] << 8 | bytes[at + 1];
}

bool cay_dns_is_question(const uint8_t *bytes, size_t len)
{
    return len >= CAY_DNS_HEADER_BYTES && !(bytes[FLAGS] & IS_ANSWER);
}

bool cay_dns_is_answer(const uint8_t *bytes, size_t len, const uint8_t id[static 2])
{
    return len >= CAY_DNS_HEADER_BYTES && bytes[FLAGS] & IS_ANSWER && memcmp(bytes, id, 2) == 0;
}

/* Where the name ends; 0 when it does not. A question has nothing before it to point to. */
static size_t skip_name(const uint8_t *bytes, size_t len, size_t at)
{
    size_t begin = at;
    while (at < len && bytes[at] && bytes[at] <= LABEL_BYTES_MAX)
        at += 1 + (size_t)bytes[at];
    return at < len && !bytes[at] && at + 1 - begin <= NAME_BYTES_MAX ? at + 1 : 0;
}

/* The one record that may follow: nameless, with options of any content. */
static bool is_options(const uint8_t *bytes, size_t len, size_t at)
{
    enum { FIXED = 11, TYPE = 1, LENGTH = 9 };
    return len - at >= FIXED && bytes[at] == 0 && number_at(bytes, at + TYPE) == TYPE_OPTIONS &&
           len - at - FIXED == number_at(bytes, at + LENGTH);
}

enum cay_dns_code cay_dns_check(const uint8_t *bytes, size_t len)
{
    if (!cay_dns_is_question(bytes, len))
        return CAY_DNS_MALFORMED;
    if (bytes[FLAGS] & KIND)
        return CAY_DNS_UNKNOWN_KIND;
    unsigned additions = number_at(bytes, ADDITIONS);
    if (number_at(bytes, QUESTIONS) != 1 || number_at(bytes, ANSWERS) != 0 ||
        number_at(bytes, AUTHORITIES) != 0 || additions > 1)
        return CAY_DNS_REFUSED;
    size_t at = skip_name(bytes, len, CAY_DNS_HEADER_BYTES);
    if (!at || len - at < 4)
        return CAY_DNS_MALFORMED;
    unsigned type = number_at(bytes, at);
    bool is_plain = type != TYPE_OPTIONS && (type < TYPE_META_FIRST || type > TYPE_META_LAST);
    if (!is_plain || number_at(bytes, at + 2) != CLASS_INTERNET)
        return CAY_DNS_REFUSED;
    at += 4;
    if (additions && !is_options(bytes, len, at))
        return CAY_DNS_REFUSED;
    return additions || at == len ? CAY_DNS_GOOD : CAY_DNS_MALFORMED;
}

void cay_dns_refuse(const uint8_t *question, enum cay_dns_code code,
                    uint8_t out_answer[static CAY_DNS_HEADER_BYTES])
{
    memset(out_answer, 0, CAY_DNS_HEADER_BYTES);
    memcpy(out_answer, question, 2);
    out_answer[FLAGS] = (uint8_t)((question[FLAGS] & KEPT_FLAGS) | IS_ANSWER);
    out_answer[CODE] = (uint8_t)code;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses: answers written, questions written, answers to these read. */
#include <assert.h>
#include <sys/socket.h>

#include "wire/dns.h"

enum {
    FLAGS = 2,
    CODE = 3,
    QUESTIONS = 4,
    ANSWERS = 6,

    IS_ANSWER = 0x80, /* in FLAGS */
    IS_CUT = 0x02,
    WANTS_RECURSION = 0x01,
    KIND = 0x78,
    HAS_RECURSION = 0x80, /* in CODE */
    CODE_MASK = 0x0F,

    LABEL_BYTES_MAX = 63,
    NAME_BYTES_MAX = 255,
    POINTER = 0xC0,
    QUESTION_TAIL = 4, /* type and class behind a name */
    RECORD_FIXED = 10, /* type, class, time to live, length behind a name */

    CLASS_INTERNET = 1,
    TYPE_OTHER_NAME = 5,

    RECORDS_MAX = 256,
    STEPS_MAX = 12, /* from a name to another */
    JUMPS_MAX = 64, /* of one name: each leads further to the front */
};

static unsigned number_at(const uint8_t *bytes, size_t at)
{
    return (unsigned)bytes[at] << 8 | bytes[at + 1];
}

static size_t put_number(uint8_t *out, unsigned value)
{
    out[0] = (uint8_t)(value >> 8);
    out[1] = (uint8_t)value;
    return 2;
}

static uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c + ('a' - 'A')) : c;
}

/* --- what others ask us --- */

bool cay_dns_read_question(const uint8_t *bytes, size_t len, struct cay_dns_question *out)
{
    size_t at = CAY_DNS_HEADER_BYTES;
    size_t text_len = 0;
    if (cay_dns_check(bytes, len) != CAY_DNS_GOOD)
        return false;
    for (size_t left; (left = bytes[at++]) > 0;) {
        if (text_len)
            out->name[text_len++] = '.';
        for (; left; left--) {
            uint8_t c = lower(bytes[at++]);
            if (c <= ' ' || c >= 0x7F || c == '.')
                return false;
            out->name[text_len++] = (char)c;
        }
    }
    out->name[text_len] = '\0';
    out->type = (uint16_t)number_at(bytes, at);
    out->len = at + QUESTION_TAIL;
    return true;
}

size_t cay_dns_write_answer(const uint8_t *question, const struct cay_dns_question *read,
                            const struct cay_ip *addresses, size_t count, uint32_t ttl_s,
                            uint8_t out[static CAY_DNS_OWN_BYTES_MAX])
{
    size_t len = read->len;
    assert(count <= CAY_DNS_ADDRESSES_MAX);
    memcpy(out, question, len);
    cay_dns_refuse(question, CAY_DNS_GOOD, out);
    out[CODE] |= HAS_RECURSION;
    put_number(out + QUESTIONS, 1);
    put_number(out + ANSWERS, (unsigned)count);
    for (size_t i = 0; i < count; i++) {
        size_t address_len = cay_ip_bytes(addresses[i].family);
        assert(read->type == (addresses[i].family == AF_INET ? CAY_DNS_TYPE_A : CAY_DNS_TYPE_AAAA));
        len += put_number(out + len, POINTER << 8 | CAY_DNS_HEADER_BYTES);
        len += put_number(out + len, read->type);
        len += put_number(out + len, CLASS_INTERNET);
        len += put_number(out + len, ttl_s >> 16);
        len += put_number(out + len, ttl_s & 0xFFFF);
        len += put_number(out + len, (unsigned)address_len);
        memcpy(out + len, addresses[i].bytes, address_len);
        len += address_len;
    }
    return len;
}

/* --- what we ask others --- */

size_t cay_dns_write_question(struct cay_str name, uint16_t type, const uint8_t id[static 2],
                              uint8_t out[static CAY_DNS_OWN_BYTES_MAX])
{
    size_t len = CAY_DNS_HEADER_BYTES;
    struct cay_str label;
    memset(out, 0, len);
    memcpy(out, id, 2);
    out[FLAGS] = WANTS_RECURSION;
    put_number(out + QUESTIONS, 1);
    if (name.len == 0 || name.len > NAME_BYTES_MAX - 2)
        return 0;
    while (cay_str_split(&name, '.', &label)) {
        if (label.len == 0 || label.len > LABEL_BYTES_MAX)
            return 0;
        out[len++] = (uint8_t)label.len;
        memcpy(out + len, label.ptr, label.len);
        len += label.len;
    }
    out[len++] = 0;
    len += put_number(out + len, type);
    return len + put_number(out + len, CLASS_INTERNET);
}

/* --- what they answer --- */

/* A name as on the wire, in lower case and in one piece. */
struct name {
    uint8_t bytes[NAME_BYTES_MAX];
    size_t len;
};

/* Where the bytes go on behind a name; 0 when it is none. Pointers lead to the front, always
 * further, so they end. */
static size_t read_name(const uint8_t *bytes, size_t len, size_t at, struct name *out)
{
    size_t end = 0;
    size_t front = at;
    out->len = 0;
    for (size_t jumps = 0; at < len && jumps <= JUMPS_MAX;) {
        size_t label = bytes[at];
        if (label >= POINTER) {
            if (len - at < 2)
                return 0;
            end = end ? end : at + 2;
            at = number_at(bytes, at) & ~(unsigned)(POINTER << 8);
            if (at >= front)
                return 0;
            front = at;
            jumps++;
            continue;
        }
        if (label > LABEL_BYTES_MAX || label >= len - at || out->len + 1 + label > NAME_BYTES_MAX)
            return 0;
        out->bytes[out->len++] = (uint8_t)label;
        for (size_t i = 0; i < label; i++)
            out->bytes[out->len++] = lower(bytes[at + 1 + i]);
        at += 1 + label;
        if (label == 0)
            return end ? end : at;
    }
    return 0;
}

static bool is_same(const struct name *a, const struct name *b)
{
    return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

struct record {
    struct name owner;
    unsigned type;
    size_t data;
    size_t data_len;
};

/* Behind the record; 0 when it is none. */
static size_t read_record(const uint8_t *bytes, size_t len, size_t at, struct record *out)
{
    at = read_name(bytes, len, at, &out->owner);
    if (!at || len - at < RECORD_FIXED)
        return 0;
    out->type = number_at(bytes, at + 2) == CLASS_INTERNET ? number_at(bytes, at) : 0;
    out->data_len = number_at(bytes, at + 8);
    out->data = at + RECORD_FIXED;
    return out->data_len <= len - out->data ? out->data + out->data_len : 0;
}

static void add_address(const uint8_t *data, size_t data_len, unsigned type,
                        struct cay_dns_addresses *out)
{
    struct cay_ip address = {.family = type == CAY_DNS_TYPE_A ? AF_INET : AF_INET6};
    if (data_len != cay_ip_bytes(address.family) || out->count == CAY_DNS_ADDRESSES_MAX)
        return;
    memcpy(address.bytes, data, data_len);
    out->list[out->count++] = address;
}

/* One walk over all records: the addresses of `name`, or its other name in *out_next. */
static bool walk(const uint8_t *bytes, size_t len, size_t at, unsigned type,
                 const struct name *name, struct name *out_next, struct cay_dns_addresses *out)
{
    unsigned count = number_at(bytes, ANSWERS);
    out_next->len = 0;
    for (unsigned i = 0; i < count && i < RECORDS_MAX; i++) {
        struct record record;
        at = read_record(bytes, len, at, &record);
        if (!at)
            return false;
        if (!is_same(&record.owner, name))
            continue;
        if (record.type == type)
            add_address(bytes + record.data, record.data_len, type, out);
        else if (record.type == TYPE_OTHER_NAME && !out_next->len &&
                 read_name(bytes, len, record.data, out_next) != record.data + record.data_len)
            return false;
    }
    return true;
}

static bool is_answer_to(const uint8_t *bytes, size_t len, const uint8_t *question,
                         size_t question_len)
{
    if (len < question_len || !cay_dns_is_answer(bytes, len, question) || bytes[FLAGS] & KIND ||
        number_at(bytes, QUESTIONS) != 1)
        return false;
    for (size_t i = CAY_DNS_HEADER_BYTES; i < question_len; i++) {
        if (lower(bytes[i]) != lower(question[i]))
            return false;
    }
    return true;
}

enum cay_dns_code cay_dns_read_answer(const uint8_t *bytes, size_t len, const uint8_t *question,
                                      size_t question_len, struct cay_dns_addresses *out)
{
    struct name name;
    struct name next;
    *out = (struct cay_dns_addresses){};
    if (question_len <= CAY_DNS_HEADER_BYTES + QUESTION_TAIL ||
        !is_answer_to(bytes, len, question, question_len))
        return CAY_DNS_MALFORMED;
    if (bytes[FLAGS] & IS_CUT) {
        out->is_cut = true;
        return CAY_DNS_GOOD;
    }
    unsigned code = bytes[CODE] & CODE_MASK;
    if (code != CAY_DNS_GOOD)
        return code == CAY_DNS_NO_NAME ? CAY_DNS_NO_NAME : CAY_DNS_FAILED;
    unsigned type = number_at(question, question_len - QUESTION_TAIL);
    if (read_name(bytes, question_len, CAY_DNS_HEADER_BYTES, &name) != question_len - QUESTION_TAIL)
        return CAY_DNS_MALFORMED;
    for (size_t step = 0; step <= STEPS_MAX; step++) {
        if (!walk(bytes, len, question_len, type, &name, &next, out)) {
            out->count = 0;
            return CAY_DNS_FAILED;
        }
        if (out->count || !next.len)
            return CAY_DNS_GOOD;
        name = next;
    }
    return CAY_DNS_FAILED;
}

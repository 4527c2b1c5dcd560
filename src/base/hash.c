/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <endian.h>

struct state {
    uint64_t a, b, c, d;
};

static uint64_t rotate(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static void round_once(struct state *s)
{
    s->a += s->b;
    s->c += s->d;
    s->b = rotate(s->b, 13) ^ s->a;
    s->d = rotate(s->d, 16) ^ s->c;
    s->a = rotate(s->a, 32);
    s->c += s->b;
    s->a += s->d;
    s->b = rotate(s->b, 17) ^ s->c;
    s->d = rotate(s->d, 21) ^ s->a;
    s->c = rotate(s->c, 32);
}

static void absorb(struct state *s, uint64_t word)
{
    s->d ^= word;
    round_once(s);
    s->a ^= word;
}

uint64_t cay_hash(const uint64_t key[2], struct cay_str data)
{
    /* The constants spell "somepseudorandomlygeneratedbytes"; the specification wants them. */
    struct state s = {
        .a = key[0] ^ 0x736f6d6570736575,
        .b = key[1] ^ 0x646f72616e646f6d,
        .c = key[0] ^ 0x6c7967656e657261,
        .d = key[1] ^ 0x7465646279746573,
    };
    size_t at = 0;
    for (; data.len - at >= sizeof(uint64_t); at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, data.ptr + at, sizeof(word));
        absorb(&s, le64toh(word));
    }
    uint64_t last = (uint64_t)data.len << 56;
    for (unsigned shift = 0; at < data.len; at++, shift += 8)
        last |= (uint64_t)(unsigned char)data.ptr[at] << shift;
    absorb(&s, last);
    s.c ^= 0xff;
    round_once(&s);
    round_once(&s);
    round_once(&s);
    return s.a ^ s.b ^ s.c ^ s.d;
}

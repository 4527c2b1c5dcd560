/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/search/literal.h"

#include <assert.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

/* How common a byte is in source code and prose, 0 to 255; roughly is enough. */
static unsigned char commonness(unsigned char byte)
{
    static const char by_rank[] = " etaoinsrlducpmfhg_.b(),y0v=x*;-w1\"2k/>:i3T4ESAICRNODL#"
                                  "+<[]{}PF586M79'jUBGH|&qzVWYKX!J\\Q%?@$Z~^`";
    static_assert(sizeof(by_rank) < 128, "ranks fit");
    if (byte == '\n' || byte == '\t')
        return 240;
    const char *found = byte ? strchr(by_rank, byte) : NULL;
    if (found)
        return (unsigned char)(255 - 2 * (found - by_rank));
    return byte >= 0x80 ? 40 : 10;
}

static unsigned char lower(unsigned char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (unsigned char)(byte | 0x20) : byte;
}

static bool is_letter(unsigned char byte)
{
    return lower(byte) >= 'a' && lower(byte) <= 'z';
}

unsigned cay_literal_rarity(struct cay_str text)
{
    unsigned rarity = 0;
    for (size_t i = 0; i < text.len; i++)
        rarity += 280u - commonness((unsigned char)text.ptr[i]);
    return rarity;
}

void cay_literal_init(struct cay_literal *literal, struct cay_str text, bool caseless)
{
    assert(text.len > 0 && text.len <= CAY_LITERAL_BYTES_MAX);
    *literal = (struct cay_literal){.len = text.len, .caseless = caseless};
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.ptr[i];
        literal->bytes[i] = caseless ? lower(byte) : byte;
    }
    size_t first = 0;
    for (size_t i = 1; i < literal->len; i++)
        if (commonness(literal->bytes[i]) < commonness(literal->bytes[first]))
            first = i;
    size_t second = first == 0 ? literal->len - 1 : 0;
    for (size_t i = 0; i < literal->len; i++)
        if (i != first && commonness(literal->bytes[i]) < commonness(literal->bytes[second]))
            second = i;
    literal->rare_at[0] = CAY_MIN(first, second);
    literal->rare_at[1] = CAY_MAX(first, second);
}

static bool equal_at(const struct cay_literal *literal, const char *at)
{
    if (!literal->caseless)
        return memcmp(at, literal->bytes, literal->len) == 0;
    for (size_t i = 0; i < literal->len; i++)
        if (lower((unsigned char)at[i]) != literal->bytes[i])
            return false;
    return true;
}

/* Byte by byte; for what is left at the end. */
static const char *find_slowly(const struct cay_literal *literal, const char *text, size_t len)
{
    for (size_t at = 0; at + literal->len <= len; at++)
        if (equal_at(literal, text + at))
            return text + at;
    return NULL;
}

#ifdef __x86_64__

/* Setting bit 5 makes an upper-case letter lower case; other bytes must not be touched. */
static char fold_bit(const struct cay_literal *literal, size_t at)
{
    return literal->caseless && is_letter(literal->bytes[at]) ? 0x20 : 0;
}

/* Both search all places below `limit`, a multiple of the block; *at is where they stopped. */
[[gnu::target("avx2")]] static const char *find_avx2(const struct cay_literal *literal,
                                                     const char *text, size_t limit, size_t *at)
{
    const size_t first_at = literal->rare_at[0];
    const size_t second_at = literal->rare_at[1];
    const __m256i first = _mm256_set1_epi8((char)literal->bytes[first_at]);
    const __m256i second = _mm256_set1_epi8((char)literal->bytes[second_at]);
    const __m256i fold_first = _mm256_set1_epi8(fold_bit(literal, first_at));
    const __m256i fold_second = _mm256_set1_epi8(fold_bit(literal, second_at));
    for (; *at < limit; *at += 32) {
        const char *block = text + *at;
        __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(block + first_at));
        __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(block + second_at));
        __m256i hit = _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_or_si256(a, fold_first), first),
                                       _mm256_cmpeq_epi8(_mm256_or_si256(b, fold_second), second));
        for (unsigned mask = (unsigned)_mm256_movemask_epi8(hit); mask; mask &= mask - 1)
            if (equal_at(literal, block + __builtin_ctz(mask)))
                return block + __builtin_ctz(mask);
    }
    return NULL;
}

static const char *find_sse2(const struct cay_literal *literal, const char *text, size_t limit,
                             size_t *at)
{
    const size_t first_at = literal->rare_at[0];
    const size_t second_at = literal->rare_at[1];
    const __m128i first = _mm_set1_epi8((char)literal->bytes[first_at]);
    const __m128i second = _mm_set1_epi8((char)literal->bytes[second_at]);
    const __m128i fold_first = _mm_set1_epi8(fold_bit(literal, first_at));
    const __m128i fold_second = _mm_set1_epi8(fold_bit(literal, second_at));
    for (; *at < limit; *at += 16) {
        const char *block = text + *at;
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(block + first_at));
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(block + second_at));
        __m128i hit = _mm_and_si128(_mm_cmpeq_epi8(_mm_or_si128(a, fold_first), first),
                                    _mm_cmpeq_epi8(_mm_or_si128(b, fold_second), second));
        for (unsigned mask = (unsigned)_mm_movemask_epi8(hit); mask; mask &= mask - 1)
            if (equal_at(literal, block + __builtin_ctz(mask)))
                return block + __builtin_ctz(mask);
    }
    return NULL;
}

/* Places 0 to places-1 may begin a match, and a block at any of them may be loaded as long as the
 * literal's last byte of the block's last place is inside the text. */
static const char *find_fast(const struct cay_literal *literal, const char *text, size_t places,
                             size_t *at)
{
    if (__builtin_cpu_supports("avx2"))
        return find_avx2(literal, text, places & ~(size_t)31, at);
    return find_sse2(literal, text, places & ~(size_t)15, at);
}

#else

static const char *find_fast(const struct cay_literal *literal, const char *text, size_t places,
                             size_t *at)
{
    const char rare = (char)literal->bytes[literal->rare_at[0]];
    while (!literal->caseless && *at < places) {
        const char *from = text + *at + literal->rare_at[0];
        const char *found = memchr(from, rare, places - *at);
        if (!found) {
            *at = places;
            return NULL;
        }
        *at = (size_t)(found - text) - literal->rare_at[0];
        if (equal_at(literal, text + *at))
            return text + *at;
        ++*at;
    }
    return NULL;
}

#endif

const char *cay_literal_find(const struct cay_literal *literal, const char *text, size_t len)
{
    if (len < literal->len)
        return NULL;
    if (literal->len == 1 && !(literal->caseless && is_letter(literal->bytes[0])))
        return memchr(text, literal->bytes[0], len);
    size_t at = 0;
    const char *found = find_fast(literal, text, len - literal->len + 1, &at);
    return found ? found : find_slowly(literal, text + at, len - at);
}

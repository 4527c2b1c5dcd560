/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

#include <errno.h>

static const char alphabet[64] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* The value of a character plus one, so that 0 means "not in the alphabet". */
/* clang-format off */
static const unsigned char value_plus_one[256] = {
    ['A'] = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26,
    ['a'] = 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52,
    ['0'] = 53, 54, 55, 56, 57, 58, 59, 60, 61, 62,
    ['+'] = 63, ['-'] = 63, ['/'] = 64, ['_'] = 64,
};
/* clang-format on */

size_t cay_base64_encoded_len(size_t len, bool padded)
{
    size_t rest = len % 3;
    return len / 3 * 4 + (!rest ? 0 : padded ? 4 : rest + 1);
}

void cay_base64_encode(struct cay_str bytes, bool padded, char *out)
{
    const unsigned char *in = (const unsigned char *)bytes.ptr;
    size_t len = bytes.len;
    for (; len >= 3; len -= 3, in += 3) {
        uint32_t group = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];
        *out++ = alphabet[group >> 18];
        *out++ = alphabet[(group >> 12) & 63];
        *out++ = alphabet[(group >> 6) & 63];
        *out++ = alphabet[group & 63];
    }
    if (!len)
        return;
    uint32_t group = (uint32_t)in[0] << 16 | (len == 2 ? (uint32_t)in[1] << 8 : 0);
    *out++ = alphabet[group >> 18];
    *out++ = alphabet[(group >> 12) & 63];
    if (len == 2)
        *out++ = alphabet[(group >> 6) & 63];
    else if (padded)
        *out++ = '=';
    if (padded)
        *out = '=';
}

void cay_base64_append(struct cay_buf *buf, struct cay_str bytes, bool padded)
{
    size_t len = cay_base64_encoded_len(bytes.len, padded);
    char *room = len ? cay_buf_reserve(buf, len) : NULL;
    if (!room)
        return;
    cay_base64_encode(bytes, padded, room);
    cay_buf_grew(buf, len);
}

size_t cay_base64_decoded_len_max(size_t len)
{
    return len / 4 * 3 + len % 4;
}

/* What is left after the padding, which is all there or not there at all. */
static bool strip_padding(struct cay_str *text)
{
    size_t padding = 0;
    while (padding < 2 && padding < text->len && text->ptr[text->len - 1 - padding] == '=')
        padding++;
    if (padding && text->len % 4)
        return false;
    text->len -= padding;
    return text->len % 4 != 1;
}

int cay_base64_decode(struct cay_str text, void *out, size_t *out_len)
{
    unsigned char *to = out;
    if (!strip_padding(&text))
        return -EINVAL;
    const unsigned char *in = (const unsigned char *)text.ptr;
    size_t len = text.len;
    for (; len >= 4; len -= 4, in += 4) {
        uint32_t a = value_plus_one[in[0]];
        uint32_t b = value_plus_one[in[1]];
        uint32_t c = value_plus_one[in[2]];
        uint32_t d = value_plus_one[in[3]];
        if (!a || !b || !c || !d)
            return -EINVAL;
        uint32_t group = (a - 1) << 18 | (b - 1) << 12 | (c - 1) << 6 | (d - 1);
        *to++ = (unsigned char)(group >> 16);
        *to++ = (unsigned char)(group >> 8);
        *to++ = (unsigned char)group;
    }
    if (len) {
        uint32_t a = value_plus_one[in[0]];
        uint32_t b = value_plus_one[in[1]];
        uint32_t c = len == 3 ? value_plus_one[in[2]] : 1;
        if (!a || !b || !c)
            return -EINVAL;
        uint32_t group = (a - 1) << 18 | (b - 1) << 12 | (c - 1) << 6;
        if (group & (len == 3 ? 0xFFu : 0xFFFFu))
            return -EINVAL;
        *to++ = (unsigned char)(group >> 16);
        if (len == 3)
            *to++ = (unsigned char)(group >> 8);
    }
    *out_len = (size_t)(to - (unsigned char *)out);
    return 0;
}

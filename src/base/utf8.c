/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#define HIGH_BITS       0x8080808080808080u
#define REPLACEMENT     "\xEF\xBF\xBD"
#define REPLACEMENT_LEN 3u

size_t cay_utf8_ascii_prefix(struct cay_str text)
{
    size_t at = 0;
    while (text.len - at >= 16) {
        uint64_t words[2];
        memcpy(words, text.ptr + at, sizeof(words));
        if ((words[0] | words[1]) & HIGH_BITS)
            break;
        at += sizeof(words);
    }
    while (at < text.len && (unsigned char)text.ptr[at] < 0x80)
        at++;
    return at;
}

static inline bool is_continuation(unsigned char byte)
{
    return (byte & 0xC0) == 0x80;
}

/* Two and three bytes in a row that are right, without a loop: nearly all text is that. 0 means
 * "look closer". */
static inline int common_step(const unsigned char *byte, size_t len)
{
    if (byte[0] >= 0xC2 && byte[0] < 0xE0)
        return len >= 2 && is_continuation(byte[1]) ? 2 : 0;
    if (byte[0] > 0xE0 && byte[0] < 0xF0 && byte[0] != 0xED)
        return len >= 3 && is_continuation(byte[1]) && is_continuation(byte[2]) ? 3 : 0;
    return 0;
}

int cay_utf8_step(const char *at, size_t len)
{
    const unsigned char *byte = (const unsigned char *)at;
    /* The second byte carries all the special cases: overlong forms, surrogates, the upper end. */
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    int need = 0;
    if (byte[0] < 0x80)
        return 1;
    if (byte[0] < 0xC2 || byte[0] > 0xF4)
        return -1;
    if (byte[0] < 0xE0) {
        need = 2;
    } else if (byte[0] < 0xF0) {
        need = 3;
        low = byte[0] == 0xE0 ? 0xA0 : 0x80;
        high = byte[0] == 0xED ? 0x9F : 0xBF;
    } else {
        need = 4;
        low = byte[0] == 0xF0 ? 0x90 : 0x80;
        high = byte[0] == 0xF4 ? 0x8F : 0xBF;
    }
    for (int i = 1; i < need; i++) {
        if ((size_t)i >= len || byte[i] < low || byte[i] > high)
            return -i;
        low = 0x80;
        high = 0xBF;
    }
    return need;
}

size_t cay_utf8_multibyte_prefix(struct cay_str text)
{
    size_t at = 0;
    while (at < text.len && (unsigned char)text.ptr[at] >= 0x80) {
        int step = common_step((const unsigned char *)text.ptr + at, text.len - at);
        if (!step)
            step = cay_utf8_step(text.ptr + at, text.len - at);
        if (step < 0)
            break;
        at += (size_t)step;
    }
    return at;
}

bool cay_utf8_valid(struct cay_str text)
{
    while (text.len) {
        size_t plain_len = cay_utf8_ascii_prefix(text);
        text.ptr += plain_len;
        text.len -= plain_len;
        size_t len = cay_utf8_multibyte_prefix(text);
        if (!plain_len && !len)
            return false;
        text.ptr += len;
        text.len -= len;
    }
    return true;
}

size_t cay_utf8_put(uint32_t code_point, char out[4])
{
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    if (code_point < 0x800) {
        out[0] = (char)(0xC0 | (code_point >> 6));
        out[1] = (char)(0x80 | (code_point & 0x3F));
        return 2;
    }
    if (code_point < 0x10000) {
        out[0] = (char)(0xE0 | (code_point >> 12));
        out[1] = (char)(0x80 | ((code_point >> 6) & 0x3F));
        out[2] = (char)(0x80 | (code_point & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | (code_point >> 18));
    out[1] = (char)(0x80 | ((code_point >> 12) & 0x3F));
    out[2] = (char)(0x80 | ((code_point >> 6) & 0x3F));
    out[3] = (char)(0x80 | (code_point & 0x3F));
    return 4;
}

size_t cay_utf8_repaired_len(struct cay_str text)
{
    size_t at = 0;
    size_t len = 0;
    if (cay_utf8_valid(text))
        return text.len;
    while (at < text.len) {
        size_t ascii = cay_utf8_ascii_prefix((struct cay_str){text.ptr + at, text.len - at});
        at += ascii;
        len += ascii;
        if (at == text.len)
            break;
        int step = cay_utf8_step(text.ptr + at, text.len - at);
        at += (size_t)(step < 0 ? -step : step);
        len += step < 0 ? REPLACEMENT_LEN : (size_t)step;
    }
    return len;
}

void cay_utf8_repair(struct cay_str text, char *out)
{
    size_t at = 0;
    while (at < text.len) {
        int step = cay_utf8_step(text.ptr + at, text.len - at);
        size_t len = (size_t)(step < 0 ? -step : step);
        memcpy(out, step < 0 ? REPLACEMENT : text.ptr + at, step < 0 ? REPLACEMENT_LEN : len);
        out += step < 0 ? REPLACEMENT_LEN : len;
        at += len;
    }
}

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

bool cay_utf8_valid(struct cay_str text)
{
    size_t at = 0;
    while (at < text.len) {
        if ((unsigned char)text.ptr[at] < 0x80) {
            at += cay_utf8_ascii_prefix((struct cay_str){text.ptr + at, text.len - at});
            continue;
        }
        int step = cay_utf8_step(text.ptr + at, text.len - at);
        if (step < 0)
            return false;
        at += (size_t)step;
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/names.h"

#include "base/utf8.h"

/* U+EF80 to U+EFFF are EE BE 80 to EE BF BF. */
static bool is_carrier(const char *at, int step)
{
    const unsigned char *byte = (const unsigned char *)at;
    return step == 3 && byte[0] == 0xEE && (byte[1] & 0xFE) == 0xBE;
}

void cay_names_encode(struct cay_buf *out, struct cay_str bytes)
{
    for (size_t at = 0; at < bytes.len;) {
        int step = cay_utf8_step(bytes.ptr + at, bytes.len - at);
        size_t len = (size_t)(step < 0 ? -step : step);
        if (step > 0 && !is_carrier(bytes.ptr + at, step)) {
            cay_buf_append(out, bytes.ptr + at, len);
        } else {
            for (size_t i = 0; i < len; i++) {
                char text[4];
                uint32_t c = 0xEF00u | (unsigned char)bytes.ptr[at + i];
                cay_buf_append(out, text, cay_utf8_put(c, text));
            }
        }
        at += len;
    }
}

void cay_names_decode(struct cay_buf *out, struct cay_str text)
{
    for (size_t at = 0; at < text.len;) {
        int step = cay_utf8_step(text.ptr + at, text.len - at);
        size_t len = (size_t)(step < 0 ? -step : step);
        const unsigned char *byte = (const unsigned char *)text.ptr + at;
        if (is_carrier(text.ptr + at, step))
            cay_buf_append_byte(out, (unsigned char)((byte[1] & 3) << 6 | (byte[2] & 0x3F)));
        else
            cay_buf_append(out, text.ptr + at, len);
        at += len;
    }
}

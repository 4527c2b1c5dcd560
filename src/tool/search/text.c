/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/search/text.h"

#include <string.h>

#include "base/utf8.h"

enum { BINARY_BYTES = 8192 }; /* a NUL among the first ones makes a file binary */

bool cay_text_is_binary(struct cay_str content)
{
    size_t len = CAY_MIN(content.len, (size_t)BINARY_BYTES);
    return len && memchr(content.ptr, '\0', len);
}

bool cay_text_append_line(struct cay_buf *text, struct cay_str line, size_t characters)
{
    size_t at = line.len;
    if (line.len > characters) {
        at = CAY_MIN(cay_utf8_ascii_prefix(line), characters);
        for (size_t count = at; count < characters && at < line.len; count++) {
            int step = cay_utf8_step(line.ptr + at, line.len - at);
            at += (size_t)(step > 0 ? step : -step);
        }
    }
    struct cay_str kept = {line.ptr, at};
    if (cay_utf8_valid(kept)) {
        cay_buf_append_str(text, kept);
    } else {
        size_t len = cay_utf8_repaired_len(kept);
        char *room = cay_buf_reserve(text, len);
        if (room)
            cay_utf8_repair(kept, room);
        cay_buf_grew(text, room ? len : 0);
    }
    if (at < line.len)
        cay_buf_append_text(text, "... (truncated)");
    return at < line.len;
}

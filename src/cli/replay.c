/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay.h"

#include <stdlib.h>
#include <string.h>

enum { ESCAPE = 0x1b, BELL = 0x07 };

/* ESC [ marker and numbers, a letter. */
static size_t control_length(struct cay_str text, bool *out_asks)
{
    size_t at = 2;
    while (at < text.len && text.ptr[at] >= 0x20 && text.ptr[at] <= 0x3f)
        at++;
    if (at == text.len)
        return 0;
    char marker = text.ptr[2];
    bool has_dollar = text.ptr[at - 1] == '$';
    long number = strtol(text.ptr + 2, NULL, 10); /* ends at the letter at the latest */
    switch (text.ptr[at]) {
    case 'c':
    case 'n':
    case 'x': *out_asks = true; break;
    case 'p': *out_asks = has_dollar; break;
    case 'q': *out_asks = marker == '>'; break;
    case 't': *out_asks = number >= 11 && number <= 21; break;
    case 'u': *out_asks = marker == '?'; break;
    default: break;
    }
    return at + 1;
}

/* ESC ] or ESC P, text, and BEL or ESC \. */
static size_t string_length(struct cay_str text, bool *out_asks)
{
    size_t at = 2;
    while (at < text.len && text.ptr[at] != BELL && text.ptr[at] != ESCAPE)
        at++;
    if (at == text.len)
        return 0;
    bool is_device = text.ptr[1] == 'P';
    struct cay_str body = {text.ptr + 2, at - 2};
    *out_asks = is_device ? body.len >= 2 && body.ptr[1] == 'q' && strchr("+$", body.ptr[0])
                          : body.len >= 2 && memcmp(body.ptr + body.len - 2, ";?", 2) == 0;
    bool is_long = text.ptr[at] == ESCAPE && at + 1 < text.len && text.ptr[at + 1] == '\\';
    return at + (text.ptr[at] == BELL ? 1 : is_long ? 2 : 0);
}

/* The length of a question that the text begins with. 0: it begins with none. */
static size_t question_length(struct cay_str text)
{
    bool asks = false;
    size_t len = 0;
    if (text.len < 3 || text.ptr[0] != ESCAPE)
        return 0;
    if (text.ptr[1] == '[')
        len = control_length(text, &asks);
    else if (text.ptr[1] == ']' || text.ptr[1] == 'P')
        len = string_length(text, &asks);
    return asks ? len : 0;
}

void cay_replay_clean(struct cay_buf *out, struct cay_str data)
{
    while (data.len) {
        size_t skipped = question_length(data);
        data.ptr += skipped;
        data.len -= skipped;
        if (skipped || !data.len)
            continue;
        const char *next = data.len > 1 ? memchr(data.ptr + 1, ESCAPE, data.len - 1) : NULL;
        size_t len = next ? (size_t)(next - data.ptr) : data.len;
        cay_buf_append(out, data.ptr, len);
        data.ptr += len;
        data.len -= len;
    }
}

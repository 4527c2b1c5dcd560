/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/e2b/multipart.h"

#include <errno.h>
#include <strings.h>

/* A delimiter begins with CR and has no other: a part of one that turns out not to be one can only
 * begin anew at the byte that did not fit. */

static bool is_boundary_byte(char byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= 'a' && byte <= 'z') || (byte && strchr("'()+_,-./:=? ", byte));
}

static struct cay_str skip_blanks(struct cay_str text)
{
    while (text.len && (text.ptr[0] == ' ' || text.ptr[0] == '\t'))
        text = (struct cay_str){text.ptr + 1, text.len - 1};
    return text;
}

static bool take_word(struct cay_str *text, const char *word)
{
    size_t len = strlen(word);
    if (text->len < len || strncasecmp(text->ptr, word, len) != 0)
        return false;
    *text = (struct cay_str){text->ptr + len, text->len - len};
    return true;
}

/* One `; name=value` of a header; the value is as written, quotes included. False at the end, or
 * at what is none: then *text is not empty. */
static bool take_parameter(struct cay_str *text, struct cay_str *out_name,
                           struct cay_str *out_value)
{
    struct cay_str rest = skip_blanks(*text);
    if (!rest.len || rest.ptr[0] != ';')
        return false;
    rest = skip_blanks((struct cay_str){rest.ptr + 1, rest.len - 1});
    const char *equals = memchr(rest.ptr, '=', rest.len);
    if (!rest.len || !equals)
        return false;
    *out_name = (struct cay_str){rest.ptr, (size_t)(equals - rest.ptr)};
    const char *at = equals + 1;
    const char *end = rest.ptr + rest.len;
    bool is_quoted = at < end && *at == '"';
    const char *stop = at + is_quoted;
    while (stop < end && (is_quoted ? *stop != '"' : *stop != ';')) {
        bool escapes =
            is_quoted && *stop == '\\' && stop + 1 < end && (stop[1] == '"' || stop[1] == '\\');
        stop += 1 + escapes;
    }
    if (is_quoted && stop >= end)
        return false;
    stop += is_quoted;
    *out_value = (struct cay_str){at, (size_t)(stop - at)};
    *text = (struct cay_str){stop, (size_t)(end - stop)};
    return true;
}

static bool is_name(struct cay_str name, const char *wanted)
{
    return name.len == strlen(wanted) && strncasecmp(name.ptr, wanted, name.len) == 0;
}

int cay_multipart_init(struct cay_multipart *reader, struct cay_str content_type)
{
    static const char prefix[] = "\r\n--";
    struct cay_str rest = skip_blanks(content_type);
    struct cay_str name;
    struct cay_str value;
    struct cay_str boundary = {};
    if (!take_word(&rest, "multipart/form-data"))
        return -EINVAL;
    while (take_parameter(&rest, &name, &value)) {
        if (is_name(name, "boundary"))
            boundary = value;
    }
    while (boundary.len && (boundary.ptr[boundary.len - 1] == ' '))
        boundary.len--;
    if (boundary.len >= 2 && boundary.ptr[0] == '"')
        boundary = (struct cay_str){boundary.ptr + 1, boundary.len - 2};
    if (!boundary.len || boundary.len > CAY_MULTIPART_BOUNDARY_MAX)
        return -EINVAL;
    for (size_t i = 0; i < boundary.len; i++) {
        if (!is_boundary_byte(boundary.ptr[i]))
            return -EINVAL;
    }
    *reader = (struct cay_multipart){.delimiter_len = sizeof(prefix) - 1 + boundary.len};
    memcpy(reader->delimiter, prefix, sizeof(prefix) - 1);
    memcpy(reader->delimiter + sizeof(prefix) - 1, boundary.ptr, boundary.len);
    reader->matched = 2; /* the first one needs no line end before it */
    return 0;
}

/* Content until the next delimiter. Without a piece: what was fed may be one, more will tell. */
static size_t feed_content(struct cay_multipart *reader, const char *bytes, size_t len,
                           struct cay_str *out_piece)
{
    size_t at = 0;
    while (at < len && reader->matched < reader->delimiter_len &&
           bytes[at] == reader->delimiter[reader->matched]) {
        reader->matched++;
        at++;
    }
    if (reader->matched == reader->delimiter_len || at == len)
        return at;
    if (reader->matched) {
        /* It was not one: these bytes are content. */
        *out_piece = (struct cay_str){reader->delimiter, reader->matched};
        reader->matched = 0;
        return at;
    }
    /* The byte here is no CR, or it would have matched. */
    const char *end = memchr(bytes + at, '\r', len - at);
    size_t stop = end ? (size_t)(end - bytes) : len;
    *out_piece = (struct cay_str){bytes + at, stop - at};
    return stop;
}

/* Quotes away, and what form writers escape put back. In place: it only gets shorter. */
static struct cay_str unquote(struct cay_multipart *reader, struct cay_str value)
{
    char *out = reader->head + (value.ptr - reader->head);
    size_t len = 0;
    bool is_quoted = value.len >= 2 && value.ptr[0] == '"';
    size_t at = is_quoted;
    size_t end = value.len - is_quoted;
    while (at < end) {
        struct cay_str rest = {value.ptr + at, end - at};
        if (rest.ptr[0] == '\\' && rest.len > 1 && (rest.ptr[1] == '"' || rest.ptr[1] == '\\')) {
            out[len++] = rest.ptr[1];
            at += 2;
        } else if (take_word(&rest, "%22") || take_word(&rest, "%0d") || take_word(&rest, "%0a")) {
            char last = value.ptr[at + 2];
            out[len++] = last == '2' ? '"' : (last | 0x20) == 'd' ? '\r' : '\n';
            at += 3;
        } else {
            out[len++] = value.ptr[at++];
        }
    }
    return (struct cay_str){out, len};
}

static int read_disposition(struct cay_multipart *reader, struct cay_str rest)
{
    struct cay_str name;
    struct cay_str value;
    rest = skip_blanks(rest);
    if (!take_word(&rest, "form-data"))
        return -EBADMSG;
    while (take_parameter(&rest, &name, &value)) {
        if (is_name(name, "name"))
            reader->name = unquote(reader, value);
        else if (is_name(name, "filename"))
            reader->filename = unquote(reader, value);
    }
    return skip_blanks(rest).len ? -EBADMSG : 0;
}

static int read_head(struct cay_multipart *reader)
{
    struct cay_str rest = {reader->head, reader->head_len};
    bool has_disposition = false;
    reader->name = reader->filename = (struct cay_str){};
    while (rest.len > 2) {
        const char *end = memmem(rest.ptr, rest.len, "\r\n", 2);
        struct cay_str line = {rest.ptr, end ? (size_t)(end - rest.ptr) : rest.len};
        size_t used = CAY_MIN(line.len + 2, rest.len);
        rest = (struct cay_str){rest.ptr + used, rest.len - used};
        if (!take_word(&line, "content-disposition:"))
            continue;
        if (has_disposition || read_disposition(reader, line) < 0)
            return -EBADMSG;
        has_disposition = true;
    }
    return has_disposition ? 0 : -EBADMSG;
}

static ssize_t feed_head(struct cay_multipart *reader, const char *bytes, size_t len,
                         enum cay_multipart_event *out_event)
{
    for (size_t at = 0; at < len; at++) {
        if (reader->head_len == sizeof(reader->head))
            return -EMSGSIZE;
        reader->head[reader->head_len++] = bytes[at];
        bool is_end = reader->head_len >= 2 &&
                      memcmp(reader->head + reader->head_len - 2, "\r\n", 2) == 0 &&
                      (reader->head_len == 2 ||
                       (reader->head_len >= 4 &&
                        memcmp(reader->head + reader->head_len - 4, "\r\n\r\n", 4) == 0));
        if (!is_end)
            continue;
        if (read_head(reader) < 0)
            return -EBADMSG;
        reader->state = CAY_MULTIPART_BODY;
        *out_event = CAY_MULTIPART_PART;
        return (ssize_t)at + 1;
    }
    return (ssize_t)len;
}

/* Behind a boundary: a line end, or the two dashes of the last one. Blanks may stand before it. */
static ssize_t feed_border(struct cay_multipart *reader, const char *bytes, size_t len,
                           enum cay_multipart_event *out_event)
{
    size_t at = 0;
    while (at < len && reader->border_len < sizeof(reader->border)) {
        bool is_blank = bytes[at] == ' ' || bytes[at] == '\t';
        if (!is_blank || reader->border_len)
            reader->border[reader->border_len++] = bytes[at];
        at++;
    }
    if (reader->border_len < sizeof(reader->border))
        return (ssize_t)at;
    if (memcmp(reader->border, "\r\n", 2) == 0) {
        reader->state = CAY_MULTIPART_HEAD;
        reader->head_len = 0;
    } else if (memcmp(reader->border, "--", 2) == 0) {
        reader->state = CAY_MULTIPART_OVER;
        *out_event = CAY_MULTIPART_END;
    } else {
        return -EBADMSG;
    }
    return (ssize_t)at;
}

ssize_t cay_multipart_feed(struct cay_multipart *reader, const char *bytes, size_t len,
                           enum cay_multipart_event *out_event, struct cay_str *out_piece)
{
    size_t used = 0;
    *out_event = CAY_MULTIPART_MORE;
    *out_piece = (struct cay_str){};
    switch (reader->state) {
    case CAY_MULTIPART_BORDER: return feed_border(reader, bytes, len, out_event);
    case CAY_MULTIPART_HEAD: return feed_head(reader, bytes, len, out_event);
    case CAY_MULTIPART_OVER: return (ssize_t)len;
    case CAY_MULTIPART_CLOSED:
        reader->state = CAY_MULTIPART_BORDER;
        *out_event = CAY_MULTIPART_PART_END;
        return 0;
    case CAY_MULTIPART_PREAMBLE:
    case CAY_MULTIPART_BODY: break;
    }
    used = feed_content(reader, bytes, len, out_piece);
    bool is_body = reader->state == CAY_MULTIPART_BODY;
    if (out_piece->len) {
        if (is_body)
            *out_event = CAY_MULTIPART_DATA;
        else
            *out_piece = (struct cay_str){};
    } else if (reader->matched == reader->delimiter_len) {
        reader->matched = 0;
        reader->border_len = 0;
        reader->state = is_body ? CAY_MULTIPART_CLOSED : CAY_MULTIPART_BORDER;
    }
    return (ssize_t)used;
}

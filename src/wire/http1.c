/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/http1.h"

#include <errno.h>

enum {
    METHOD_BYTES_MAX = 16,
    TARGET_BYTES_MAX = 8192,
};

static ssize_t refuse(struct cay_http1_fault *fault, int status, const char *text)
{
    *fault = (struct cay_http1_fault){status, text};
    return -1;
}

/* Cuts the next line off *rest. A line ends in CRLF; CR or LF anywhere else is an error. */
static bool next_line(struct cay_str *rest, struct cay_str *out_line)
{
    const char *end = memchr(rest->ptr, '\n', rest->len);
    if (!end || end == rest->ptr || end[-1] != '\r')
        return false;
    *out_line = (struct cay_str){rest->ptr, (size_t)(end - 1 - rest->ptr)};
    rest->len -= out_line->len + 2;
    rest->ptr = end + 1;
    return !memchr(out_line->ptr, '\r', out_line->len);
}

static bool is_target(struct cay_str target)
{
    for (size_t i = 0; i < target.len; i++) {
        unsigned char c = (unsigned char)target.ptr[i];
        if (c <= 0x20 || c >= 0x7F || c == '#')
            return false;
    }
    return target.len > 0;
}

/* Of a host and a port. User information is refused, as RFC 9110 4.2.4 advises. */
static bool is_authority(struct cay_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool is_alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!is_alnum && !strchr("-._~:[]", c))
            return false;
    }
    return text.len > 0;
}

/* origin-form, or absolute-form whose authority is dropped (the Host field must name it anyway). */
static bool split_target(struct cay_str target, struct cay_http1_head *head)
{
    if (target.ptr[0] != '/') {
        bool is_absolute = cay_str_starts(target, "http://") || cay_str_starts(target, "https://");
        if (!is_absolute)
            return false;
        const char *authority = (const char *)memchr(target.ptr, ':', target.len) + 3;
        size_t left = target.len - (size_t)(authority - target.ptr);
        /* "http://a?b/c" has no path, though it has a slash. */
        const char *slash = memchr(authority, '/', left);
        if (!slash || !is_authority((struct cay_str){authority, (size_t)(slash - authority)}))
            return false;
        target = (struct cay_str){slash, target.len - (size_t)(slash - target.ptr)};
    }
    const char *mark = memchr(target.ptr, '?', target.len);
    head->path = (struct cay_str){target.ptr, mark ? (size_t)(mark - target.ptr) : target.len};
    head->query = mark ? (struct cay_str){mark + 1, target.len - head->path.len - 1} : CAY_STR("");
    return true;
}

static ssize_t parse_request_line(struct cay_str line, struct cay_http1_head *head,
                                  struct cay_http1_fault *fault)
{
    struct cay_str target;
    struct cay_str version = line;
    if (!cay_str_split(&version, ' ', &head->method) || !cay_http_is_token(head->method) ||
        head->method.len > METHOD_BYTES_MAX)
        return refuse(fault, 400, "the request line has no valid method");
    if (!cay_str_split(&version, ' ', &target) || !version.ptr)
        return refuse(fault, 400, "the request line must be METHOD TARGET HTTP/1.1");
    if (target.len > TARGET_BYTES_MAX)
        return refuse(fault, 414, "the request target is longer than 8192 bytes");
    if (!is_target(target) || !split_target(target, head))
        return refuse(fault, 400, "the request target is not a path");
    head->is_version_1_0 = cay_str_is(version, "HTTP/1.0");
    if (!head->is_version_1_0 && !cay_str_is(version, "HTTP/1.1")) {
        if (cay_str_starts(version, "HTTP/"))
            return refuse(fault, 505, "only HTTP/1.0, HTTP/1.1 and HTTP/2 are spoken here");
        return refuse(fault, 400, "the request line must be METHOD TARGET HTTP/1.1");
    }
    return 0;
}

/* Which fields decide where the body and the connection end, counted so that a second one is
 * noticed. */
struct framing {
    bool must_close; /* said once, it counts whatever else is said */
    unsigned host_count;
    unsigned length_count;
    unsigned encoding_count;
};

/* Allowed around any value, but not every parser sees "chunked" before a tab. */
static bool has_tab(struct cay_str line)
{
    return memchr(line.ptr, '\t', line.len);
}

static ssize_t note_field(const struct cay_http_header *field, struct cay_str line,
                          struct cay_http1_head *head, struct framing *framing,
                          struct cay_http1_fault *fault)
{
    switch (field->name.len) {
    case 4:
        if (cay_str_equal_nocase(field->name, CAY_STR("host"))) {
            framing->host_count++;
            head->host = field->value;
        }
        break;
    case 6:
        if (cay_str_equal_nocase(field->name, CAY_STR("expect"))) {
            if (!cay_str_equal_nocase(field->value, CAY_STR("100-continue")))
                return refuse(fault, 417, "the only expectation met here is 100-continue");
            head->expects_continue = true;
        }
        break;
    case 10:
        if (cay_str_equal_nocase(field->name, CAY_STR("connection"))) {
            if (cay_http_list_has(field->value, "close"))
                framing->must_close = true;
            else if (head->is_version_1_0 && cay_http_list_has(field->value, "keep-alive"))
                head->keep_alive = true;
        }
        break;
    case 14:
        if (cay_str_equal_nocase(field->name, CAY_STR("content-length"))) {
            framing->length_count++;
            if (has_tab(line) || cay_str_to_u64(field->value, INT64_MAX, &head->content_length) < 0)
                return refuse(fault, 400, "Content-Length is not a number");
        }
        break;
    case 17:
        if (cay_str_equal_nocase(field->name, CAY_STR("transfer-encoding"))) {
            framing->encoding_count++;
            if (has_tab(line) || !cay_str_equal_nocase(field->value, CAY_STR("chunked")))
                return refuse(fault, 501, "the only transfer encoding taken here is chunked");
            head->is_chunked = true;
        }
        break;
    default: break;
    }
    return 0;
}

static ssize_t check_framing(const struct framing *framing, struct cay_http1_head *head,
                             struct cay_http1_fault *fault)
{
    if (framing->host_count > 1 || (framing->host_count == 0 && !head->is_version_1_0))
        return refuse(fault, 400, "a request needs exactly one Host field");
    if (framing->length_count > 1 || framing->encoding_count > 1)
        return refuse(fault, 400, "the length of the body is given twice");
    if (framing->length_count && framing->encoding_count)
        return refuse(fault, 400, "Content-Length and Transfer-Encoding exclude each other");
    if (framing->encoding_count && head->is_version_1_0)
        return refuse(fault, 400, "HTTP/1.0 has no Transfer-Encoding");
    head->has_body = head->is_chunked || head->content_length > 0;
    if (framing->must_close)
        head->keep_alive = false;
    if (head->is_version_1_0)
        head->expects_continue = false;
    return 0;
}

static ssize_t parse_field(struct cay_str line, struct cay_http_header *out_field,
                           struct cay_http1_fault *fault)
{
    const char *colon = memchr(line.ptr, ':', line.len);
    if (!colon)
        return refuse(fault, 400, "a header field has no colon");
    out_field->name = (struct cay_str){line.ptr, (size_t)(colon - line.ptr)};
    out_field->value =
        cay_str_trim((struct cay_str){colon + 1, line.len - out_field->name.len - 1});
    if (!cay_http_is_token(out_field->name))
        return refuse(fault, 400, "a header field name has a character it must not have");
    if (!cay_http_is_field_value(out_field->value))
        return refuse(fault, 400, "a header field value has a control character");
    return 0;
}

ssize_t cay_http1_parse_head(struct cay_str bytes, struct cay_http_header *headers,
                             size_t header_count_max, size_t head_bytes_max,
                             struct cay_http1_head *out_head, struct cay_http1_fault *out_fault)
{
    /* One empty line before a request is forgiven (RFC 9112 2.2). */
    size_t skipped = cay_str_starts(bytes, "\r\n") ? 2 : 0;
    struct cay_str rest = {bytes.ptr + skipped, bytes.len - skipped};
    const char *end = rest.len ? memmem(rest.ptr, rest.len, "\r\n\r\n", 4) : NULL;
    size_t head_len = end ? (size_t)(end - rest.ptr) + 4 : rest.len;
    if (head_len > head_bytes_max)
        return refuse(out_fault, 431, "the request head is larger than this server takes");
    if (!end) {
        /* A first line that cannot become a request need not wait for the rest of it. */
        struct cay_str line;
        const char *newline = rest.len ? memchr(rest.ptr, '\n', rest.len) : NULL;
        if (!newline)
            return 0;
        struct cay_http1_head head = {};
        if (!next_line(&rest, &line))
            return refuse(out_fault, 400, "lines end in CRLF");
        return parse_request_line(line, &head, out_fault);
    }
    rest.len = head_len - 2; /* without the empty line */
    struct cay_http1_head head = {.headers.items = headers};
    struct cay_str line;
    if (!next_line(&rest, &line))
        return refuse(out_fault, 400, "lines end in CRLF");
    if (parse_request_line(line, &head, out_fault) < 0)
        return -1;
    head.keep_alive = !head.is_version_1_0;
    struct framing framing = {};
    while (rest.len) {
        if (head.headers.count == header_count_max)
            return refuse(out_fault, 431,
                          "the request has more header fields than this server takes");
        struct cay_http_header *field = &headers[head.headers.count++];
        if (!next_line(&rest, &line))
            return refuse(out_fault, 400, "lines end in CRLF");
        if (parse_field(line, field, out_fault) < 0 ||
            note_field(field, line, &head, &framing, out_fault) < 0)
            return -1;
    }
    if (check_framing(&framing, &head, out_fault) < 0)
        return -1;
    *out_head = head;
    return (ssize_t)(skipped + head_len);
}

/* "HTTP/1.1 200 OK"; the text may be missing. */
static bool parse_status_line(struct cay_str line, struct cay_http1_answer *answer)
{
    struct cay_str version;
    struct cay_str status;
    uint64_t number = 0;
    if (!cay_str_split(&line, ' ', &version) || !cay_str_split(&line, ' ', &status))
        return false;
    if ((!cay_str_is(version, "HTTP/1.1") && !cay_str_is(version, "HTTP/1.0")) || status.len != 3 ||
        cay_str_to_u64(status, 599, &number) < 0 || number < 100)
        return false;
    answer->status = (int)number;
    return true;
}

static ssize_t note_answer_field(const struct cay_http_header *field,
                                 struct cay_http1_answer *answer, struct cay_http1_fault *fault)
{
    if (cay_str_equal_nocase(field->name, CAY_STR("content-length"))) {
        uint64_t length = 0;
        if (cay_str_to_u64(field->value, INT64_MAX, &length) < 0 ||
            (answer->has_length && length != answer->content_length))
            return refuse(fault, 502, "Content-Length of the answer makes no sense");
        answer->has_length = true;
        answer->content_length = length;
    } else if (cay_str_equal_nocase(field->name, CAY_STR("transfer-encoding"))) {
        if (answer->is_chunked || !cay_str_equal_nocase(field->value, CAY_STR("chunked")))
            return refuse(fault, 502, "the only transfer encoding of answers is chunked");
        answer->is_chunked = true;
    }
    return 0;
}

ssize_t cay_http1_parse_answer(struct cay_str bytes, struct cay_http_header *headers,
                               size_t header_count_max, size_t head_bytes_max,
                               struct cay_http1_answer *out_answer,
                               struct cay_http1_fault *out_fault)
{
    const char *end = bytes.len ? memmem(bytes.ptr, bytes.len, "\r\n\r\n", 4) : NULL;
    size_t head_len = end ? (size_t)(end - bytes.ptr) + 4 : bytes.len;
    if (head_len > head_bytes_max)
        return refuse(out_fault, 502, "the head of the answer is too large");
    if (!end)
        return 0;
    struct cay_str rest = {bytes.ptr, head_len - 2};
    struct cay_http1_answer answer = {.headers.items = headers};
    struct cay_str line;
    if (!next_line(&rest, &line) || !parse_status_line(line, &answer))
        return refuse(out_fault, 502, "the answer is not HTTP/1.1");
    while (rest.len) {
        if (answer.headers.count == header_count_max)
            return refuse(out_fault, 502, "the answer has too many header fields");
        struct cay_http_header *field = &headers[answer.headers.count++];
        if (!next_line(&rest, &line) || parse_field(line, field, out_fault) < 0)
            return refuse(out_fault, 502, "a header field of the answer is malformed");
        if (note_answer_field(field, &answer, out_fault) < 0)
            return -1;
    }
    /* Of the two, chunks say where the body ends. */
    if (answer.is_chunked)
        answer.has_length = false;
    *out_answer = answer;
    return (ssize_t)head_len;
}

enum chunk_state {
    CHUNK_SIZE = 0,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    TRAILER_START,
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    TRAILER_END_LF,
    CHUNKS_OVER,
};

enum {
    SIZE_DIGITS_MAX = 15,
    EXTENSION_BYTES_MAX = 256,
    TRAILER_BYTES_MAX = 8192,
};

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One byte of what is not chunk data. The next state, or -1 when the byte does not belong here. */
static int chunk_step(struct cay_http1_chunks *chunks, char c)
{
    switch ((enum chunk_state)chunks->state) {
    case CHUNK_SIZE: {
        int digit = hex_value(c);
        if (digit >= 0) {
            chunks->left = chunks->left << 4 | (uint64_t)digit;
            return ++chunks->size_digits <= SIZE_DIGITS_MAX ? CHUNK_SIZE : -1;
        }
        if (!chunks->size_digits)
            return -1;
        if (c == '\r')
            return CHUNK_SIZE_LF;
        return c == ';' ? CHUNK_EXTENSION : -1;
    }
    case CHUNK_EXTENSION:
        if (c == '\r')
            return CHUNK_SIZE_LF;
        if (((unsigned char)c < 0x20 && c != '\t') || c == 0x7F)
            return -1;
        return ++chunks->line_bytes <= EXTENSION_BYTES_MAX ? CHUNK_EXTENSION : -1;
    case CHUNK_SIZE_LF:
        chunks->size_digits = 0;
        chunks->line_bytes = 0;
        if (c != '\n')
            return -1;
        return chunks->left ? CHUNK_DATA : TRAILER_START;
    case CHUNK_DATA_CR: return c == '\r' ? CHUNK_DATA_LF : -1;
    case CHUNK_DATA_LF: return c == '\n' ? CHUNK_SIZE : -1;
    case TRAILER_START:
        if (c == '\r')
            return TRAILER_END_LF;
        if (c == ':')
            return -1;
        [[fallthrough]];
    case TRAILER_NAME:
        if (c != ':' && !cay_http_is_token((struct cay_str){&c, 1}))
            return -1;
        if (++chunks->line_bytes > TRAILER_BYTES_MAX)
            return -1;
        return c == ':' ? TRAILER_VALUE : TRAILER_NAME;
    case TRAILER_VALUE:
        if (c == '\r')
            return TRAILER_LF;
        if (((unsigned char)c < 0x20 && c != '\t') || c == 0x7F)
            return -1;
        return ++chunks->line_bytes <= TRAILER_BYTES_MAX ? TRAILER_VALUE : -1;
    case TRAILER_LF: return c == '\n' ? TRAILER_START : -1;
    case TRAILER_END_LF: return c == '\n' ? CHUNKS_OVER : -1;
    case CHUNK_DATA:
    case CHUNKS_OVER: break;
    }
    return -1;
}

ssize_t cay_http1_chunks_feed(struct cay_http1_chunks *chunks, const char *bytes, size_t len,
                              struct cay_str *out_data, bool *out_is_end)
{
    *out_data = (struct cay_str){};
    *out_is_end = false;
    size_t used = 0;
    while (used < len) {
        if (chunks->state == CHUNK_DATA) {
            size_t take = (size_t)CAY_MIN((uint64_t)(len - used), chunks->left);
            *out_data = (struct cay_str){bytes + used, take};
            chunks->left -= take;
            if (!chunks->left)
                chunks->state = CHUNK_DATA_CR;
            return (ssize_t)(used + take);
        }
        int next = chunk_step(chunks, bytes[used++]);
        if (next < 0)
            return -EBADMSG;
        chunks->state = (unsigned char)next;
        if (next == CHUNKS_OVER) {
            *out_is_end = true;
            break;
        }
    }
    return (ssize_t)used;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/http_host.h"

#include <errno.h>

enum {
    FIRST_LINE_MAX = 8 * 1024,
    BLANKS_MAX = 16, /* before the first line: some servers skip them */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_of_a_token(char c)
{
    return cay_http_is_token((struct cay_str){&c, 1});
}

/* "METHOD target HTTP/1.1" is told by its version: other protocols have lines of words, too. */
enum cay_http_looks cay_http_looks(const char *bytes, size_t len)
{
    size_t at = 0;
    while (at < len && is_blank(bytes[at]))
        at++;
    size_t word = at;
    if (at > BLANKS_MAX)
        return CAY_HTTP_LOOKS_OTHER;
    while (at < len && is_of_a_token(bytes[at]))
        at++;
    if (at == len)
        return at - word > FIRST_LINE_MAX ? CAY_HTTP_LOOKS_OTHER : CAY_HTTP_LOOKS_MORE;
    if (at == word || (bytes[at] != ' ' && bytes[at] != '\t'))
        return CAY_HTTP_LOOKS_OTHER;
    const char *end = memchr(bytes + at, '\n', len - at);
    size_t line_len = end ? (size_t)(end - bytes) - at : len - at;
    if (memmem(bytes + at, line_len, "HTTP/", 5))
        return CAY_HTTP_LOOKS_SO;
    if (end)
        return CAY_HTTP_LOOKS_OTHER;
    /* What may be a version could come behind all that anybody waits for: it is read as HTTP, and
     * refused as too long. */
    return line_len > FIRST_LINE_MAX ? CAY_HTTP_LOOKS_SO : CAY_HTTP_LOOKS_MORE;
}

void cay_http_host_init(struct cay_http_host *check, struct cay_str host)
{
    *check = (struct cay_http_host){};
    memcpy(check->host, host.ptr, CAY_MIN(host.len, sizeof(check->host) - 1));
}

/* "name" or "name:80"; one dot at the end of the name says nothing. */
static bool is_for(const struct cay_http_host *check, struct cay_str value)
{
    struct cay_str port = value;
    struct cay_str name = {};
    uint64_t number;
    (void)cay_str_split(&port, ':', &name);
    if (port.ptr && cay_str_to_u64(port, UINT16_MAX, &number) < 0)
        return false;
    if (name.len && name.ptr[name.len - 1] == '.')
        name.len--;
    return name.len && cay_str_equal_nocase(name, cay_str(check->host));
}

/* Servers go by the target when it has a host: only plain paths pass. */
static bool has_plain_target(struct cay_str bytes)
{
    const char *blank = memchr(bytes.ptr, ' ', bytes.len);
    return blank && (size_t)(blank + 1 - bytes.ptr) < bytes.len && blank[1] == '/';
}

static ssize_t feed_head(struct cay_http_host *check, struct cay_str bytes)
{
    struct cay_http_header fields[CAY_HTTP_HOST_FIELDS_MAX];
    struct cay_http1_head head;
    struct cay_http1_fault fault;
    ssize_t len = cay_http1_parse_head(bytes, fields, CAY_HTTP_HOST_FIELDS_MAX,
                                       CAY_HTTP_HOST_HEAD_MAX, &head, &fault);
    if (len <= 0)
        return len < 0 ? -EBADMSG : 0;
    if (!has_plain_target(bytes))
        return -EBADMSG;
    if (!is_for(check, head.host))
        return -EPERM;
    bool leaves = cay_http_header(&head.headers, "upgrade").ptr;
    if (leaves && (check->has_requested || head.has_body))
        return -EBADMSG;
    check->has_requested = true;
    check->is_waiting = leaves;
    check->body_left = head.content_length;
    check->is_chunked = head.is_chunked;
    check->chunks = (struct cay_http1_chunks){};
    return len;
}

static ssize_t feed_body(struct cay_http_host *check, struct cay_str bytes)
{
    if (check->is_chunked) {
        struct cay_str data;
        bool is_end = false;
        ssize_t used = cay_http1_chunks_feed(&check->chunks, bytes.ptr, bytes.len, &data, &is_end);
        check->is_chunked = !is_end;
        return used;
    }
    size_t used = CAY_MIN(check->body_left, (uint64_t)bytes.len);
    check->body_left -= used;
    return (ssize_t)used;
}

/* A request that was refused does not take those before it along: they are passed on first. */
ssize_t cay_http_host_feed(struct cay_http_host *check, const char *bytes, size_t len)
{
    size_t passed = 0;
    if (check->is_through)
        return (ssize_t)len;
    if (check->failure)
        return check->failure;
    while (passed < len && !check->is_waiting) {
        const struct cay_str rest = {bytes + passed, len - passed};
        bool is_body = check->is_chunked || check->body_left;
        ssize_t used = is_body ? feed_body(check, rest) : feed_head(check, rest);
        if (used < 0) { /* read a second time, it would be read from its middle */
            check->failure = (int)used;
            return passed ? (ssize_t)passed : used;
        }
        if (used == 0)
            break;
        passed += (size_t)used;
    }
    return (ssize_t)passed;
}

bool cay_http_host_answered(struct cay_http_host *check, const char *bytes, size_t len)
{
    static const char switched[] = "HTTP/1.1 101 ";
    size_t compared = CAY_MIN(len, sizeof(switched) - 1);
    bool is_alike = memcmp(bytes, switched, compared) == 0;
    if (is_alike && compared < sizeof(switched) - 1)
        return false;
    check->is_through = is_alike && check->is_waiting;
    check->is_waiting = false;
    return true;
}

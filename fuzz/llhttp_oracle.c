/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/llhttp_oracle.h"

#include <llhttp.h>

#include "base/buf.h"
#include "fuzz/fuzz.h"

struct seen {
    llhttp_t parser; /* first */
    struct cay_buf target;
    struct cay_buf body;
    uint64_t content_length;
    bool is_chunked;
    bool keep_alive;
    bool has_head;
    bool is_complete;
};

static int on_url(llhttp_t *parser, const char *at, size_t len)
{
    cay_buf_append(&((struct seen *)(void *)parser)->target, at, len);
    return 0;
}

static int on_head(llhttp_t *parser)
{
    struct seen *seen = (struct seen *)(void *)parser;
    seen->has_head = true;
    seen->content_length = parser->flags & F_CONTENT_LENGTH ? parser->content_length : 0;
    seen->is_chunked = parser->flags & F_CHUNKED;
    seen->keep_alive = llhttp_should_keep_alive(parser);
    return 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
    cay_buf_append(&((struct seen *)(void *)parser)->body, at, len);
    return 0;
}

static int on_complete(llhttp_t *parser)
{
    ((struct seen *)(void *)parser)->is_complete = true;
    return HPE_PAUSED;
}

/* It knows the methods by a list of its own, and CONNECT is not like the others. */
static bool is_known_method(struct cay_str method)
{
    static const char *const known[] = {"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"};
    for (size_t i = 0; i < CAY_COUNT(known); i++) {
        if (cay_str_is(method, known[i]))
            return true;
    }
    return false;
}

static void check_target(struct cay_str target, const struct cay_http1_head *head)
{
    /* Ours is the end of it: an authority before the path is dropped. */
    size_t len = head->path.len + (head->query.len ? head->query.len + 1 : 0);
    if (target.len && target.ptr[target.len - 1] == '?' && !head->query.len)
        target.len--;
    FUZZ_CHECK(target.len >= len);
    const char *ours = target.ptr + target.len - len;
    FUZZ_CHECK(memcmp(ours, head->path.ptr, head->path.len) == 0);
    FUZZ_CHECK(target.ptr[0] != '/' || target.len == len);
    if (head->query.len)
        FUZZ_CHECK(memcmp(ours + head->path.len + 1, head->query.ptr, head->query.len) == 0);
}

void llhttp_oracle_check(struct cay_str bytes, ssize_t head_len, const struct cay_http1_head *head,
                         struct cay_str body)
{
    if (!is_known_method(head->method) || cay_http_header(&head->headers, "upgrade").ptr)
        return;
    static llhttp_settings_t settings;
    llhttp_settings_init(&settings);
    settings.on_url = on_url;
    settings.on_headers_complete = on_head;
    settings.on_body = on_body;
    settings.on_message_complete = on_complete;
    struct seen seen = {};
    cay_buf_init(&seen.target, 1 << 20);
    cay_buf_init(&seen.body, 1 << 20);
    llhttp_init(&seen.parser, HTTP_REQUEST, &settings);
    enum llhttp_errno status = llhttp_execute(&seen.parser, bytes.ptr, (size_t)head_len);
    if (status != HPE_OK && status != HPE_PAUSED)
        fprintf(stderr, "llhttp: %s\n", llhttp_get_error_reason(&seen.parser));
    FUZZ_CHECK(status == HPE_OK || status == HPE_PAUSED);
    FUZZ_CHECK(seen.has_head);
    FUZZ_CHECK(seen.parser.http_major == 1);
    FUZZ_CHECK(seen.parser.http_minor == (head->is_version_1_0 ? 0 : 1));
    FUZZ_CHECK(seen.content_length == head->content_length);
    FUZZ_CHECK(seen.is_chunked == head->is_chunked);
    /* A tab is optional white space in a list (RFC 9110 5.6.3); llhttp takes it for part of the
     * word. */
    if (!memchr(bytes.ptr, '\t', (size_t)head_len))
        FUZZ_CHECK(!head->keep_alive || seen.keep_alive);
    FUZZ_CHECK(seen.is_complete == !head->has_body);
    check_target(cay_buf_str(&seen.target), head);
    /* A body that we took to its end must end there for it, too. */
    if (head->is_chunked && body.len) {
        struct cay_str rest = {bytes.ptr + head_len, bytes.len - (size_t)head_len};
        (void)llhttp_execute(&seen.parser, rest.ptr, rest.len);
        struct cay_str theirs = cay_buf_str(&seen.body);
        size_t both = CAY_MIN(theirs.len, body.len);
        FUZZ_CHECK(!both || memcmp(theirs.ptr, body.ptr, both) == 0);
    }
    cay_buf_finish(&seen.target);
    cay_buf_finish(&seen.body);
}

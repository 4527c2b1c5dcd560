/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <string.h>

#include "base/buf.h"
#include "wire/http1.h"
#ifdef FUZZ_LLHTTP
#include "fuzz/llhttp_oracle.h"
#endif

enum { FIELDS_MAX = 16, HEAD_BYTES_MAX = 4096, BODY_BYTES_MAX = 1 << 20 };

struct parsed {
    ssize_t len;
    struct cay_http1_head head;
    struct cay_http1_fault fault;
    struct cay_http_header fields[FIELDS_MAX];
};

static void parse(struct cay_str bytes, struct parsed *out)
{
    *out = (struct parsed){};
    out->len = cay_http1_parse_head(bytes, out->fields, FIELDS_MAX, HEAD_BYTES_MAX, &out->head,
                                    &out->fault);
}

static void check_inside(struct cay_str part, struct cay_str whole)
{
    FUZZ_CHECK(!part.len ||
               (part.ptr >= whole.ptr && part.ptr + part.len <= whole.ptr + whole.len));
}

static void check_head(struct cay_str bytes, const struct parsed *got)
{
    if (got->len < 0) {
        FUZZ_CHECK(got->fault.status >= 400 && got->fault.status < 600 && got->fault.text);
        return;
    }
    if (got->len == 0)
        return;
    struct cay_str whole = {bytes.ptr, (size_t)got->len};
    FUZZ_CHECK(whole.len <= bytes.len && whole.len <= HEAD_BYTES_MAX + 2);
    FUZZ_CHECK(got->head.path.len && got->head.path.ptr[0] == '/');
    check_inside(got->head.method, whole);
    check_inside(got->head.path, whole);
    check_inside(got->head.query, whole);
    check_inside(got->head.host, whole);
    FUZZ_CHECK(!(got->head.is_chunked && got->head.content_length));
    FUZZ_CHECK(got->head.headers.count <= FIELDS_MAX);
    for (size_t i = 0; i < got->head.headers.count; i++) {
        check_inside(got->fields[i].name, whole);
        check_inside(got->fields[i].value, whole);
        FUZZ_CHECK(cay_http_is_token(got->fields[i].name));
        FUZZ_CHECK(cay_http_is_field_value(got->fields[i].value));
    }
}

/* A prefix says "more", or refuses what the whole refuses; it never accepts another head. */
static void check_prefix(struct cay_str bytes, size_t cut, const struct parsed *whole)
{
    struct parsed part;
    parse((struct cay_str){bytes.ptr, cut}, &part);
    if (whole->len > 0 && cut >= (size_t)whole->len)
        FUZZ_CHECK(part.len == whole->len);
    else if (whole->len >= 0)
        FUZZ_CHECK(part.len == 0);
    else
        FUZZ_CHECK(part.len <= 0);
}

static ssize_t decode(struct cay_str bytes, size_t piece, struct cay_buf *out)
{
    struct cay_http1_chunks chunks = {};
    size_t used = 0;
    while (used < bytes.len) {
        struct cay_str data;
        bool is_end = false;
        size_t len = CAY_MIN(piece, bytes.len - used);
        ssize_t got = cay_http1_chunks_feed(&chunks, bytes.ptr + used, len, &data, &is_end);
        if (got < 0)
            return got;
        FUZZ_CHECK(got >= 1 && (size_t)got <= len);
        check_inside(data, bytes);
        cay_buf_append_str(out, data);
        used += (size_t)got;
        if (is_end)
            return (ssize_t)used;
    }
    return 0;
}

/* Whole and in pieces must give the same body and the same end. */
static void check_chunks(struct cay_str bytes, size_t piece, struct cay_buf *out)
{
    cay_auto(cay_buf_finish) struct cay_buf pieces;
    cay_buf_init(&pieces, BODY_BYTES_MAX);
    ssize_t whole = decode(bytes, SIZE_MAX, out);
    FUZZ_CHECK(decode(bytes, piece, &pieces) == whole);
    FUZZ_CHECK(cay_str_equal(cay_buf_str(out), cay_buf_str(&pieces)));
    FUZZ_CHECK(out->len <= bytes.len);
}

/* The first byte says how it is cut; the rest is a request. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct cay_str bytes = {(const char *)data + 1, size - 1};
    struct parsed got;
    parse(bytes, &got);
    check_head(bytes, &got);
    if (bytes.len)
        check_prefix(bytes, data[0] % (bytes.len + 1), &got);
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, BODY_BYTES_MAX);
    if (got.len <= 0) {
        check_chunks(bytes, 1 + data[0] % 7, &body);
        return 0;
    }
    struct cay_str rest = {bytes.ptr + got.len, bytes.len - (size_t)got.len};
    if (got.head.is_chunked)
        check_chunks(rest, 1 + data[0] % 7, &body);
#ifdef FUZZ_LLHTTP
    llhttp_oracle_check(bytes, got.len, &got.head, cay_buf_str(&body));
#endif
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/proxy/head.h"

#include "front/auth/auth.h"

/* Of one connection (RFC 9110 7.6.1), or written by us. */
static const char *const own[] = {
    "connection", "keep-alive",        "proxy-connection", "te",
    "trailer",    "transfer-encoding", "upgrade",          "content-length",
};

static bool is_own(struct cay_str name)
{
    for (size_t i = 0; i < CAY_COUNT(own); i++) {
        if (cay_str_equal_nocase(name, cay_str(own[i])))
            return true;
    }
    return false;
}

/* What Connection names goes no further either. */
static bool is_named(const struct cay_http_headers *headers, struct cay_str name)
{
    struct cay_str list = cay_http_header(headers, "connection");
    struct cay_str part;
    while (cay_str_split(&list, ',', &part)) {
        if (cay_str_equal_nocase(cay_str_trim(part), name))
            return true;
    }
    return false;
}

/* Credentials and addresses of ours are none of the program's business; an Authorization that is
 * not ours is the program's own. */
static bool is_for_us(const struct cay_http_header *field)
{
    const struct cay_str e2b = CAY_STR("e2b-");
    const struct cay_str start = {field->name.ptr, CAY_MIN(field->name.len, e2b.len)};
    return cay_str_equal_nocase(field->name, CAY_STR("host")) ||
           cay_str_equal_nocase(field->name, CAY_STR("expect")) ||
           cay_str_equal_nocase(start, e2b) || cay_auth_is_ours(field->name, field->value);
}

bool cay_e2b_proxy_is_upgrade(const struct cay_rest_request *request)
{
    const struct cay_exchange *exchange = request->exchange;
    return !exchange->is_http2 && !request->has_body &&
           cay_http_header(&exchange->headers, "upgrade").len &&
           cay_http_list_has(cay_http_header(&exchange->headers, "connection"), "upgrade");
}

static void write_field(struct cay_buf *out, struct cay_str name, struct cay_str value)
{
    cay_buf_append_str(out, name);
    cay_buf_append(out, ": ", 2);
    cay_buf_append_str(out, value);
    cay_buf_append(out, "\r\n", 2);
}

/* "a-${PORT}.b" with the port in its place. */
static void write_host(struct cay_buf *out, struct cay_str mask, uint16_t port)
{
    static const char place[] = "${PORT}";
    cay_buf_append_text(out, "Host: ");
    const char *at = memmem(mask.ptr, mask.len, place, sizeof(place) - 1);
    if (at) {
        const char *rest = at + sizeof(place) - 1;
        cay_buf_printf(out, "%.*s%u", (int)(at - mask.ptr), mask.ptr, port);
        cay_buf_append(out, rest, mask.len - (size_t)(rest - mask.ptr));
    } else {
        cay_buf_append_str(out, mask);
    }
    cay_buf_append(out, "\r\n", 2);
}

/* True: in chunks. */
static bool write_body_fields(const struct cay_rest_request *request, struct cay_buf *out)
{
    struct cay_str length = cay_http_header(&request->exchange->headers, "content-length");
    if (length.len)
        write_field(out, CAY_STR("Content-Length"), length);
    else if (request->has_body)
        cay_buf_append_text(out, "Transfer-Encoding: chunked\r\n");
    return !length.len && request->has_body;
}

bool cay_e2b_proxy_write_head(const struct cay_rest_request *request, struct cay_buf *out)
{
    const struct cay_exchange *exchange = request->exchange;
    const struct cay_v1_network_policy *network = cay_e2b_visit(request)->session->network;
    struct cay_str mask = network ? network->mask_request_host : (struct cay_str){};
    cay_buf_append_str(out, exchange->method);
    cay_buf_append_byte(out, ' ');
    cay_buf_append_str(out, exchange->path);
    if (exchange->query.len) {
        cay_buf_append_byte(out, '?');
        cay_buf_append_str(out, exchange->query);
    }
    cay_buf_append_text(out, " HTTP/1.1\r\n");
    write_host(out, mask.len ? mask : exchange->host, cay_e2b_visit(request)->port);
    for (size_t i = 0; i < exchange->headers.count; i++) {
        const struct cay_http_header *field = &exchange->headers.items[i];
        if (!is_own(field->name) && !is_for_us(field) && !is_named(&exchange->headers, field->name))
            write_field(out, field->name, field->value);
    }
    if (cay_e2b_proxy_is_upgrade(request)) {
        cay_buf_append_text(out, "Connection: Upgrade\r\n");
        write_field(out, CAY_STR("Upgrade"), cay_http_header(&exchange->headers, "upgrade"));
    } else {
        cay_buf_append_text(out, "Connection: close\r\n");
    }
    bool is_chunked = write_body_fields(request, out);
    cay_buf_append(out, "\r\n", 2);
    return is_chunked;
}

size_t cay_e2b_proxy_answer_headers(const struct cay_http1_answer *answer,
                                    struct cay_http_header out[CAY_LIMIT_HEADER_COUNT])
{
    size_t count = 0;
    for (size_t i = 0; i < answer->headers.count; i++) {
        const struct cay_http_header *field = &answer->headers.items[i];
        bool is_switch =
            answer->status == 101 && (cay_str_equal_nocase(field->name, CAY_STR("upgrade")) ||
                                      cay_str_equal_nocase(field->name, CAY_STR("connection")));
        if (is_switch || (!is_own(field->name) && !is_named(&answer->headers, field->name)))
            out[count++] = *field;
    }
    return count;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/http.h"

struct cay_str cay_http_header(const struct cay_http_headers *headers, const char *name)
{
    struct cay_str wanted = cay_str(name);
    for (size_t i = 0; i < headers->count; i++) {
        if (cay_str_equal_nocase(headers->items[i].name, wanted))
            return headers->items[i].value;
    }
    return (struct cay_str){};
}

const char *cay_http_status_text(int status)
{
    switch (status) {
    case 100: return "Continue";
    case 101: return "Switching Protocols";
    case 200: return "OK";
    case 201: return "Created";
    case 202: return "Accepted";
    case 204: return "No Content";
    case 206: return "Partial Content";
    case 301: return "Moved Permanently";
    case 302: return "Found";
    case 303: return "See Other";
    case 304: return "Not Modified";
    case 307: return "Temporary Redirect";
    case 308: return "Permanent Redirect";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 402: return "Payment Required";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 406: return "Not Acceptable";
    case 408: return "Request Timeout";
    case 409: return "Conflict";
    case 410: return "Gone";
    case 411: return "Length Required";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 416: return "Range Not Satisfiable";
    case 417: return "Expectation Failed";
    case 418: return "I'm a teapot";
    case 421: return "Misdirected Request";
    case 422: return "Unprocessable Content";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 499: return "Client Closed Request";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 502: return "Bad Gateway";
    case 503: return "Service Unavailable";
    case 504: return "Gateway Timeout";
    case 505: return "HTTP Version Not Supported";
    case 507: return "Insufficient Storage";
    default: return "Unknown";
    }
}

static bool is_token_char(unsigned char c)
{
    static const bool others[256] = {
        ['!'] = true,  ['#'] = true, ['$'] = true, ['%'] = true, ['&'] = true,
        ['\''] = true, ['*'] = true, ['+'] = true, ['-'] = true, ['.'] = true,
        ['^'] = true,  ['_'] = true, ['`'] = true, ['|'] = true, ['~'] = true,
    };
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || others[c];
}

bool cay_http_is_token(struct cay_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!is_token_char((unsigned char)text.ptr[i]))
            return false;
    }
    return text.len > 0;
}

bool cay_http_is_field_value(struct cay_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if ((c < 0x20 && c != '\t') || c == 0x7F)
            return false;
    }
    return true;
}

bool cay_http_list_has(struct cay_str list, const char *member)
{
    struct cay_str wanted = cay_str(member);
    struct cay_str part;
    while (cay_str_split(&list, ',', &part)) {
        if (cay_str_equal_nocase(cay_str_trim(part), wanted))
            return true;
    }
    return false;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static bool unescape(struct cay_str text, struct cay_arena *arena, struct cay_str *out_text)
{
    char *copy = cay_arena_alloc(arena, text.len + 1);
    if (!copy)
        return false;
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (c == '%') {
            int high = text.len - i > 2 ? hex_digit(text.ptr[i + 1]) : -1;
            int low = text.len - i > 2 ? hex_digit(text.ptr[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+') {
            c = ' ';
        }
        copy[len++] = c;
    }
    *out_text = (struct cay_str){copy, len};
    return true;
}

bool cay_http_query(struct cay_str query, const char *name, struct cay_arena *arena,
                    struct cay_str *out_value)
{
    struct cay_str pair;
    while (cay_str_split(&query, '&', &pair)) {
        struct cay_str key;
        if (!pair.len || !cay_str_split(&pair, '=', &key))
            continue;
        if (cay_str_is(key, name))
            return unescape(pair, arena, out_value);
    }
    return false;
}

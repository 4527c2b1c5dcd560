/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of requests: "GET https://api.example.org/repos/" with a '*' behind it. */
#include <stdio.h>

#include "egress/rules/rules_internal.h"

enum { METHOD_BYTES_MAX = 16, PATH_BYTES_MAX = 8 * 1024 };

static const char form[] = "a rule of requests is written METHOD https://name/path, as in GET "
                           "https://api.example.org/repos/*";

static bool wrong(char out_why[static RULE_WHY_SIZE], const char *why)
{
    snprintf(out_why, RULE_WHY_SIZE, "%s", why);
    return false;
}

bool rule_is_request(struct cay_str text)
{
    struct cay_str rest = text;
    struct cay_str method;
    return text.len && memchr(text.ptr, ' ', text.len) && cay_str_split(&rest, ' ', &method) &&
           rest.len > 3 && memmem(rest.ptr, rest.len, "://", 3);
}

static bool is_method(struct cay_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < 'A' || text.ptr[i] > 'Z')
            return cay_str_is(text, "*");
    }
    return text.len > 0 && text.len <= METHOD_BYTES_MAX;
}

static bool has_dots(struct cay_str path)
{
    struct cay_str part;
    while (cay_str_split(&path, '/', &part)) {
        if (cay_str_is(part, ".") || cay_str_is(part, ".."))
            return true;
    }
    return false;
}

static bool is_path(struct cay_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c <= ' ' || c >= 0x7F || c == '?' || c == '#' || c == '\\')
            return false;
    }
    return text.len > 0 && !has_dots(text);
}

bool rule_parse_request(struct cay_str text, struct rule *out, char name[static CAY_NAME_SIZE],
                        char out_why[static RULE_WHY_SIZE])
{
    static const struct cay_str scheme = CAY_STR("https://");
    struct cay_str rest = text;
    struct cay_str method;
    (void)cay_str_split(&rest, ' ', &method);
    if (!is_method(method))
        return wrong(out_why, "a method has capital letters, or is * for all of them; requests "
                              "are written GET https://api.example.org/repos/*");
    if (!cay_str_starts(rest, "https://"))
        return wrong(out_why, "requests can be told apart by https:// only");
    rest = (struct cay_str){rest.ptr + scheme.len, rest.len - scheme.len};
    const char *slash = rest.len ? memchr(rest.ptr, '/', rest.len) : NULL;
    const struct cay_str host = {rest.ptr, slash ? (size_t)(slash - rest.ptr) : rest.len};
    const struct cay_str path = {slash, slash ? rest.len - host.len : 0};
    if (!host.len || host.ptr[0] == '@' || !is_path(path))
        return wrong(out_why, form);
    if (!rule_parse(host, out, name, out_why))
        return false;
    if ((out->kind != RULE_NAME && out->kind != RULE_BELOW) || out->port_count > 1 ||
        (out->port_count && out->ports[0].first != out->ports[0].last))
        return wrong(out_why, "requests are to one name, or *.name, with one port at most");
    if (!out->port_count)
        out->ports[out->port_count++] = (struct ports){RULE_REQUEST_PORT, RULE_REQUEST_PORT};
    out->text = text;
    out->method = method;
    out->path = path;
    return true;
}

/* --- matching --- */

/* '*' is any text; nothing else is special. */
static bool matches(struct cay_str pattern, struct cay_str text)
{
    size_t at = 0;
    size_t in = 0;
    size_t star = SIZE_MAX;
    size_t resumed = 0;
    while (in < text.len) {
        if (at < pattern.len && pattern.ptr[at] == '*') {
            star = at++;
            resumed = in;
        } else if (at < pattern.len && pattern.ptr[at] == text.ptr[in]) {
            at++;
            in++;
        } else if (star != SIZE_MAX) {
            at = star + 1;
            in = ++resumed;
        } else {
            return false;
        }
    }
    while (at < pattern.len && pattern.ptr[at] == '*')
        at++;
    return at == pattern.len;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* As servers read it that take escapes apart first. */
static size_t unescape(struct cay_str path, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < path.len; i++) {
        int high = path.ptr[i] == '%' && path.len - i > 2 ? hex_value(path.ptr[i + 1]) : -1;
        int low = high < 0 ? -1 : hex_value(path.ptr[i + 2]);
        out[len++] = low < 0 ? path.ptr[i] : (char)(high << 4 | low);
        i += low < 0 ? 0 : 2;
    }
    return len;
}

/* As servers read it that take "//", "/./", "/../" and '\' for what they mean to some. In place.
 * The path begins with '/'. */
static size_t resolve(char *path, size_t len)
{
    size_t end = 0;
    size_t at = 0;
    while (at < len) {
        size_t from = ++at; /* behind a slash */
        while (at < len && path[at] != '/' && path[at] != '\\')
            at++;
        const struct cay_str part = {path + from, at - from};
        bool is_last = at == len;
        if (cay_str_is(part, "..")) {
            while (end && path[--end] != '/')
                ;
        } else if (part.len && !cay_str_is(part, ".")) {
            path[end] = '/';
            memmove(path + end + 1, part.ptr, part.len);
            end += part.len + 1;
            continue;
        }
        if (is_last)
            path[end++] = '/';
    }
    return end;
}

bool rule_covers_request(const struct rule *rule, struct cay_str method, struct cay_str path,
                         bool is_any)
{
    char plain[PATH_BYTES_MAX];
    char straight[PATH_BYTES_MAX];
    char both[PATH_BYTES_MAX];
    if (!cay_str_is(rule->method, "*") && !cay_str_equal(rule->method, method))
        return false;
    if (!path.len || path.len > PATH_BYTES_MAX || path.ptr[0] != '/')
        return is_any;
    size_t plain_len = unescape(path, plain);
    memcpy(straight, path.ptr, path.len);
    memcpy(both, plain, plain_len);
    const struct cay_str readings[] = {path,
                                       {plain, plain_len},
                                       {straight, resolve(straight, path.len)},
                                       {both, resolve(both, plain_len)}};
    for (size_t i = 0; i < CAY_COUNT(readings); i++) {
        if (matches(rule->path, readings[i]) == is_any)
            return is_any;
    }
    return !is_any;
}

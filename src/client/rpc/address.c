/* SPDX-License-Identifier: Apache-2.0 */
#include "client/rpc/address.h"

#include <stdio.h>
#include <sys/un.h>

static bool parse_unix(struct cay_str path, struct cay_address *out, struct cay_error *err)
{
    /* unix:///run/x is how some other tools write unix:/run/x. */
    if (cay_str_starts(path, "///")) {
        path.ptr += 2;
        path.len -= 2;
    }
    static_assert(sizeof(out->unix_path) == sizeof(((struct sockaddr_un *)0)->sun_path));
    if (!path.len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "the address 'unix:' names no socket; write unix:/run/cay/cayd.sock");
    if (path.len >= sizeof(out->unix_path))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "the socket path '%.100s…' is too long: a Unix socket's has at most %zu "
                        "characters",
                        path.ptr, sizeof(out->unix_path) - 1);
    memcpy(out->unix_path, path.ptr, path.len);
    snprintf(out->authority, sizeof(out->authority), "localhost");
    out->is_plain = true;
    out->is_loopback = true;
    return true;
}

static bool names_loopback(const char *host)
{
    return cay_str_equal_nocase(cay_str(host), CAY_STR("localhost")) ||
           strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

static bool no_scheme(const char *url, struct cay_error *err)
{
    return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "the address '%.80s' has no scheme; write %s%.80s, or http:// or https:// and "
                    "a host",
                    url, *url == '/' || *url == '.' ? "unix:" : "http://", url);
}

static bool is_host_byte(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           strchr("-._~%", c);
}

bool cay_address_split(struct cay_str authority, char out_host[CAY_HOST_BYTES_MAX + 1],
                       char out_port[6])
{
    const char *text = authority.ptr;
    const char *stop = text + authority.len;
    const char *end = text;
    bool is_number = authority.len && *text == '[';
    if (is_number) {
        text = ++end;
        while (end < stop && strchr("0123456789abcdefABCDEF:.%", *end))
            end++;
    } else {
        while (end < stop && is_host_byte(*end))
            end++;
    }
    size_t len = (size_t)(end - text);
    if (!len || len > CAY_HOST_BYTES_MAX || (is_number && (end == stop || *end++ != ']')) ||
        (end < stop && *end != ':'))
        return false;
    memcpy(out_host, text, len);
    out_host[len] = '\0';
    out_port[0] = '\0';
    if (end == stop)
        return true;
    uint64_t port = 0;
    if (cay_str_to_u64((struct cay_str){end + 1, (size_t)(stop - end) - 1}, 65535, &port) < 0 ||
        !port)
        return false;
    snprintf(out_port, 6, "%u", (unsigned)port);
    return true;
}

static bool parse_http(const char *url, struct cay_address *out, struct cay_error *err)
{
    const char *start = strstr(url, "://") + 3;
    const char *end = start + strcspn(start, "/?#");
    out->is_plain = cay_str_starts(cay_str(url), "http://");
    memcpy(out->authority, start, (size_t)(end - start));
    if (strchr(out->authority, '@'))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "the address must not hold a user or password; the API key is given apart "
                        "from it");
    if (strpbrk(end, "?#"))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "the address '%.80s' must end with the host, a port or a path", url);
    if (!cay_address_split(cay_str(out->authority), out->host, out->port) ||
        strpbrk(end, " \t\r\n"))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "the address '%.80s' is not valid; write http://HOST:PORT or https://HOST",
                        url);
    if (!*out->port)
        snprintf(out->port, sizeof(out->port), "%s", out->is_plain ? "80" : "443");
    size_t len = strlen(end);
    while (len && end[len - 1] == '/')
        len--;
    memcpy(out->path, end, len);
    out->is_loopback = names_loopback(out->host);
    return true;
}

bool cay_address_parse(const char *url, struct cay_address *out_address, struct cay_error *err)
{
    struct cay_address address = {};
    struct cay_str text = cay_str(url);
    bool done = false;
    if (text.len > CAY_URL_BYTES_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the address is longer than %d characters",
                        CAY_URL_BYTES_MAX);
    if (cay_str_starts(text, "unix:"))
        done = parse_unix((struct cay_str){text.ptr + 5, text.len - 5}, &address, err);
    else if (cay_str_starts(text, "http://") || cay_str_starts(text, "https://"))
        done = parse_http(url, &address, err);
    else if (strstr(url, "://"))
        cay_fail(err, CAY_R_INVALID_ARGUMENT,
                 "the address '%.80s' is none of unix:PATH, http://HOST:PORT, https://HOST", url);
    else
        no_scheme(url, err);
    if (!done)
        return false;
    memcpy(address.text, text.ptr, text.len);
    *out_address = address;
    return true;
}

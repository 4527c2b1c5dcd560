/* SPDX-License-Identifier: Apache-2.0 */
#include "client/rpc/address.h"

#include <stdlib.h>
#include <sys/un.h>

enum { URL_BYTES_MAX = 1024 };

static bool parse_unix(struct cay_str path, struct cay_address *out, struct cay_error *err)
{
    /* unix:///run/x is how some other tools write unix:/run/x. */
    if (cay_str_starts(path, "///")) {
        path.ptr += 2;
        path.len -= 2;
    }
    struct sockaddr_un room;
    if (!path.len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "the address 'unix:' names no socket; write unix:/run/cay/cayd.sock");
    if (path.len >= sizeof(room.sun_path))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "the socket path '%.100s…' is too long: a Unix socket's has at most %zu "
                        "characters",
                        path.ptr, sizeof(room.sun_path) - 1);
    out->unix_path = cay_strndup(path.ptr, path.len);
    out->origin = cay_strdup("http://localhost");
    out->authority = cay_strdup("localhost");
    out->path = cay_strdup("");
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

/* "[::1]:80", "host:80", "host". */
static bool split_authority(struct cay_address *out)
{
    const char *text = out->authority;
    const char *end = text;
    if (*text == '[') {
        end += strspn(text + 1, "0123456789abcdefABCDEF:.%") + 1;
        if (end == text + 1 || *end != ']')
            return false;
        out->host = cay_strndup(text + 1, (size_t)(end - text) - 1);
        end++;
    } else {
        while (*end && is_host_byte(*end))
            end++;
        out->host = cay_strndup(text, (size_t)(end - text));
    }
    uint64_t port = 0;
    if (!*out->host || (*end && *end != ':'))
        return false;
    if (*end && (cay_str_to_u64(cay_str(end + 1), 65535, &port) < 0 || !port))
        return false;
    out->port = cay_strdup(*end ? end + 1 : out->is_plain ? "80" : "443");
    return true;
}

static bool parse_http(const char *url, struct cay_address *out, struct cay_error *err)
{
    const char *start = strstr(url, "://") + 3;
    const char *end = start + strcspn(start, "/?#");
    out->is_plain = cay_str_starts(cay_str(url), "http://");
    out->authority = cay_strndup(start, (size_t)(end - start));
    if (strchr(out->authority, '@'))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "the address must not hold a user or password; the key belongs into "
                        "CAY_API_KEY");
    if (strpbrk(end, "?#"))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "the address '%.80s' must end with the host, a port or a path", url);
    if (!split_authority(out) || strpbrk(end, " \t\r\n"))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "the address '%.80s' is not valid; write http://HOST:PORT or https://HOST",
                        url);
    out->origin = cay_strdup(url);
    for (size_t len = strlen(out->origin); len && out->origin[len - 1] == '/'; len--)
        out->origin[len - 1] = '\0';
    out->path = cay_strdup(out->origin + CAY_MIN((size_t)(end - url), strlen(out->origin)));
    out->is_loopback = names_loopback(out->host);
    return true;
}

bool cay_address_parse(const char *url, struct cay_address *out_address, struct cay_error *err)
{
    struct cay_address address = {};
    struct cay_str text = cay_str(url);
    bool done = false;
    if (text.len > URL_BYTES_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the address is longer than %d characters",
                        URL_BYTES_MAX);
    if (cay_str_starts(text, "unix:"))
        done = parse_unix((struct cay_str){text.ptr + 5, text.len - 5}, &address, err);
    else if (cay_str_starts(text, "http://") || cay_str_starts(text, "https://"))
        done = parse_http(url, &address, err);
    else if (strstr(url, "://"))
        cay_fail(err, CAY_R_INVALID_ARGUMENT,
                 "the address '%.80s' is none of unix:PATH, http://HOST:PORT, https://HOST", url);
    else
        no_scheme(url, err);
    if (!done) {
        cay_address_finish(&address);
        return false;
    }
    address.text = cay_strdup(url);
    *out_address = address;
    return true;
}

void cay_address_finish(struct cay_address *address)
{
    free(cay_take_ptr(address->text));
    free(cay_take_ptr(address->unix_path));
    free(cay_take_ptr(address->origin));
    free(cay_take_ptr(address->authority));
    free(cay_take_ptr(address->host));
    free(cay_take_ptr(address->port));
    free(cay_take_ptr(address->path));
}

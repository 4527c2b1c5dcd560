/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "cay/control.h"

enum {
    HOST_BYTES_MAX = 253, /* of a name in the DNS */
    SCOPE_BYTES_MAX = 64,
    ADDRESS_BYTES_MAX = 1024,
    PORT_MAX = 65535,
};

#define LETTERS_AND_DIGITS "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

static bool is_of(struct cay_str text, const char *allowed)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!text.ptr[i] || !strchr(allowed, text.ptr[i]))
            return false;
    }
    return text.len > 0;
}

/* Cuts "%eth0" off. */
static struct cay_str cut_scope(struct cay_str *host)
{
    const char *mark = host->len ? memchr(host->ptr, '%', host->len) : NULL;
    if (!mark)
        return CAY_STR("");
    struct cay_str scope = {mark + 1, (size_t)(host->ptr + host->len - mark) - 1};
    host->len = (size_t)(mark - host->ptr);
    return scope;
}

/* With or without a scope. */
static bool is_ipv6(struct cay_str host)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr ignored;
    bool has_scope = host.len && memchr(host.ptr, '%', host.len);
    struct cay_str scope = cut_scope(&host);
    if (host.len >= sizeof(text) || memchr(host.ptr, '\0', host.len))
        return false;
    memcpy(text, host.ptr, host.len);
    text[host.len] = '\0';
    return inet_pton(AF_INET6, text, &ignored) == 1 &&
           (!has_scope ||
            (scope.len <= SCOPE_BYTES_MAX && is_of(scope, LETTERS_AND_DIGITS "-._~")));
}

static bool is_bracketed(struct cay_str host)
{
    return host.len > 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']';
}

static bool no_port(const char *address, bool is_six, struct cay_error *err)
{
    return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    is_six ? "the address '%.80s' has no port; write [%.80s]:PORT"
                           : "the address '%.80s' has no port; write %.80s:PORT",
                    address, address);
}

static bool finish(const char *text, struct cay_text *out_url, struct cay_error *err)
{
    struct cay_text url = {.data = strdup(text), .len = strlen(text)};
    if (!url.data)
        return cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    *out_url = url;
    return true;
}

/* "HOST:PORT"; both are looked at here and nowhere else. */
static bool convert(const char *address, bool is_tls, char *out, size_t size, struct cay_error *err)
{
    const char *colon = strrchr(address, ':');
    uint64_t port = 0;
    bool is_whole_six = is_ipv6(cay_str(address));
    if (!colon || address[strlen(address) - 1] == ']')
        return no_port(address, is_whole_six, err);
    struct cay_str host = {address, (size_t)(colon - address)};
    bool is_six = false;
    if (is_bracketed(host)) {
        host = (struct cay_str){host.ptr + 1, host.len - 2};
        is_six = is_ipv6(host);
        if (!is_six)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "what the address '%.80s' has in brackets is no IPv6 address", address);
    } else {
        is_six = is_ipv6(host);
    }
    if (!is_six && is_whole_six)
        return no_port(address, true, err);
    if (!is_six && (host.len > HOST_BYTES_MAX || !is_of(host, LETTERS_AND_DIGITS "-._")))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "the address '%.80s' does not begin with a host; write HOST:PORT or "
                        "[IPV6]:PORT",
                        address);
    if (cay_str_to_u64(cay_str(colon + 1), PORT_MAX, &port) < 0 || !port)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "the address '%.80s' does not end with a port; write 1 to %d", address,
                        PORT_MAX);
    bool has_scope = memchr(host.ptr, '%', host.len);
    struct cay_str scope = cut_scope(&host);
    snprintf(out, size, "%s://%s%.*s%s%.*s%s:%u", is_tls ? "https" : "http", is_six ? "[" : "",
             (int)host.len, host.ptr, has_scope ? "%25" : "", (int)scope.len, scope.ptr,
             is_six ? "]" : "", (unsigned)port);
    return true;
}

bool cay_address_to_url(const char *address, bool is_tls, struct cay_text *out_url,
                        struct cay_error *err)
{
    struct cay_error ignored;
    char url[ADDRESS_BYTES_MAX];
    err = err ? err : &ignored;
    if (!out_url)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "there is no place for the URL");
    if (!address || !*address)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the address is missing; write HOST:PORT");
    if (strlen(address) >= ADDRESS_BYTES_MAX / 2)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the address is longer than %d characters",
                        ADDRESS_BYTES_MAX / 2 - 1);
    if (cay_str_starts(cay_str(address), "unix:/"))
        return is_tls ? cay_fail(err, CAY_R_INVALID_ARGUMENT,
                                 "a Unix socket has no TLS: '%.80s' is reached without", address)
                      : finish(address, out_url, err);
    return convert(address, is_tls, url, sizeof(url), err) && finish(url, out_url, err);
}

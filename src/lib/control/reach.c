/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/control/reach.h"

#include <stdio.h>

static bool is_loopback(struct cay_str host)
{
    return cay_str_equal_nocase(host, CAY_STR("localhost")) || cay_str_starts(host, "127.") ||
           cay_str_is(host, "::1");
}

/* A listener there takes connections to any address of its machine. */
static bool is_wildcard(struct cay_str host)
{
    return cay_str_is(host, "0.0.0.0") || cay_str_is(host, "::");
}

/* "[::1]:80", "host:80", "host", "[::1]": what stands before the port, and the port if there is
 * one. */
static struct cay_str split(struct cay_str text, struct cay_str *out_port)
{
    const char *bracket = text.len ? memrchr(text.ptr, ']', text.len) : NULL;
    const char *from = bracket ? bracket : text.ptr;
    const char *end = text.ptr + text.len;
    const char *colon = text.len ? memrchr(from, ':', (size_t)(end - from)) : NULL;
    struct cay_str host = {text.ptr, colon ? (size_t)(colon - text.ptr) : text.len};
    *out_port = colon ? (struct cay_str){colon + 1, (size_t)(end - colon) - 1} : CAY_STR("");
    if (host.len >= 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']')
        host = (struct cay_str){host.ptr + 1, host.len - 2};
    return host;
}

static void join(char *out, size_t size, struct cay_str host, struct cay_str port)
{
    bool is_six = host.len && memchr(host.ptr, ':', host.len);
    snprintf(out, size, is_six ? "[%.*s]:%.*s" : "%.*s:%.*s", (int)host.len, host.ptr,
             (int)port.len, port.ptr);
}

bool cay_place_of(const char *url, struct cay_place *out_place, struct cay_error *err)
{
    struct cay_place place = {};
    const char *path = url + strlen("unix:");
    if (strlen(url) >= CAY_PLACE_BYTES - sizeof("[]:65535"))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the address is too long");
    if (cay_str_starts(cay_str(url), "unix:")) {
        snprintf(place.address, sizeof(place.address), "unix:%s",
                 cay_str_starts(cay_str(path), "///") ? path + 2 : path);
        place.is_local = true;
        *out_place = place;
        return true;
    }
    const char *start = strstr(url, "://");
    if (!start)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the address '%.80s' names no host", url);
    start += 3;
    struct cay_str port;
    struct cay_str host = split((struct cay_str){start, strcspn(start, "/?#")}, &port);
    if (!port.len)
        port = cay_str_starts(cay_str(url), "https:") ? CAY_STR("443") : CAY_STR("80");
    join(place.address, sizeof(place.address), host, port);
    snprintf(place.host, sizeof(place.host), "%.*s", (int)host.len, host.ptr);
    place.is_local = is_loopback(host);
    *out_place = place;
    return true;
}

bool cay_place_reach(const struct cay_place *place, const struct cay_v1_exposed_port *port,
                     char out_address[static CAY_REACH_BYTES], struct cay_error *err)
{
    struct cay_str bind = port->bind_address;
    struct cay_str ignored;
    struct cay_str advertised = split(port->address, &ignored);
    struct cay_str host = cay_str(place->host);
    if (place->is_local) /* where it listens is an address of this machine */
        host = cay_str_is(bind, "::") ? CAY_STR("::1")
               : is_wildcard(bind)    ? CAY_STR("127.0.0.1")
                                      : bind;
    else if (advertised.len && !is_wildcard(advertised) && !is_loopback(advertised))
        host = advertised;
    else if (is_loopback(bind))
        return cay_fail(
            err, CAY_R_FAILED_PRECONDITION,
            "the daemon at %.80s exposes ports on %.*s, which is not reached from here; "
            "set port_bind, or port_advertise, there",
            place->address, (int)CAY_MIN(bind.len, 45), bind.ptr);
    char number[16];
    snprintf(number, sizeof(number), "%u", port->host_port);
    if (!host.len || host.len > CAY_REACH_BYTES - sizeof("[]:65535"))
        return cay_fail(err, CAY_R_INTERNAL, "the daemon does not say where port %u is exposed",
                        port->port);
    join(out_address, CAY_REACH_BYTES, host, cay_str(number));
    return true;
}

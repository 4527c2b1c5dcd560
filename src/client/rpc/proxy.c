/* SPDX-License-Identifier: Apache-2.0 */
#include "client/rpc/proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"

enum { CREDENTIALS_BYTES_MAX = 255 };

static const char *first_set(const char *const *names)
{
    for (; *names; names++) {
        const char *value = getenv(*names);
        if (value && *value)
            return value;
    }
    return NULL;
}

static bool ends_with_name(const char *host, struct cay_str name)
{
    size_t len = strlen(host);
    if (name.len && name.ptr[0] == '.') {
        name.ptr++;
        name.len--;
    }
    if (!name.len || len < name.len)
        return false;
    const char *tail = host + (len - name.len);
    return cay_str_equal_nocase(cay_str(tail), name) && (tail == host || tail[-1] == '.');
}

/* "localhost, .example.org,*". */
static bool is_excepted(const char *host)
{
    static const char *const names[] = {"no_proxy", "NO_PROXY", NULL};
    struct cay_str rest = cay_str(first_set(names));
    struct cay_str name;
    while (cay_str_split(&rest, ',', &name)) {
        while (name.len && *name.ptr == ' ') {
            name.ptr++;
            name.len--;
        }
        while (name.len && name.ptr[name.len - 1] == ' ')
            name.len--;
        if (cay_str_is(name, "*") || ends_with_name(host, name))
            return true;
    }
    return false;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "user:p%40ss", as it stands in a URL. */
static bool take_credentials(struct cay_str text, struct cay_proxy *out)
{
    char plain[CREDENTIALS_BYTES_MAX];
    size_t len = 0;
    if (text.len > sizeof(plain))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        int high = text.ptr[i] == '%' && i + 2 < text.len ? hex_digit(text.ptr[i + 1]) : -1;
        int low = high >= 0 ? hex_digit(text.ptr[i + 2]) : -1;
        plain[len++] = low >= 0 ? (char)(high << 4 | low) : text.ptr[i];
        i += low >= 0 ? 2 : 0;
    }
    static_assert(sizeof(out->credentials) > (CREDENTIALS_BYTES_MAX + 2) / 3 * 4);
    cay_base64_encode((struct cay_str){plain, len}, true, out->credentials);
    out->credentials[cay_base64_encoded_len(len, true)] = '\0';
    cay_wipe(plain, sizeof(plain));
    return true;
}

static bool parse(const char *value, struct cay_proxy *out)
{
    const char *scheme = strstr(value, "://");
    if (scheme && strncmp(value, "http://", strlen("http://")) != 0)
        return false;
    const char *start = scheme ? scheme + 3 : value;
    size_t len = strcspn(start, "/?#");
    const char *at = memrchr(start, '@', len);
    if (at && !take_credentials((struct cay_str){start, (size_t)(at - start)}, out))
        return false;
    len -= at ? (size_t)(at + 1 - start) : 0;
    start = at ? at + 1 : start;
    if (!cay_address_split((struct cay_str){start, len}, out->host, out->port))
        return false;
    if (!*out->port)
        snprintf(out->port, sizeof(out->port), "1080"); /* as curl has it */
    return true;
}

bool cay_proxy_find(const struct cay_address *address, struct cay_proxy *out_proxy,
                    struct cay_error *err)
{
    static const char *const plain[] = {"http_proxy", "all_proxy", "ALL_PROXY", NULL};
    static const char *const secure[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY",
                                         NULL};
    *out_proxy = (struct cay_proxy){};
    if (address->is_loopback)
        return true;
    const char *value = first_set(address->is_plain ? plain : secure);
    if (!value || is_excepted(address->host) || parse(value, out_proxy))
        return true;
    return cay_fail(err, CAY_R_NOT_SUPPORTED,
                    "the proxy that the environment names for %.100s is not of the form "
                    "http://HOST:PORT, which alone is supported; mend it, or except the host with "
                    "no_proxy",
                    address->host);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "client/rpc/address.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <sys/un.h>

enum { URL_BYTES_MAX = 1024 };

static void cleanup_url(CURLU **url)
{
    curl_url_cleanup(*url);
}

static void cleanup_part(char **part)
{
    curl_free(*part);
}

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
    out->is_loopback = true;
    return true;
}

static bool names_loopback(const char *host)
{
    return cay_str_equal_nocase(cay_str(host), CAY_STR("localhost")) ||
           strncmp(host, "127.", 4) == 0 || strcmp(host, "[::1]") == 0;
}

static bool no_scheme(const char *url, struct cay_error *err)
{
    return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "the address '%.80s' has no scheme; write %s%.80s, or http:// or https:// and "
                    "a host",
                    url, *url == '/' || *url == '.' ? "unix:" : "http://", url);
}

static bool parse_http(const char *url, struct cay_address *out, struct cay_error *err)
{
    cay_auto(cleanup_url) CURLU *parsed = curl_url();
    cay_auto(cleanup_part) char *scheme = NULL;
    cay_auto(cleanup_part) char *host = NULL;
    cay_auto(cleanup_part) char *user = NULL;
    cay_auto(cleanup_part) char *query = NULL;
    cay_auto(cleanup_part) char *fragment = NULL;
    CURLUcode code = curl_url_set(parsed, CURLUPART_URL, url, 0);
    if (code)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the address '%.80s' is not valid: %s", url,
                        curl_url_strerror(code));
    if (curl_url_get(parsed, CURLUPART_SCHEME, &scheme, 0) ||
        curl_url_get(parsed, CURLUPART_HOST, &host, 0))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the address '%.80s' names no host", url);
    if (!curl_url_get(parsed, CURLUPART_USER, &user, 0))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "the address must not hold a user or password; the key belongs into "
                        "CAY_API_KEY");
    if (!curl_url_get(parsed, CURLUPART_QUERY, &query, 0) ||
        !curl_url_get(parsed, CURLUPART_FRAGMENT, &fragment, 0))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "the address '%.80s' must end with the host, a port or a path", url);
    out->origin = cay_strdup(url);
    for (size_t len = strlen(out->origin); len && out->origin[len - 1] == '/'; len--)
        out->origin[len - 1] = '\0';
    out->is_loopback = names_loopback(host);
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
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What HTTP/1.1 and HTTP/2 have in common: header fields, the head of a request, status texts,
 * query strings. Pure functions over borrowed bytes.
 */

#include "base/arena.h"

struct cay_http_header {
    struct cay_str name;
    struct cay_str value;
};

struct cay_http_headers {
    struct cay_http_header *items;
    size_t count;
};

/* The first field of that name (any case); an empty string with a NULL ptr when there is none. */
struct cay_str cay_http_header(const struct cay_http_headers *headers, const char *name);

/* "Not Found"; "Unknown" for a status we never send. */
const char *cay_http_status_text(int status);

/* field-name and field-value of RFC 9110: what may be sent on or received from a wire. */
[[nodiscard]] bool cay_http_is_token(struct cay_str text);
[[nodiscard]] bool cay_http_is_field_value(struct cay_str text);

/* True when a comma-separated list has that member (any case). */
[[nodiscard]] bool cay_http_list_has(struct cay_str list, const char *member);

/* The decoded value of `name` in a query string ("a=1&b=%20"), '+' as blank. False when it is
 * absent, badly escaped, or too large for the arena. */
[[nodiscard]] bool cay_http_query(struct cay_str query, const char *name, struct cay_arena *arena,
                                  struct cay_str *out_value);

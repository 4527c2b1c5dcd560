/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A client's half of an HTTP/1 connection, as somebody reads it who passes it on and holds every
 * request to one host: the first and those after it on the same connection. What is not strict
 * HTTP/1.1 (http1.h) is refused, because another reader might see another host in it.
 *
 * Order: cay_http_looks so -> cay_http_host_feed, each time there are more bytes.
 */

#include "wire/http1.h"

enum {
    CAY_HTTP_HOST_HEAD_MAX = 64 * 1024,
    CAY_HTTP_HOST_FIELDS_MAX = 128,
    CAY_HTTP_HOST_SIZE = 256,
};

enum cay_http_looks {
    CAY_HTTP_LOOKS_MORE = 1, /* not enough to tell: nothing may be passed on yet */
    CAY_HTTP_LOOKS_SO,
    CAY_HTTP_LOOKS_OTHER,
};

/* Is this the beginning of HTTP, as a lenient server reads it? */
[[nodiscard]] enum cay_http_looks cay_http_looks(const char *bytes, size_t len);

struct cay_http_host {
    char host[CAY_HTTP_HOST_SIZE]; /* whom requests are for, lower case */
    uint64_t body_left;
    struct cay_http1_chunks chunks;
    bool is_chunked; /* within such a body */
    bool is_waiting; /* for the answer to a request that would leave HTTP */
    bool is_through; /* it was left */
    bool has_requested;
    int failure; /* -errno, from then on */
};

void cay_http_host_init(struct cay_http_host *check, struct cay_str host);

/*
 * How many of these bytes, which are all that were not passed on yet, may be now; 0 when more have
 * to come. -EBADMSG: not strict HTTP/1.1, or a request that may not be passed on; -EPERM: for
 * another host. It does not end with those: the connection does.
 *
 * A request that asks for another protocol (a WebSocket) has to be the first. Behind it nothing is
 * passed on until cay_http_host_answered.
 */
[[nodiscard]] ssize_t cay_http_host_feed(struct cay_http_host *check, const char *bytes,
                                         size_t len);

/* The first bytes of the first answer: 101 leaves HTTP. True when that can be told by now. */
[[nodiscard]] bool cay_http_host_answered(struct cay_http_host *check, const char *bytes,
                                          size_t len);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HTTP/1.1 requests, strictly: what is not in the grammar of RFC 9112 is refused, because every
 * tolerance is a way to smuggle a request past somebody in front of us. Lines end in CRLF; no
 * folding, no blank before a colon, no Content-Length beside Transfer-Encoding, one Host. The head
 * is parsed once it is complete, in one pass, into slices of the caller's bytes.
 */

#include "wire/http.h"

struct cay_http1_head {
    struct cay_str method;
    struct cay_str path;  /* up to '?' */
    struct cay_str query; /* behind '?', empty without */
    struct cay_str host;
    struct cay_http_headers headers;
    uint64_t content_length; /* 0 when absent or chunked */
    bool is_chunked;
    bool has_body;
    bool keep_alive;
    bool expects_continue;
    bool is_version_1_0;
};

/* What is wrong with a request, as the answer to it. */
struct cay_http1_fault {
    int status;
    const char *text;
};

/*
 * Parses the head at the start of `bytes`. `headers` is the caller's room for header_count_max
 * fields. > 0: the length of the head; 0: not complete yet; < 0: refused, see *out_fault.
 */
[[nodiscard]] ssize_t cay_http1_parse_head(struct cay_str bytes, struct cay_http_header *headers,
                                           size_t header_count_max, size_t head_bytes_max,
                                           struct cay_http1_head *out_head,
                                           struct cay_http1_fault *out_fault);

/* An answer, as we read it when we pass a request on. */
struct cay_http1_answer {
    int status;
    struct cay_http_headers headers;
    uint64_t content_length;
    bool has_length;
    bool is_chunked; /* neither: the body ends with the connection */
};

/* As cay_http1_parse_head. The fault's status is always 502. */
[[nodiscard]] ssize_t cay_http1_parse_answer(struct cay_str bytes, struct cay_http_header *headers,
                                             size_t header_count_max, size_t head_bytes_max,
                                             struct cay_http1_answer *out_answer,
                                             struct cay_http1_fault *out_fault);

/* Takes a chunked body apart. Zeroed to start with. */
struct cay_http1_chunks {
    uint64_t left;     /* of the current chunk's data */
    size_t line_bytes; /* of the line or trailer section being read */
    unsigned size_digits;
    unsigned char state;
};

/*
 * Looks at the next bytes: returns how many it used (at least 1 unless len is 0), with a slice of
 * body data in *out_data (maybe empty). *out_is_end is set when the body is over. -EBADMSG when
 * malformed.
 */
[[nodiscard]] ssize_t cay_http1_chunks_feed(struct cay_http1_chunks *chunks, const char *bytes,
                                            size_t len, struct cay_str *out_data, bool *out_is_end);

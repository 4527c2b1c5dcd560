/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Both halves of an HTTP/1.1 connection, as somebody reads them who passes them on and judges every
 * request: one exchange at a time, so that a request that is refused can be answered, and whose
 * answer it is is never in doubt. Bodies of any length pass as they come: by length, in chunks, or
 * until the end; answers before the answer (100, 103) pass; 101 leaves HTTP. Strict as http1.h.
 *
 * Order: cay_http_pass_head -> cay_http_pass_begin -> (_body and _answer)* -> is_between again.
 */

#include "wire/http1.h"

enum {
    CAY_HTTP_PASS_HEAD_MAX = 32 * 1024,
    CAY_HTTP_PASS_FIELDS_MAX = 128,
};

struct cay_http_pass {
    enum cay_http_pass_phase {
        CAY_HTTP_PASS_BETWEEN, /* no request, or not all of its head */
        CAY_HTTP_PASS_EXCHANGE,
        CAY_HTTP_PASS_THROUGH, /* HTTP was left */
    } phase;
    uint64_t body_left;
    struct cay_http1_chunks chunks;
    bool is_chunked; /* within such a body */
    bool is_head;    /* its answer has no body, whatever it says */
    bool may_leave;
    int status; /* of the answer; 0: none yet */
    bool is_answer_over;
    bool is_until_end;
    uint64_t answer_left;
    struct cay_http1_chunks answer_chunks;
    bool is_answer_chunked;
};

/* The head of the next request, which is at the start of the bytes. > 0: its length; 0: not all of
 * it; -1: see *out_fault. `fields` has room for CAY_HTTP_PASS_FIELDS_MAX. */
[[nodiscard]] ssize_t cay_http_pass_head(struct cay_str bytes, struct cay_http_header *fields,
                                         struct cay_http1_head *out_head,
                                         struct cay_http1_fault *out_fault);
/* It is passed on. */
void cay_http_pass_begin(struct cay_http_pass *pass, const struct cay_http1_head *head);

/* How many of the client's next bytes belong to what is passed on now; 0: none, before the answer
 * is over. -EBADMSG: malformed. */
[[nodiscard]] ssize_t cay_http_pass_body(struct cay_http_pass *pass, struct cay_str bytes);
/* The same of the server's; 0: the head of the answer is not whole. */
[[nodiscard]] ssize_t cay_http_pass_answer(struct cay_http_pass *pass, struct cay_str bytes);
/* The server says no more. False: something is missing. */
[[nodiscard]] bool cay_http_pass_ended(struct cay_http_pass *pass);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* An answer in HTTP/1.1, from whatever pieces it comes in. Its body is kept until somebody takes
 * it. */

#include "base/buf.h"
#include "wire/http1.h"

struct cay_answer {
    struct cay_buf head;
    struct cay_buf body; /* without HTTP's own framing */
    struct cay_http1_chunks chunks;
    uint64_t body_left;
    int status;
    unsigned hint_count; /* heads before its own */
    char type[64];
    bool has_head;
    bool is_chunked;
    bool has_length;
    bool is_complete;
    bool is_last; /* nothing more can be asked on this connection */
};

void cay_answer_init(struct cay_answer *answer, size_t body_bytes_max);
void cay_answer_finish(struct cay_answer *answer);

/* -EBADMSG for what is not HTTP, -EMSGSIZE when the body is larger than it may be, -ENOMEM. */
[[nodiscard]] int cay_answer_feed(struct cay_answer *answer, struct cay_str bytes);

/* The connection has ended: true when so the answer was to end. */
[[nodiscard]] bool cay_answer_end(struct cay_answer *answer);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Heads of requests and answers that pass through: what belongs to one connection stays there. */

#include "front/e2b/visit.h"
#include "wire/http1.h"

/* The client asks to switch to another protocol, and this connection can. */
[[nodiscard]] bool cay_e2b_proxy_is_upgrade(const struct cay_rest_request *request);

/* The head for the program. True when a body follows in chunks. */
[[nodiscard]] bool cay_e2b_proxy_write_head(const struct cay_rest_request *request,
                                            struct cay_buf *out);

/* The fields of the answer for the client; how many. */
[[nodiscard]] size_t
cay_e2b_proxy_answer_headers(const struct cay_http1_answer *answer,
                             struct cay_http_header out[CAY_LIMIT_HEADER_COUNT]);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A second opinion on HTTP/1.1: what we accept, llhttp in its strict mode must accept too, and
 * understand in the same way. */

#include "wire/http1.h"

/* `bytes` begins with a head of head_len bytes; `body` is what came out of its chunks. */
void llhttp_oracle_check(struct cay_str bytes, ssize_t head_len, const struct cay_http1_head *head,
                         struct cay_str body);

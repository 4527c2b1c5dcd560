/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Signed URLs of files, as somebody follows them who knows nothing else: where all sandboxes share
 * one address, nothing in such a URL says which sandbox it is of, except that the signature was
 * made with its token.
 */

#include "front/e2b/visit.h"

/* Is it a request for such a URL? */
[[nodiscard]] bool cay_e2b_is_signed(const struct cay_exchange *exchange);

/* The signature of the query, empty when there is none. Where a blank stands there was a plus that
 * nobody escaped. */
[[nodiscard]] struct cay_str cay_e2b_signature(struct cay_rest_request *request);

/* Finds the sandbox, which is asked of the hallway, and brings the request to its gate. Answers it
 * when there is none whose token fits, or when too many were tried of late. */
void cay_e2b_signed(struct cay_rest_request *request, const struct cay_e2b_inside *inside);

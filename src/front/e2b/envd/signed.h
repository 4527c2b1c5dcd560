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

/* Finds the sandbox and sets it in the request. False when there is none whose token fits, or when
 * too many were tried of late; that is answered then. */
[[nodiscard]] bool cay_e2b_signed_find(struct cay_rest_request *request);

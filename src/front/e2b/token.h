/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Tokens of sandboxes, and what is signed with them. */

#include "base/base.h"

enum {
    CAY_E2B_SIGNATURE_BYTES = 64,
    CAY_E2B_SIGNED_PATH_BYTES_MAX = 4096,
};

/* In a time that does not depend on where they differ. An empty token equals nothing. */
[[nodiscard]] bool cay_e2b_token_is(struct cay_str sent, struct cay_str token);

/* What a URL to a file is signed with: `operation` is "read" or "write"; path and user are as the
 * URL has them; `expiration` is the URL's, too, or empty. */
void cay_e2b_sign(struct cay_str path, const char *operation, struct cay_str user,
                  struct cay_str token, struct cay_str expiration,
                  char out[CAY_E2B_SIGNATURE_BYTES]);

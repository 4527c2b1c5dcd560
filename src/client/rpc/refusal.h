/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a server says when it refuses: Connect's error JSON, read back into the error object. The
 * reason is the one in the cay.v1.ErrorInfo detail; a server that sends none, or one this build
 * does not know, is understood by its code.
 */

#include "base/arena.h"
#include "base/error.h"

enum { CAY_REFUSAL_BYTES_MAX = 64 * 1024 };

/* The body of an answer with a status other than 200. Always fills *out_err: by the status when the
 * body is not Connect's. */
void cay_refusal_read(struct cay_str body, long http_status, struct cay_error *out_err);

/* The payload of a Connect end-of-stream envelope: 0 when the call went well, 1 with *out_err
 * filled when it did not, -EBADMSG when it is not such a payload. */
[[nodiscard]] int cay_refusal_read_end(struct cay_str payload, struct cay_error *out_err);

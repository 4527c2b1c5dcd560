/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Base64. We write the standard alphabet; we read the standard and the URL-safe one, with or
 * without padding, because clients send all four. Anything else, blanks and line ends included, is
 * refused.
 */

#include "base/base.h"
#include "base/buf.h"

/* How many characters `len` bytes become. */
[[nodiscard]] size_t cay_base64_encoded_len(size_t len, bool padded);

/* Writes exactly that many; `out` gets no NUL. */
void cay_base64_encode(struct cay_str bytes, bool padded, char *out);

/* Appends to `buf`, whose ceiling bounds it. */
void cay_base64_append(struct cay_buf *buf, struct cay_str bytes, bool padded);

/* An upper bound of what decoding `len` characters gives; never more than len. */
[[nodiscard]] size_t cay_base64_decoded_len_max(size_t len);

/* `out` must have room for cay_base64_decoded_len_max(text.len). -EINVAL for what is not base64,
 * including padding of the wrong length and set bits after the last byte. */
[[nodiscard]] int cay_base64_decode(struct cay_str text, void *out, size_t *out_len);

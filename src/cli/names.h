/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * File names and patches as the API carries them: a byte 0xNN that is not part of valid UTF-8 is
 * the character U+EFNN, and so is each byte of the characters U+EF80 to U+EFFF themselves.
 */

#include "base/buf.h"

/* From plain bytes to text, and back. */
void cay_names_encode(struct cay_buf *out, struct cay_str bytes);
void cay_names_decode(struct cay_buf *out, struct cay_str text);

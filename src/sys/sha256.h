/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * SHA-256 of data that comes in pieces.
 *
 * Order: (init | copy) -> add* -> (end | digest | finish). `end` and `digest` may be called once;
 * finish after them does nothing.
 */

#include "base/base.h"

enum {
    CAY_SHA256_BYTES = 32,
    CAY_SHA256_HEX_SIZE = 65, /* lower-case digits and NUL */
};

struct cay_sha256 {
    void *context; /* libcrypto's */
};

void cay_sha256_init(struct cay_sha256 *sha);
/* Goes on from where another is, which stays as it is. */
void cay_sha256_copy(struct cay_sha256 *sha, const struct cay_sha256 *from);
void cay_sha256_add(struct cay_sha256 *sha, const void *data, size_t len);
void cay_sha256_end(struct cay_sha256 *sha, char out_hex[static CAY_SHA256_HEX_SIZE]);
void cay_sha256_digest(struct cay_sha256 *sha, unsigned char out_digest[static CAY_SHA256_BYTES]);
void cay_sha256_finish(struct cay_sha256 *sha);

/* HMAC-SHA-256: what only who has the key can say of the text. */
void cay_hmac_sha256(const void *key, size_t key_len, struct cay_str text,
                     char out_hex[static CAY_SHA256_HEX_SIZE]);

/* 64 lower-case hex digits. */
[[nodiscard]] bool cay_sha256_is_hex(struct cay_str text);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Random bytes, the ids made of them, and hex. Ids are names that travel: into paths, cgroup names,
 * URLs and log lines; cay_id_valid is the one rule for all ids that come from outside.
 */

#include "base/base.h"
#include "base/error.h"

enum {
    CAY_ID_BYTES_MAX = 128,
    CAY_ID_SIZE = CAY_ID_BYTES_MAX + 1, /* of a buffer for one, with its NUL */
    CAY_ID_RANDOM_CHARS = 16,           /* of 36: 82 bits */
};

/* From the kernel; aborts when it has none, since nothing safe can be done without. */
void cay_random_bytes(void *out, size_t len);
/* False then, for whoever may not abort. */
[[nodiscard]] bool cay_random_try(void *out, size_t len);

/* `prefix` followed by CAY_ID_RANDOM_CHARS characters of [a-z0-9] and a NUL. `size` must have room
 * for all of it. */
void cay_id_make(char *out, size_t size, const char *prefix);
/* The same by cay_random_try. */
[[nodiscard]] bool cay_id_try(char *out, size_t size, const char *prefix);

/* 1 to 128 characters: a letter or digit, then letters, digits, '.', '_', '-'; never "..". */
[[nodiscard]] bool cay_id_valid(struct cay_str id);
/* The same; `field` is what the error calls it. Reason: INVALID_ARGUMENT. */
[[nodiscard]] bool cay_id_check(struct cay_str id, const char *field, struct cay_error *err);

/* Lower case and NUL-terminated; `size` must be at least 2 * len + 1. */
void cay_hex_encode(const void *data, size_t len, char *out, size_t size);

/* Returns the number of bytes; -EINVAL for what is not hex, -ENOBUFS when it does not fit. */
[[nodiscard]] ssize_t cay_hex_decode(struct cay_str hex, void *out, size_t size);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Durations, sizes and ratios as people write them, in configuration and on the command line. What
 * the format functions write the parse functions read. Parsers return 0, -EINVAL for what is not
 * understood, and -ERANGE for what does not fit; no signs, no blanks.
 */

#include "base/base.h"

enum {
    CAY_DURATION_BYTES = 48,
    CAY_SIZE_BYTES = 24,
};

/* "250ms", "30s", "1h30m", "1.5h", "7d", "0": every number has a unit of ns us ms s m h d, except
 * 0. Rounded up to whole milliseconds, so that a tiny timeout does not become none at all. */
[[nodiscard]] int cay_duration_parse(struct cay_str text, int64_t *out_ms);

/* "1h30m", "1.5s", "250ms", "0s". Negative durations have a '-' in front, which is not read back.
 */
void cay_duration_format(int64_t ms, char out[CAY_DURATION_BYTES]);

/* The same with nanoseconds, to three digits: "950ns", "12.3us", "1.23ms"; whole milliseconds from
 * ten seconds on. */
void cay_duration_format_ns(int64_t ns, char out[CAY_DURATION_BYTES]);

/* "4096", "512M", "1.5G", "2GiB", "10MB": K M G T P and KiB … are powers of 1024, KB … of 1000 as
 * in GNU tools; case does not matter. */
[[nodiscard]] int cay_size_parse(struct cay_str text, uint64_t *out_bytes);

/* "512B", "1.5KiB", "2GiB": one digit after the point, rounded. */
void cay_size_format(uint64_t bytes, char out[CAY_SIZE_BYTES]);

/* "0.8", "80%": from 0 to 1. */
[[nodiscard]] int cay_ratio_parse(struct cay_str text, double *out_ratio);

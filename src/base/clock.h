/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What time it is. The monotonic clock is for deadlines and durations, the wall clock for what
 * people and records see; never subtract one from the other. All times are signed, so that
 * subtracting never wraps.
 */

#include "base/base.h"

#define CAY_NS_PER_MS  INT64_C(1'000'000)
#define CAY_NS_PER_SEC INT64_C(1'000'000'000)

[[nodiscard]] int64_t cay_clock_ms(void); /* monotonic */
[[nodiscard]] int64_t cay_clock_ns(void); /* monotonic */
[[nodiscard]] int64_t cay_clock_wall_ns(void);

enum { CAY_TIME_BYTES = sizeof("2026-01-02T03:04:05.123456789Z") };

/* RFC 3339 in UTC. `digits` of the second's fraction are written, 0 to 9; the rest is cut. */
void cay_time_format(int64_t wall_ns, unsigned digits, char out[CAY_TIME_BYTES]);

/* RFC 3339 with any offset. Digits past the ninth are dropped; a leap second counts as the second
 * after it. -EINVAL for what is no time, -ERANGE for one that does not fit (before 1678, after
 * 2261). */
[[nodiscard]] int cay_time_parse(struct cay_str text, int64_t *out_wall_ns);

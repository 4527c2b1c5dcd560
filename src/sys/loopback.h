/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Brings `lo` of the calling thread's network namespace up. 0 or -errno. */
[[nodiscard]] int cay_loopback_up(void);

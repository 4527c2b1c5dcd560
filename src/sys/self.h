/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What this process takes of the machine, and what that has left, as the kernel counts it. 0: it
 * does not say. */

#include "base/base.h"

[[nodiscard]] uint64_t cay_self_resident_bytes(void);

/* Of the machine: what programs could have without swapping, and all there is. */
void cay_memory_read(uint64_t *out_available_bytes, uint64_t *out_total_bytes);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What this process takes of the machine, as the kernel counts it. 0: it does not say. */

#include "base/base.h"

[[nodiscard]] uint64_t cay_self_resident_bytes(void);

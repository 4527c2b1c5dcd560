/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sessions in which namespaces and mounts can be made, for containers in them. */

#include "base/error.h"

struct cay_host;
struct cay_runtime;

/* Whether a session may have it, by the configuration key `nesting`. Reasons: NOT_SUPPORTED,
 * PERMISSION_DENIED. */
[[nodiscard]] bool cay_nesting_check(const struct cay_host *host, const struct cay_runtime *runtime,
                                     bool is_wanted, bool is_admin, struct cay_error *err);

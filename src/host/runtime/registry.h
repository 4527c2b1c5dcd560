/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cay_runtime_ops;

/* NULL for a name nobody has. */
[[nodiscard]] const struct cay_runtime_ops *cay_runtime_find(const char *name);

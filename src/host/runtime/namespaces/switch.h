/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Another tree under a living sandbox. See cay_sandbox_switch_root. */

#include "host/runtime/runtime_ops.h"

bool cay_namespaces_switch_root(struct cay_sandbox *sandbox, int root_fd, int *out_old_fd,
                                struct cay_error *err);

/* A copy of a detached mount, so that the caller can attach its own another time. Kernels
 * before 6.15 copy no detached mounts: there the mount itself goes into the sandbox, and the
 * caller's descriptor still names it. */
[[nodiscard]] int cay_namespaces_copy_root(int root_fd);

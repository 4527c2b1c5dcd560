/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Another tree under a living sandbox: see cay_sandbox_switch_root and cay_sandbox_hand_out. */

#include "host/runtime/runtime_ops.h"

bool cay_namespaces_is_idle(const struct cay_sandbox *sandbox);
bool cay_namespaces_switch_root(struct cay_sandbox *sandbox, int root_fd, int *out_old_fd,
                                struct cay_error *err);
bool cay_namespaces_hand_out(struct cay_sandbox *sandbox, const struct cay_sandbox_spec *spec,
                             int *out_old_fd, struct cay_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How many files the process may have open. What stays open for long (sandboxes, ports,
 * connections) leaves some for what is needed for a moment: otherwise nobody could call any more,
 * not even to remove something.
 */

#include "base/base.h"

/* As many as may be open; at start the soft limit is raised to the hard one. */
uint64_t cay_descriptors_raise(void);

/* How many of those may be connections of clients. */
[[nodiscard]] uint64_t cay_descriptors_connections(uint64_t limit);

/* Those that are open. 0 or -errno. */
[[nodiscard]] int cay_descriptors_count(uint64_t *out_count);

/* For what stays open otherwise: 0, or -EMFILE when only those are left that are kept back. */
[[nodiscard]] int cay_descriptors_check(void);

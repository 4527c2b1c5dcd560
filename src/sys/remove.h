/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Removing by descriptor whatever somebody else has built, however deep. */

#include "base/base.h"

/* Removes `name` in dir_fd and everything in it; does not cross into other mounts. Absent is fine.
 * Takes away at most *budget entries (counted down) and returns -EAGAIN when that was not enough:
 * call again. NULL budget: no bound. */
[[nodiscard]] int cay_remove_tree(int dir_fd, const char *name, uint64_t *budget);

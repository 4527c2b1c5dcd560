/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Between the cgroup files only. */

#include "sys/cgroup.h"

/* Writes a whole small text to an existing file of a group. */
[[nodiscard]] int cay_cgroup_write(int dir_fd, const char *file, const char *text);

/* Lets the groups below have the controllers we use, those that exist. */
void cay_cgroup_enable_below(int dir_fd);

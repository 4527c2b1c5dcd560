/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Between the cgroup files only. */

#include "sys/cgroup.h"

/* Writes a whole small text to an existing file of a group. */
[[nodiscard]] int cay_cgroup_write(int dir_fd, const char *file, const char *text);

/* The number after `key` at the start of a line of a file, or the whole text when key is empty; 0
 * when there is none. */
[[nodiscard]] uint64_t cay_cgroup_read_number(int dir_fd, const char *file, const char *key);

/* As cay_cgroup_set_limits, for a group that has none yet. */
[[nodiscard]] int cay_cgroup_limit_new(struct cay_cgroup *group,
                                       const struct cay_cgroup_limits *limits);

/* Bits of 1 << controller. */
[[nodiscard]] unsigned cay_cgroup_wanted(const struct cay_cgroup_limits *limits);

/* Lets the groups below have the controllers we use, those that exist. */
void cay_cgroup_enable_below(int dir_fd);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A file that has no name and goes with the last descriptor, however the process ends. */

#include <stddef.h>

/* In the file system of a directory. A descriptor for reading and writing, or -errno. */
[[nodiscard]] int cay_spool_open(int dir_fd);

/* All of it, or -errno. What is kept for a moment only leaves the disk a fiftieth: -ENOSPC. */
[[nodiscard]] int cay_spool_write(int fd, const void *data, size_t len);

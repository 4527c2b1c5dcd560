/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A file that has no name and goes with the last descriptor, however the process ends. */

/* In the file system of a directory. A descriptor for reading and writing, or -errno. */
[[nodiscard]] int cay_spool_open(int dir_fd);

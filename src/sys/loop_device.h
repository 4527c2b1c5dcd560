/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Files as block devices. A device goes by itself when its last user has: a mount, a descriptor. */

#include "base/base.h"

enum { CAY_LOOP_DEVICE_PATH_BYTES = 32 };

/* The device of an open file: one that has it already, or a new one. Returns a descriptor and the
 * device's path, or -errno. Needs CAP_SYS_ADMIN. */
[[nodiscard]] int cay_loop_device_open(int file_fd, char out_path[CAY_LOOP_DEVICE_PATH_BYTES]);

/* The file has grown: so does the device. -errno. */
[[nodiscard]] int cay_loop_device_grow(int device_fd);

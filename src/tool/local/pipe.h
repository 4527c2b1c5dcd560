/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Pipes in a process whose signals are its own affair. */

#include "base/base.h"

/* write(2), but a pipe that nobody reads is -EPIPE and no SIGPIPE. */
[[nodiscard]] ssize_t cay_pipe_write(int fd, const void *data, size_t len);

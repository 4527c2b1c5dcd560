/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A process by descriptor: it cannot turn into another one. 0 / >= 0 / -errno. */

#include "base/base.h"

[[nodiscard]] int cay_pidfd_open(pid_t pid);
int cay_pidfd_signal(int pidfd, int signal);

/* 0 once the process has ended, -ETIMEDOUT otherwise. Does not reap. */
[[nodiscard]] int cay_pidfd_wait(int pidfd, int timeout_ms);

/* Reaps it when it is an ended child of ours; does nothing otherwise. */
void cay_pidfd_reap(int pidfd);

/* When the process was started, in clock ticks since boot: with the pid, a name that is not used
 * twice. */
[[nodiscard]] int cay_pidfd_start_ticks(pid_t pid, uint64_t *out_ticks);

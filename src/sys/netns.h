/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A new network namespace with nothing but a loopback device, which is up, as a descriptor
 * (O_CLOEXEC), or -errno. Nobody is in it; it ends with the last descriptor or process. Needs
 * CAP_SYS_ADMIN. The calling thread is in it meanwhile; others are not. */
[[nodiscard]] int cay_netns_open(void);

/* Runs `visit` with the calling thread in that namespace, and nobody else's thread: what it opens
 * belongs there for ever. Its result, or -errno when the namespace cannot be entered. */
[[nodiscard]] int cay_netns_visit(int netns_fd, int (*visit)(void *context), void *context);

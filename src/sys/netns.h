/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A new network namespace with nothing but a loopback device, which is up, as a descriptor
 * (O_CLOEXEC), or -errno. Nobody is in it; it ends with the last descriptor or process. Needs
 * CAP_SYS_ADMIN. The calling thread is in it meanwhile; others are not. */
[[nodiscard]] int cay_netns_open(void);

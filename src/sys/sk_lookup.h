/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Steering: which socket of a network namespace gets the connections and questions that are sent
 * there, whatever their destination (BPF_PROG_TYPE_SK_LOOKUP). It comes before the sockets of
 * whoever is in the namespace, so none of them can take another's place; what is connected already
 * stays where it is.
 */

#include "sys/netdev.h"

/* Places of the sockets. A listener of TCP and a socket of UDP that is bound to port 53, of either
 * family, since a socket gets those of its own only. */
enum cay_steered {
    CAY_STEERED_TCP4,
    CAY_STEERED_TCP6,
    CAY_STEERED_DNS4,
    CAY_STEERED_DNS6,
    CAY_STEERED_COUNT,
};

/* A link: as long as it is open, by any process, packets to the loopback and to the two addresses
 * go their usual way, but for port 53 of 127.0.0.1; all other TCP goes to the listeners, UDP to
 * port 53 of any address to the other two, and the rest is refused. So is what goes to a socket
 * that is -1 or was closed meanwhile. -errno: -EPERM and -ENOSYS where the kernel does not let us.
 */
[[nodiscard]] int cay_steer(int netns_fd, const int sockets[static CAY_STEERED_COUNT],
                            const struct cay_ip *own4, const struct cay_ip *own6);

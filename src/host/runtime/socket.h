/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The socket a sandbox's init listens on, `ID.sock` in the run directory, whatever the length of
 * that directory's name. That of a sandbox which waits for a session is `ID.wait` until it is
 * handed out: who comes later tells by the name which are nobody's. Descriptors (O_CLOEXEC) or
 * -errno. */

#include "sys/cgroup.h"

[[nodiscard]] int cay_socket_listen(int dir_fd, const char *id, bool waits);
/* 0 or -errno. */
[[nodiscard]] int cay_socket_hand_out(int dir_fd, const char *id);
/* Calls back with each that waits; false ends it. 0 or -errno. */
[[nodiscard]] int cay_socket_list_waiting(int dir_fd, bool (*visit)(void *context, const char *id),
                                          void *context);
/* Non-blocking. */
[[nodiscard]] int cay_socket_connect(int dir_fd, const char *id);
/* Also under the name of one that waits, for who knows that nothing else is left of it. */
void cay_socket_remove(int dir_fd, const char *id, bool also_waiting);

/* Sends a SLOT frame with its descriptors. 0, -EAGAIN when the socket is full, -errno. */
[[nodiscard]] int cay_socket_send_slot(int fd, bool is_room, uint32_t index,
                                       const struct cay_cgroup_slot *slot);

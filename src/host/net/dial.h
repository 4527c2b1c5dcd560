/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A connection to a port of a sandbox's loopback: 127.0.0.1, then ::1. */

#include "io/loop.h"

struct cay_dial;

/* The descriptor (non-blocking) is the callee's; or -errno: -ECONNREFUSED when nobody listens. The
 * last call: the dial is gone. */
typedef void cay_dialled_fn(void *owner, int fd);

/* *out_dial is there until `done`, which may be called inside: a server on a loopback mostly
 * answers at once. The namespace stays the caller's; it is visited for the sockets on this very
 * thread, which takes microseconds, where a worker would have to be woken first. */
void cay_dial_start(struct cay_loop *loop, int netns_fd, uint16_t port, cay_dialled_fn *done,
                    void *owner, struct cay_dial **out_dial);
/* `done` is not called any more. */
void cay_dial_cancel(struct cay_dial *dial);

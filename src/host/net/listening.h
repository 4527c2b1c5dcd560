/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Does somebody in a sandbox listen on a port of its loopback? Looked up, not tried out: a server
 * for one connection must not spend it on us. */

#include "io/loop.h"

struct cay_listening;

/* The last call. */
typedef void cay_listening_fn(void *owner, bool is_listening);

/* NULL when the daemon ends or has no descriptors. The namespace stays the caller's. */
struct cay_listening *cay_listening_start(struct cay_loop *loop, int netns_fd, uint16_t port,
                                          cay_listening_fn *done, void *owner);
/* `done` is not called any more. */
void cay_listening_cancel(struct cay_listening *listening);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who listens in a sandbox: all its TCP ports, with the processes that hold them. The tables of its
 * network are short and read quickly; who holds a socket is looked up among the host's processes,
 * and only when the tables have changed.
 */

#include "io/loop.h"

enum {
    CAY_LISTENERS_MAX = 64,
    CAY_LISTENER_LINE = 16, /* of ancestors */
};

struct cay_listener_seen {
    uint16_t port;
    uint64_t inode;
    /* As the sandbox numbers them: who holds it, its parents, the leader of its session. 0: nobody
     * more. */
    int32_t pids[CAY_LISTENER_LINE];
};

struct cay_listeners {
    struct cay_listener_seen items[CAY_LISTENERS_MAX]; /* by port */
    size_t count;
};

struct cay_listeners_look;

/* The last call. NULL: as before. */
typedef void cay_listeners_fn(void *owner, const struct cay_listeners *listeners);

/* NULL when the daemon ends or has no descriptors. The namespace stays the caller's. */
struct cay_listeners_look *cay_listeners_look(struct cay_loop *loop, int netns_fd,
                                              const struct cay_listeners *before,
                                              cay_listeners_fn *done, void *owner);
/* `done` is not called any more. */
void cay_listeners_cancel(struct cay_listeners_look *look);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Two connected sockets and the bytes between them, both ways. What one side does not take is held,
 * CAY_LOOP_SCRATCH_BYTES at most, and nothing more is read for it meanwhile. The end of a direction
 * is passed on; with both ends, or with an error of either side, it is over.
 */

#include "io/loop.h"

struct cay_relay;

struct cay_relay_side {
    struct cay_relay *relay;
    int fd;
    struct cay_watch watch;
    char *rest; /* to be sent to this side; NULL: nothing */
    size_t rest_len;
    size_t rest_sent;
    bool is_read_over; /* it sends no more */
};

struct cay_relay {
    struct cay_loop *loop;
    struct cay_relay_side sides[2];
    void (*over)(struct cay_relay *relay); /* still to be closed, which may be done inside */
    bool is_broken;
};

/* Takes over both descriptors (also on failure), which are non-blocking. */
[[nodiscard]] int cay_relay_open(struct cay_relay *relay, struct cay_loop *loop, int fd,
                                 int other_fd, void (*over)(struct cay_relay *relay));
/* What is not over is reset. */
void cay_relay_close(struct cay_relay *relay);

/* Closes a socket so that its peer learns that it was not a good end. */
void cay_relay_reset(int fd);

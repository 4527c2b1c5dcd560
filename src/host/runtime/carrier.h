/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What carries frames between the daemon and an init: one socket, or two pipes (wire/frame/pipe.h).
 * Never blocks. -errno, -EAGAIN when it must be waited for.
 */

#include "base/base.h"

struct cay_carrier {
    int fd;       /* what init says; of a socket also what it is told */
    int out_fd;   /* of pipes: what init is told; -1: a socket */
    int poll_fd;  /* of pipes: readable when one of them is ready; -1 otherwise */
    bool is_late; /* of pipes: something was sent */
    bool waits;   /* of pipes: for room */
};

/* Takes the descriptors over, also when it fails; out_fd is -1 for a socket. */
[[nodiscard]] int cay_carrier_open(struct cay_carrier *carrier, int fd, int out_fd, bool is_first);
void cay_carrier_close(struct cay_carrier *carrier);

/* What to poll, and for what, when so many bytes wait to be sent. */
[[nodiscard]] int cay_carrier_fd(const struct cay_carrier *carrier);
[[nodiscard]] short cay_carrier_wants(struct cay_carrier *carrier, size_t out_bytes);

/* How many bytes went or came; 0 at the end. */
[[nodiscard]] ssize_t cay_carrier_send(struct cay_carrier *carrier, const void *data, size_t len);
[[nodiscard]] ssize_t cay_carrier_receive(const struct cay_carrier *carrier, void *out,
                                          size_t size);

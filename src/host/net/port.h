/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An exposed port: a listener on the host whose connections end at a port of a sandbox's loopback.
 *
 * Order: open -> (serves by itself) -> close, at any moment.
 */

#include "host/net/net.h"

struct cay_port;

struct cay_port_options {
    const char *bind_address; /* numbers, without brackets */
    uint16_t host_port;       /* 0: any free one */
    uint16_t port;
    /* A connection showed whether somebody listens inside. */
    void (*seen)(void *owner, bool is_listening);
    void *owner;
    size_t *own_count; /* connections of all ports whose session has the same owner */
};

/* Takes netns_fd over, also on failure. Reasons: ALREADY_EXISTS when the port of the host is in
 * use, INVALID_ARGUMENT. */
[[nodiscard]] bool cay_port_open(struct cay_net *net, const struct cay_port_options *options,
                                 int netns_fd, struct cay_port **out_port, struct cay_error *err);

/* Its connections are reset. */
void cay_port_close(struct cay_port *port);

[[nodiscard]] uint16_t cay_port_host_port(const struct cay_port *port);
[[nodiscard]] const char *cay_port_bind_address(const struct cay_port *port);
[[nodiscard]] int cay_port_netns(const struct cay_port *port); /* stays the port's */

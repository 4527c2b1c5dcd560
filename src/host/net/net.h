/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the exposed ports of a host share. Belongs to the host and outlives its ports. */

#include "base/error.h"
#include "io/loop.h"

enum {
    CAY_PORT_CONNECTIONS = 256, /* of one port, at once */
    CAY_PORTS_PER_SESSION = 64,
    CAY_NET_CONNECTIONS = 4096, /* of all ports; less where descriptors are few */
};

struct cay_net {
    struct cay_loop *loop;
    char *bind_address; /* a number, without brackets */
    char *advertised;   /* host for clients; NULL: the address itself */
    char *domain;       /* of the daemon's proxy to ports; NULL: none */
    bool is_domain_https;
    size_t connection_count;
    size_t connection_count_max;
};

/* An empty or NULL `advertised` is none. Reason: INVALID_ARGUMENT. */
[[nodiscard]] bool cay_net_init(struct cay_net *net, struct cay_loop *loop,
                                const char *bind_address, const char *advertised,
                                struct cay_error *err);
/* Whether somebody who has so many connections may have one more: no more than are free, so that
 * some are left for others. */
[[nodiscard]] bool cay_net_has_room(const struct cay_net *net, size_t own_count);
/* Where the daemon's own proxy has host names of ports; NULL or empty: nowhere. */
void cay_net_set_domain(struct cay_net *net, const char *domain, bool is_https);
void cay_net_finish(struct cay_net *net);

/* An address as numbers, IPv4 or IPv6: nobody waits for a name to be looked up. */
[[nodiscard]] bool cay_net_is_address(const char *text);

/* "127.0.0.1:80", "[::1]:80". */
void cay_net_join(char *out, size_t size, const char *host, uint16_t port);

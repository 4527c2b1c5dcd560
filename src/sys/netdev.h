/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Network devices, addresses, neighbours and routes of the network namespace that a netlink socket
 * (NETLINK_ROUTE) was opened in. 0 or -errno.
 */

#include "base/subnet.h"

enum { CAY_MAC_BYTES = 6, CAY_NETDEV_NAME_SIZE = 16 };

struct cay_veth {
    const char *name; /* here */
    const char *alias;
    uint8_t mac[CAY_MAC_BYTES];
    const char *peer_name; /* and its other end, there */
    int peer_netns_fd;
    uint8_t peer_mac[CAY_MAC_BYTES];
};

/* Both ends are down, and know no neighbours but those they are told of. */
[[nodiscard]] int cay_veth_make(int fd, const struct cay_veth *veth);

/* Its number, or -ENODEV. */
[[nodiscard]] int cay_netdev_find(int fd, const char *name);
[[nodiscard]] int cay_netdev_delete(int fd, const char *name);
[[nodiscard]] int cay_netdev_up(int fd, int index);

/* Every device whose name begins so. `visit` returns false to stop. */
typedef bool cay_netdev_fn(void *context, const char *name);
[[nodiscard]] int cay_netdev_list(int fd, const char *prefix, cay_netdev_fn *visit, void *context);

/* The address alone: nothing else is reached through it by itself. */
[[nodiscard]] int cay_netdev_add_address(int fd, int index, const struct cay_ip *address);
[[nodiscard]] int cay_netdev_delete_address(int fd, int index, const struct cay_ip *address);
/* For good: it is never asked for. */
[[nodiscard]] int cay_netdev_add_neighbour(int fd, int index, const struct cay_ip *address,
                                           const uint8_t mac[CAY_MAC_BYTES]);

struct cay_route {
    struct cay_ip to;
    unsigned bits;
    int index;                 /* of the device; 0: what goes there is refused */
    const struct cay_ip *next; /* on that device; NULL: the destination itself is */
};

/* -EEXIST when there is one to the same destination. */
[[nodiscard]] int cay_route_add(int fd, const struct cay_route *route);

/* Every destination, of both families, that is reached without a router: neighbours, by device.
 * `visit` returns false to stop. */
typedef bool cay_route_fn(void *context, const struct cay_ip *to, unsigned bits, int index);
[[nodiscard]] int cay_route_list_neighbours(int fd, cay_route_fn *visit, void *context);

/* A socket that gets news of routes; non-blocking. */
[[nodiscard]] int cay_route_listen(void);
/* Takes what has come; false when there was nothing. */
[[nodiscard]] bool cay_route_was_changed(int fd);

/* How many bits of the destination the route in force has; -ENETUNREACH when there is none. */
[[nodiscard]] int cay_route_bits(int fd, const struct cay_ip *to);

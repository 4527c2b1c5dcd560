/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rules that choose a routing table, and routes to this very namespace, of the network namespace
 * that a netlink socket (NETLINK_ROUTE) was opened in. 0 or -errno.
 */

#include "sys/netdev.h"

enum { CAY_TABLE_LOCAL = 255 };

struct cay_netrule {
    int family;
    uint32_t priority;
    const struct cay_ip *to; /* NULL: everywhere */
    unsigned bits;
    uint8_t protocol; /* IPPROTO_…; 0: all */
    uint16_t port;    /* of the destination; 0: all */
    uint32_t table;   /* 0: it is prohibited */
};

/* Done when there is one like it. */
[[nodiscard]] int cay_netrule_add(int fd, const struct cay_netrule *rule);
/* Any of that priority; -ENOENT when there is none. */
[[nodiscard]] int cay_netrule_delete(int fd, int family, uint32_t priority);

/* Destinations that are this namespace itself, as if it had their addresses. */
struct cay_local_route {
    struct cay_ip to;
    unsigned bits;
    uint32_t table;
    int index;                   /* of a device */
    const struct cay_ip *source; /* who connects there comes from; NULL: the destination */
};

/* Done when there is one to the same destination. */
[[nodiscard]] int cay_local_route_add(int fd, const struct cay_local_route *route);
[[nodiscard]] int cay_local_route_delete(int fd, const struct cay_local_route *route);
/* Those of a table. `visit` returns false to stop. */
[[nodiscard]] int cay_local_route_list(int fd, int family, uint32_t table, cay_route_fn *visit,
                                       void *context);

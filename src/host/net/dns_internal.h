/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the two ways to ask share: dns.c has datagrams, dns_tcp.c connections. */

#include "base/list.h"
#include "host/net/dns.h"

struct cay_dns {
    struct cay_loop *loop;
    struct cay_dns_servers servers;
    int udp_fd;
    int tcp_fd;
    struct cay_watch udp_watch;
    struct cay_watch tcp_watch;
    struct cay_list questions;
    size_t question_count;
    struct cay_list connections;
    size_t connection_count;
};

/* The descriptor is its own from here on. */
void cay_dns_take_connection(struct cay_dns *dns, int fd);
void cay_dns_drop_connections(struct cay_dns *dns);

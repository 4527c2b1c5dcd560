/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names for a sandbox: port 53 of its own 127.0.0.1, served by the daemon, which asks whom the host
 * asks. So programs inside find names without a file that says where (resolvers ask 127.0.0.1
 * then), and no packet of theirs needs to reach the host. Only plain questions are passed
 * on (wire/dns.h), by datagram and by TCP; others are refused, and nothing of them leaves.
 *
 * Loop thread.
 */

#include "host/net/dns_servers.h"
#include "host/net/net.h"

struct cay_dns;

enum {
    CAY_DNS_QUESTIONS = 64,   /* of one sandbox at once */
    CAY_DNS_CONNECTIONS = 16, /* the same, by TCP */
    CAY_DNS_QUESTION_BYTES = 4096,
};

/* In the network namespace, which stays the caller's. 0 or -errno. */
[[nodiscard]] int cay_dns_open(struct cay_loop *loop, int netns_fd, struct cay_dns **out_dns);
/* Accepts NULL. */
void cay_dns_close(struct cay_dns *dns);

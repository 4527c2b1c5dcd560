/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Whom the host asks for names: /etc/resolv.conf, read again when it has changed. */

#include <netinet/in.h>

#include "base/base.h"

enum { CAY_DNS_SERVERS_MAX = 3 };

struct cay_dns_server {
    struct sockaddr_in6 address; /* or one of IPv4, by its family */
    socklen_t len;
};

struct cay_dns_servers {
    struct cay_dns_server list[CAY_DNS_SERVERS_MAX];
    size_t count;
    int64_t changed_ns; /* of the file that was read */
    uint64_t inode;
};

/* Reads a small file of the host's when it is not the one that was read last: does not wait. */
void cay_dns_servers_refresh(struct cay_dns_servers *servers, const char *path);

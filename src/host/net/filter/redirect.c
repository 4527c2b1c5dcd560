/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include "host/net/filter/redirect.h"
#include "sys/netlink.h"
#include "sys/netrule.h"
#include "sys/nftables.h"

/*
 * Where the kernel cannot steer by BPF: its table of connections leads whatever is sent to our
 * sockets, and remembers whom it was for (SO_ORIGINAL_DST). The routes are the same, so that it
 * closes in the same way: without this table nothing listens where they lead.
 */

enum { WHY_BYTES_MAX = 2048, PRIORITY = 12 };

#define TABLE "cay_redirect"

static const struct cay_ip ours[] = {{AF_INET, {198, 18, 0, 2}},
                                     {AF_INET6, {0xfd, 0, 0xe9, [15] = 2}}};

/* The kernel's table is everybody's: one sandbox has a bounded part of it. What stays within a
 * sandbox is not in it, however much that is; but answers of our sockets are. */
static const char rules[] = "table inet " TABLE " {}\n"
                            "delete table inet " TABLE "\n"
                            "table inet " TABLE " {\n"
                            "chain own { type filter hook output priority -300; policy accept;\n"
                            "ip saddr 198.18.0.2 accept\n"
                            "ip6 saddr fd00:e900::2 accept\n"
                            "ip daddr 127.0.0.1 meta l4proto { tcp, udp } th dport 53 accept\n"
                            "ip daddr { 127.0.0.0/8, 198.18.0.1 } notrack\n"
                            "ip6 daddr { ::1, fd00:e900::1 } notrack\n"
                            "}\n"
                            "chain bound { type filter hook output priority -150; policy accept;\n"
                            "ct state new ct count over 8192 drop\n"
                            "}\n"
                            "chain lead { type nat hook output priority -100; policy accept;\n"
                            "ip daddr 127.0.0.1 udp dport 53 dnat ip to 198.18.0.2:53\n"
                            "ip daddr 127.0.0.1 tcp dport 53 dnat ip to 198.18.0.2:1\n"
                            "ip daddr { 127.0.0.0/8, 198.18.0.1 } accept\n"
                            "ip6 daddr { ::1, fd00:e900::1 } accept\n"
                            "meta nfproto ipv4 udp dport 53 dnat ip to 198.18.0.2:53\n"
                            "meta nfproto ipv4 meta l4proto tcp dnat ip to 198.18.0.2:1\n"
                            "meta nfproto ipv6 udp dport 53 dnat ip6 to [fd00:e900::2]:53\n"
                            "meta nfproto ipv6 meta l4proto tcp dnat ip6 to [fd00:e900::2]:1\n"
                            "}\n"
                            "}\n";

/* What is led there is routed anew, by its address alone. */
static int set_route(bool is_on)
{
    int status = 0;
    cay_autoclose int fd = cay_netlink_open(NETLINK_ROUTE, 0);
    if (fd < 0)
        return fd;
    for (size_t i = 0; i < CAY_COUNT(ours) && status == 0; i++) {
        unsigned bits = (unsigned)cay_ip_bytes(ours[i].family) * 8;
        const struct cay_netrule rule = {ours[i].family, PRIORITY, &ours[i], bits, 0, 0,
                                         CAY_TABLE_LOCAL};
        status =
            is_on ? cay_netrule_add(fd, &rule) : cay_netrule_delete(fd, ours[i].family, PRIORITY);
        if (status == (is_on ? -EEXIST : -ENOENT) || ours[i].family == AF_INET6)
            status = 0; /* there may be no IPv6 */
    }
    return status;
}

int cay_redirect_put(void)
{
    cay_auto(cay_buf_finish) struct cay_buf why;
    cay_buf_init(&why, WHY_BYTES_MAX);
    int status = set_route(true);
    return status < 0 ? status : cay_nft_apply(rules, &why);
}

int cay_redirect_remove(void)
{
    cay_auto(cay_buf_finish) struct cay_buf why;
    cay_buf_init(&why, WHY_BYTES_MAX);
    if (cay_nft_has_table(TABLE) != 1)
        return 0;
    int status = cay_nft_apply("delete table inet " TABLE "\n", &why);
    return status < 0 ? status : set_route(false);
}

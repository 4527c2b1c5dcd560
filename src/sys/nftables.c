/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/nftables.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdalign.h>
#include <sys/socket.h>

#include "sys/netlink.h"
#include "sys/run.h"

enum { NFT_MS_MAX = 20'000 };

static uint16_t type_of(int message)
{
    return (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | message);
}

int cay_nft_apply(const char *text, struct cay_buf *out_why)
{
    const char *const argv[] = {"nft", text, NULL};
    const struct cay_program run = {.argv = argv, .timeout_ms = NFT_MS_MAX, .out = out_why};
    int status = cay_run(&run);
    return status > 0 ? -EINVAL : status;
}

bool cay_nft_is_installed(void)
{
    return cay_run_has("nft");
}

int cay_nft_has_table(const char *name)
{
    cay_autoclose int fd = cay_netlink_open(NETLINK_NETFILTER, 0);
    if (fd < 0)
        return fd;
    const struct nfgenmsg family = {.nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0};
    struct cay_netlink message;
    cay_netlink_begin(&message, type_of(NFT_MSG_GETTABLE), 0, &family, sizeof(family));
    cay_netlink_put_text(&message, NFTA_TABLE_NAME, name);
    int status = cay_netlink_ask(fd, &message, NULL, NULL);
    return status == -ENOENT ? 0 : status < 0 ? status : 1;
}

int cay_nft_listen(void)
{
    cay_autoclose int fd = cay_netlink_open(NETLINK_NETFILTER, NFNLGRP_NFTABLES);
    if (fd < 0)
        return fd;
    return fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : cay_take_fd(fd);
}

static bool is_deletion(const struct nlmsghdr *news, const char *name)
{
    size_t len = 0;
    if (news->nlmsg_type != type_of(NFT_MSG_DELTABLE))
        return false;
    const char *table = cay_netlink_find(news, sizeof(struct nfgenmsg), NFTA_TABLE_NAME, 1, &len);
    return table && strnlen(table, len) < len && strcmp(table, name) == 0;
}

bool cay_nft_was_deleted(int fd, const char *name)
{
    enum { TURNS = 64 }; /* somebody may load rules without end */
    alignas(struct nlmsghdr) char news[32 * 1024];
    bool is_gone = false;
    for (int i = 0; i < TURNS; i++) {
        ssize_t len = recv(fd, news, sizeof(news), 0);
        if (len < 0)
            return is_gone || errno == ENOBUFS;
        int left = (int)len;
        for (const struct nlmsghdr *one = (const void *)news; NLMSG_OK(one, left);
             one = NLMSG_NEXT(one, left))
            is_gone = is_gone || is_deletion(one, name);
    }
    return is_gone;
}

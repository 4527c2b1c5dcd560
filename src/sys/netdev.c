/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/netdev.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <sys/socket.h>

#include "sys/netlink.h"

enum { MAKE = NLM_F_CREATE | NLM_F_EXCL };

/* From outside nobody learns what is behind a device without ARP and neighbour discovery, and from
 * inside nobody makes others believe what is. */
static const struct ifinfomsg quiet = {
    .ifi_family = AF_UNSPEC, .ifi_flags = IFF_NOARP, .ifi_change = IFF_NOARP};

/* No address that it gives itself. */
static void put_addr_gen_none(struct cay_netlink *message)
{
    const uint8_t none = IN6_ADDR_GEN_MODE_NONE;
    size_t families = cay_netlink_nest(message, IFLA_AF_SPEC);
    size_t six = cay_netlink_nest(message, AF_INET6);
    cay_netlink_put(message, IFLA_INET6_ADDR_GEN_MODE, &none, sizeof(none));
    cay_netlink_nest_end(message, six);
    cay_netlink_nest_end(message, families);
}

int cay_veth_make(int fd, const struct cay_veth *veth)
{
    struct cay_netlink message;
    cay_netlink_begin(&message, RTM_NEWLINK, MAKE, &quiet, sizeof(quiet));
    cay_netlink_put_text(&message, IFLA_IFNAME, veth->name);
    cay_netlink_put(&message, IFLA_ADDRESS, veth->mac, CAY_MAC_BYTES);
    size_t info = cay_netlink_nest(&message, IFLA_LINKINFO);
    cay_netlink_put_text(&message, IFLA_INFO_KIND, "veth");
    size_t data = cay_netlink_nest(&message, IFLA_INFO_DATA);
    size_t peer = cay_netlink_nest(&message, VETH_INFO_PEER);
    cay_netlink_put_raw(&message, &quiet, sizeof(quiet));
    cay_netlink_put_text(&message, IFLA_IFNAME, veth->peer_name);
    cay_netlink_put(&message, IFLA_ADDRESS, veth->peer_mac, CAY_MAC_BYTES);
    cay_netlink_put_u32(&message, IFLA_NET_NS_FD, (uint32_t)veth->peer_netns_fd);
    cay_netlink_nest_end(&message, peer);
    cay_netlink_nest_end(&message, data);
    cay_netlink_nest_end(&message, info);
    int status = cay_netlink_do(fd, &message);
    int index = status == 0 ? cay_netdev_find(fd, veth->name) : status;
    if (index < 0)
        return index;
    /* Neither is taken when the device is made. */
    struct ifinfomsg named = quiet;
    named.ifi_index = index;
    cay_netlink_begin(&message, RTM_SETLINK, 0, &named, sizeof(named));
    cay_netlink_put(&message, IFLA_IFALIAS, veth->alias, strlen(veth->alias));
    return cay_netlink_do(fd, &message);
}

struct found {
    const char *prefix;
    cay_netdev_fn *visit;
    void *context;
    int index;
};

static bool note(void *context, const struct nlmsghdr *answer)
{
    struct found *found = context;
    struct ifinfomsg info;
    size_t len = 0;
    const char *name = cay_netlink_find(answer, sizeof(info), IFLA_IFNAME, 1, &len);
    if (answer->nlmsg_len < NLMSG_LENGTH(sizeof(info)) || !name || name[len - 1])
        return true;
    memcpy(&info, NLMSG_DATA(answer), sizeof(info));
    if (found->visit)
        return strncmp(name, found->prefix, strlen(found->prefix)) != 0 ||
               found->visit(found->context, name);
    found->index = info.ifi_index;
    return false;
}

int cay_netdev_find(int fd, const char *name)
{
    const struct ifinfomsg any = {.ifi_family = AF_UNSPEC};
    struct found found = {.index = -ENODEV};
    struct cay_netlink message;
    cay_netlink_begin(&message, RTM_GETLINK, 0, &any, sizeof(any));
    cay_netlink_put_text(&message, IFLA_IFNAME, name);
    int status = cay_netlink_ask(fd, &message, note, &found);
    return status < 0 ? status : found.index;
}

int cay_netdev_list(int fd, const char *prefix, cay_netdev_fn *visit, void *context)
{
    const struct ifinfomsg any = {.ifi_family = AF_UNSPEC};
    struct found found = {.prefix = prefix, .visit = visit, .context = context};
    struct cay_netlink message;
    cay_netlink_begin(&message, RTM_GETLINK, NLM_F_DUMP, &any, sizeof(any));
    return cay_netlink_ask(fd, &message, note, &found);
}

int cay_netdev_delete(int fd, const char *name)
{
    const struct ifinfomsg any = {.ifi_family = AF_UNSPEC};
    struct cay_netlink message;
    cay_netlink_begin(&message, RTM_DELLINK, 0, &any, sizeof(any));
    cay_netlink_put_text(&message, IFLA_IFNAME, name);
    return cay_netlink_do(fd, &message);
}

int cay_netdev_up(int fd, int index)
{
    const struct ifinfomsg up = {.ifi_family = AF_UNSPEC,
                                 .ifi_index = index,
                                 .ifi_flags = IFF_UP | IFF_NOARP,
                                 .ifi_change = IFF_UP | IFF_NOARP};
    struct cay_netlink message;
    cay_netlink_begin(&message, RTM_SETLINK, 0, &up, sizeof(up));
    put_addr_gen_none(&message);
    int status = cay_netlink_do(fd, &message);
    if (status >= 0 || status == -EPERM)
        return status;
    /* A kernel without IPv6 takes the rest alone. */
    cay_netlink_begin(&message, RTM_SETLINK, 0, &up, sizeof(up));
    return cay_netlink_do(fd, &message);
}

static int set_address(int fd, uint16_t type, uint16_t flags, int index,
                       const struct cay_ip *address)
{
    size_t len = cay_ip_bytes(address->family);
    const struct ifaddrmsg header = {.ifa_family = (uint8_t)address->family,
                                     .ifa_prefixlen = (uint8_t)(len * 8),
                                     .ifa_flags = address->family == AF_INET6 ? IFA_F_NODAD : 0,
                                     .ifa_index = (uint32_t)index};
    struct cay_netlink message;
    cay_netlink_begin(&message, type, flags, &header, sizeof(header));
    cay_netlink_put(&message, IFA_LOCAL, address->bytes, len);
    cay_netlink_put(&message, IFA_ADDRESS, address->bytes, len);
    return cay_netlink_do(fd, &message);
}

int cay_netdev_add_address(int fd, int index, const struct cay_ip *address)
{
    return set_address(fd, RTM_NEWADDR, MAKE, index, address);
}

int cay_netdev_delete_address(int fd, int index, const struct cay_ip *address)
{
    return set_address(fd, RTM_DELADDR, 0, index, address);
}

int cay_netdev_add_neighbour(int fd, int index, const struct cay_ip *address,
                             const uint8_t mac[CAY_MAC_BYTES])
{
    const struct ndmsg header = {
        .ndm_family = (uint8_t)address->family, .ndm_ifindex = index, .ndm_state = NUD_PERMANENT};
    struct cay_netlink message;
    cay_netlink_begin(&message, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &header,
                      sizeof(header));
    cay_netlink_put(&message, NDA_DST, address->bytes, cay_ip_bytes(address->family));
    cay_netlink_put(&message, NDA_LLADDR, mac, CAY_MAC_BYTES);
    return cay_netlink_do(fd, &message);
}

int cay_route_add(int fd, const struct cay_route *route)
{
    size_t len = cay_ip_bytes(route->to.family);
    const struct rtmsg header = {
        .rtm_family = (uint8_t)route->to.family,
        .rtm_dst_len = (uint8_t)route->bits,
        .rtm_table = RT_TABLE_MAIN,
        .rtm_protocol = RTPROT_STATIC,
        .rtm_scope = route->index && !route->next ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE,
        .rtm_type = route->index ? RTN_UNICAST : RTN_PROHIBIT,
        .rtm_flags = route->next ? RTNH_F_ONLINK : 0,
    };
    struct cay_netlink message;
    cay_netlink_begin(&message, RTM_NEWROUTE, MAKE, &header, sizeof(header));
    if (route->bits)
        cay_netlink_put(&message, RTA_DST, route->to.bytes, len);
    if (route->next)
        cay_netlink_put(&message, RTA_GATEWAY, route->next->bytes, len);
    if (route->index)
        cay_netlink_put_u32(&message, RTA_OIF, (uint32_t)route->index);
    return cay_netlink_do(fd, &message);
}

static bool note_bits(void *context, const struct nlmsghdr *answer)
{
    struct rtmsg header;
    if (answer->nlmsg_type == RTM_NEWROUTE && answer->nlmsg_len >= NLMSG_LENGTH(sizeof(header))) {
        memcpy(&header, NLMSG_DATA(answer), sizeof(header));
        *(int *)context = header.rtm_type == RTN_UNREACHABLE ? -ENETUNREACH : header.rtm_dst_len;
    }
    return false;
}

int cay_route_bits(int fd, const struct cay_ip *to)
{
    size_t len = cay_ip_bytes(to->family);
    const struct rtmsg header = {.rtm_family = (uint8_t)to->family,
                                 .rtm_dst_len = (uint8_t)(len * 8),
                                 .rtm_flags = RTM_F_FIB_MATCH};
    int bits = -ENETUNREACH;
    struct cay_netlink message;
    cay_netlink_begin(&message, RTM_GETROUTE, 0, &header, sizeof(header));
    cay_netlink_put(&message, RTA_DST, to->bytes, len);
    int status = cay_netlink_ask(fd, &message, note_bits, &bits);
    return status < 0 ? status : bits;
}

struct neighbours {
    cay_route_fn *visit;
    void *context;
};

/* Not those with a router, nor the default, nor what is this host itself. */
static bool note_neighbours(void *context, const struct nlmsghdr *answer)
{
    static const uint16_t routers[] = {RTA_GATEWAY, RTA_VIA, RTA_MULTIPATH, RTA_NH_ID};
    const struct neighbours *list = context;
    struct rtmsg header;
    size_t len = 0;
    if (answer->nlmsg_type != RTM_NEWROUTE || answer->nlmsg_len < NLMSG_LENGTH(sizeof(header)))
        return true;
    memcpy(&header, NLMSG_DATA(answer), sizeof(header));
    struct cay_ip to = {.family = header.rtm_family};
    const void *address =
        cay_netlink_find(answer, sizeof(header), RTA_DST, cay_ip_bytes(to.family), &len);
    const void *device = cay_netlink_find(answer, sizeof(header), RTA_OIF, sizeof(uint32_t), &len);
    bool has_router = false;
    for (size_t i = 0; i < CAY_COUNT(routers); i++)
        has_router =
            has_router || cay_netlink_find(answer, sizeof(header), routers[i], 1, &len) != NULL;
    if (header.rtm_type != RTN_UNICAST || header.rtm_table == RT_TABLE_LOCAL || has_router ||
        !header.rtm_dst_len || header.rtm_dst_len > cay_ip_bytes(to.family) * 8 || !address ||
        !device)
        return true;
    uint32_t index = 0;
    memcpy(to.bytes, address, cay_ip_bytes(to.family));
    memcpy(&index, device, sizeof(index));
    return list->visit(list->context, &to, header.rtm_dst_len, (int)index);
}

int cay_route_list_neighbours(int fd, cay_route_fn *visit, void *context)
{
    static const uint8_t families[] = {AF_INET, AF_INET6};
    struct neighbours list = {.visit = visit, .context = context};
    int status = 0;
    for (size_t i = 0; i < CAY_COUNT(families) && status == 0; i++) {
        const struct rtmsg all = {.rtm_family = families[i]};
        struct cay_netlink message;
        cay_netlink_begin(&message, RTM_GETROUTE, NLM_F_DUMP, &all, sizeof(all));
        status = cay_netlink_ask(fd, &message, note_neighbours, &list);
    }
    return status;
}

int cay_route_listen(void)
{
    const uint32_t six = RTNLGRP_IPV6_ROUTE;
    cay_autoclose int fd = cay_netlink_open(NETLINK_ROUTE, RTNLGRP_IPV4_ROUTE);
    if (fd < 0)
        return fd;
    if (setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &six, sizeof(six)) < 0 ||
        fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    return cay_take_fd(fd);
}

bool cay_route_was_changed(int fd)
{
    enum { TURNS = 64 }; /* somebody may change them without end */
    char news[4096];
    bool is_changed = false;
    for (int i = 0; i < TURNS; i++) {
        ssize_t len = recv(fd, news, sizeof(news), MSG_TRUNC);
        if (len < 0)
            return is_changed || errno == ENOBUFS; /* some were lost */
        is_changed = true;
    }
    return is_changed;
}

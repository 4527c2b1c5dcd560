/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/netrule.h"

#include <errno.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "sys/netlink.h"

int cay_netrule_add(int fd, const struct cay_netrule *rule)
{
    const struct fib_rule_hdr header = {
        .family = (uint8_t)rule->family,
        .dst_len = (uint8_t)(rule->to ? rule->bits : 0),
        .action = rule->table ? FR_ACT_TO_TBL : FR_ACT_PROHIBIT,
    };
    struct cay_netlink message;
    cay_netlink_begin(&message, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, &header, sizeof(header));
    cay_netlink_put_u32(&message, FRA_PRIORITY, rule->priority);
    if (rule->table)
        cay_netlink_put_u32(&message, FRA_TABLE, rule->table);
    if (rule->to && rule->bits)
        cay_netlink_put(&message, FRA_DST, rule->to->bytes, cay_ip_bytes(rule->family));
    if (rule->protocol)
        cay_netlink_put(&message, FRA_IP_PROTO, &rule->protocol, sizeof(rule->protocol));
    if (rule->port) {
        const struct fib_rule_port_range ports = {.start = rule->port, .end = rule->port};
        cay_netlink_put(&message, FRA_DPORT_RANGE, &ports, sizeof(ports));
    }
    int status = cay_netlink_do(fd, &message);
    return status == -EEXIST ? 0 : status;
}

int cay_netrule_delete(int fd, int family, uint32_t priority)
{
    const struct fib_rule_hdr header = {.family = (uint8_t)family};
    struct cay_netlink message;
    cay_netlink_begin(&message, RTM_DELRULE, 0, &header, sizeof(header));
    cay_netlink_put_u32(&message, FRA_PRIORITY, priority);
    return cay_netlink_do(fd, &message);
}

static void begin_route(struct cay_netlink *message, uint16_t type, uint16_t flags,
                        const struct cay_local_route *route)
{
    const struct rtmsg header = {
        .rtm_family = (uint8_t)route->to.family,
        .rtm_dst_len = (uint8_t)route->bits,
        .rtm_table = RT_TABLE_UNSPEC,
        .rtm_protocol = RTPROT_STATIC,
        .rtm_scope = RT_SCOPE_HOST,
        .rtm_type = RTN_LOCAL,
    };
    cay_netlink_begin(message, type, flags, &header, sizeof(header));
    cay_netlink_put_u32(message, RTA_TABLE, route->table);
    if (route->bits)
        cay_netlink_put(message, RTA_DST, route->to.bytes, cay_ip_bytes(route->to.family));
    cay_netlink_put_u32(message, RTA_OIF, (uint32_t)route->index);
}

int cay_local_route_add(int fd, const struct cay_local_route *route)
{
    struct cay_netlink message;
    begin_route(&message, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, route);
    if (route->source)
        cay_netlink_put(&message, RTA_PREFSRC, route->source->bytes,
                        cay_ip_bytes(route->to.family));
    int status = cay_netlink_do(fd, &message);
    return status == -EEXIST ? 0 : status;
}

int cay_local_route_delete(int fd, const struct cay_local_route *route)
{
    struct cay_netlink message;
    begin_route(&message, RTM_DELROUTE, 0, route);
    return cay_netlink_do(fd, &message);
}

struct listing {
    uint32_t table;
    cay_route_fn *visit;
    void *context;
};

static bool note(void *context, const struct nlmsghdr *answer)
{
    const struct listing *listing = context;
    struct rtmsg header;
    if (answer->nlmsg_type != RTM_NEWROUTE || answer->nlmsg_len < NLMSG_LENGTH(sizeof(header)))
        return true;
    memcpy(&header, NLMSG_DATA(answer), sizeof(header));
    struct cay_ip to = {.family = header.rtm_family};
    size_t bytes = cay_ip_bytes(to.family);
    uint32_t table = 0;
    uint32_t index = 0;
    const void *in = cay_netlink_find(answer, sizeof(header), RTA_TABLE, sizeof(table), NULL);
    const void *device = cay_netlink_find(answer, sizeof(header), RTA_OIF, sizeof(index), NULL);
    const void *address = cay_netlink_find(answer, sizeof(header), RTA_DST, bytes, NULL);
    if (!in || !device || header.rtm_type != RTN_LOCAL || header.rtm_dst_len > bytes * 8 ||
        (header.rtm_dst_len && !address))
        return true;
    memcpy(&table, in, sizeof(table));
    memcpy(&index, device, sizeof(index));
    if (address)
        memcpy(to.bytes, address, bytes);
    return table != listing->table ||
           listing->visit(listing->context, &to, header.rtm_dst_len, (int)index);
}

int cay_local_route_list(int fd, int family, uint32_t table, cay_route_fn *visit, void *context)
{
    const struct rtmsg all = {.rtm_family = (uint8_t)family};
    struct listing listing = {.table = table, .visit = visit, .context = context};
    struct cay_netlink message;
    cay_netlink_begin(&message, RTM_GETROUTE, NLM_F_DUMP, &all, sizeof(all));
    return cay_netlink_ask(fd, &message, note, &listing);
}

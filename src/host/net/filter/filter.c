/* SPDX-License-Identifier: Apache-2.0 */
#include "host/net/filter/filter.h"

#include <errno.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/net/filter/redirect.h"
#include "sys/netlink.h"
#include "sys/netns.h"
#include "sys/netrule.h"

enum { DNS_PORT = 53, LISTENER_PORT = 1, RANGES_TABLE = 100 };

static const struct cay_ip own4 = {AF_INET, {198, 18, 0, 1}};
static const struct cay_ip own6 = {AF_INET6, {0xfd, 0, 0xe9, [15] = 1}};
static const struct cay_ip ours4 = {AF_INET, {198, 18, 0, 2}};
static const struct cay_ip ours6 = {AF_INET6, {0xfd, 0, 0xe9, [15] = 2}};
static const struct cay_ip loopback4 = {AF_INET, {127}};
static const struct cay_ip loopback6 = {AF_INET6, {[15] = 1}};
static const struct cay_ip pool4 = {AF_INET, {198, 18}};
static const struct cay_ip pool6 = {AF_INET6, {0xfd, 0, 0xe9}};

struct family {
    const struct cay_ip *own, *ours, *loopback, *pool;
    unsigned loopback_bits, pool_bits;
};

static const struct family families[] = {
    {&own4, &ours4, &loopback4, &pool4, 8, 15},
    {&own6, &ours6, &loopback6, &pool6, 128, 32},
};

/* --- routes --- */

/* In the order of their priorities: the first that fits counts. Below them stands the kernel's own
 * rule for everything local (priority 0), which would let UDP through; it goes when these stand. */
enum {
    RULE_LOOPBACK = 10,
    RULE_OWN,
    RULE_DNS_UDP = 20,
    RULE_DNS_TCP,
    RULE_POOL = 30,
    RULE_RANGES,
    RULE_END = 40,
};

static int add_rules(int fd, const struct family *family)
{
    int kind = family->own->family;
    unsigned bits = (unsigned)cay_ip_bytes(kind) * 8;
    const struct cay_netrule rules[] = {
        {kind, RULE_LOOPBACK, family->loopback, family->loopback_bits, 0, 0, CAY_TABLE_LOCAL},
        {kind, RULE_OWN, family->own, bits, 0, 0, CAY_TABLE_LOCAL},
        {kind, RULE_DNS_UDP, NULL, 0, IPPROTO_UDP, DNS_PORT, CAY_TABLE_LOCAL},
        {kind, RULE_DNS_TCP, NULL, 0, IPPROTO_TCP, DNS_PORT, CAY_TABLE_LOCAL},
        {kind, RULE_POOL, family->pool, family->pool_bits, IPPROTO_TCP, 0, CAY_TABLE_LOCAL},
        {kind, RULE_RANGES, NULL, 0, IPPROTO_TCP, 0, RANGES_TABLE},
        {kind, RULE_END, NULL, 0, 0, 0, 0},
    };
    int status = 0;
    for (size_t i = 0; i < CAY_COUNT(rules) && status == 0; i++)
        status = cay_netrule_add(fd, &rules[i]);
    if (status < 0)
        return status;
    status = cay_netrule_delete(fd, kind, 0);
    return status == -ENOENT ? 0 : status;
}

static int delete_rules(int fd, const struct family *family)
{
    static const uint32_t priorities[] = {RULE_LOOPBACK, RULE_OWN,    RULE_DNS_UDP, RULE_DNS_TCP,
                                          RULE_POOL,     RULE_RANGES, RULE_END};
    const struct cay_netrule local = {.family = family->own->family, .table = CAY_TABLE_LOCAL};
    int status = cay_netrule_add(fd, &local);
    for (size_t i = 0; i < CAY_COUNT(priorities) && status == 0; i++) {
        status = cay_netrule_delete(fd, family->own->family, priorities[i]);
        status = status == -ENOENT ? 0 : status;
    }
    return status;
}

static struct cay_local_route everywhere(const struct family *family, int index)
{
    return (struct cay_local_route){.to = {.family = family->own->family},
                                    .table = CAY_TABLE_LOCAL,
                                    .index = index,
                                    .source = family->own};
}

static int add_routes(int fd, int index, const struct family *family)
{
    const struct cay_local_route all = everywhere(family, index);
    int status = cay_netdev_add_address(fd, index, family->own);
    status = status == -EEXIST ? 0 : status;
    if (status == 0)
        status = cay_local_route_add(fd, &all);
    return status == 0 ? add_rules(fd, family) : status;
}

/* --- sockets --- */

static int set_flag(int fd, int level, int option)
{
    const int on = 1;
    return setsockopt(fd, level, option, &on, sizeof(on)) < 0 ? -errno : 0;
}

static socklen_t fill(const struct cay_ip *address, uint16_t port, struct sockaddr_storage *out)
{
    *out = (struct sockaddr_storage){};
    if (address->family == AF_INET) {
        struct sockaddr_in *four = (struct sockaddr_in *)out;
        *four = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
        memcpy(&four->sin_addr, address->bytes, sizeof(four->sin_addr));
        return sizeof(*four);
    }
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;
    *six = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
    memcpy(&six->sin6_addr, address->bytes, sizeof(six->sin6_addr));
    return sizeof(*six);
}

static int open_socket(const struct cay_ip *address, int type, uint16_t port)
{
    struct sockaddr_storage to;
    socklen_t len = fill(address, port, &to);
    bool is_six = address->family == AF_INET6;
    cay_autoclose int fd = socket(address->family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    /* The address is one of the namespace by its routes, not by a device of it. */
    int status =
        is_six ? set_flag(fd, IPPROTO_IPV6, IPV6_FREEBIND) : set_flag(fd, IPPROTO_IP, IP_FREEBIND);
    if (status == 0 && is_six)
        status = set_flag(fd, IPPROTO_IPV6, IPV6_V6ONLY);
    if (status == 0 && type == SOCK_STREAM) /* an older one's connections may still be there */
        status = set_flag(fd, SOL_SOCKET, SO_REUSEADDR);
    else if (status == 0)
        status = is_six ? set_flag(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO)
                        : set_flag(fd, IPPROTO_IP, IP_PKTINFO);
    if (status == 0 && bind(fd, (const struct sockaddr *)&to, len) < 0)
        status = -errno;
    if (status == 0 && type == SOCK_STREAM && listen(fd, CAY_FILTER_LISTEN_BACKLOG) < 0)
        status = -errno;
    return status < 0 ? status : cay_take_fd(fd);
}

static int open_sockets(struct cay_filter *filter, size_t family)
{
    static const struct {
        int type;
        uint16_t port;
        size_t place;
    } kinds[] = {{SOCK_STREAM, LISTENER_PORT, CAY_STEERED_TCP4},
                 {SOCK_DGRAM, DNS_PORT, CAY_STEERED_DNS4}};
    for (size_t i = 0; i < CAY_COUNT(kinds); i++) {
        int fd = open_socket(families[family].ours, kinds[i].type, kinds[i].port);
        if (fd < 0)
            return fd;
        filter->sockets[kinds[i].place + family] = fd;
    }
    return 0;
}

/* In the namespace. */
static int furnish(void *context)
{
    struct cay_filter *filter = context;
    cay_autoclose int fd = cay_netlink_open(NETLINK_ROUTE, 0);
    int index = fd < 0 ? fd : cay_netdev_find(fd, "lo");
    if (index < 0)
        return index;
    int status = add_routes(fd, index, &families[0]);
    if (status == 0)
        status = open_sockets(filter, 0);
    if (status < 0)
        return status;
    /* Without it there is nothing to be closed. */
    int six = add_routes(fd, index, &families[1]);
    return six == 0 ? open_sockets(filter, 1) : 0;
}

#define MODE "network filtered: "

static bool fail(struct cay_error *err, int status, const char *what)
{
    return cay_fail_errno(err, CAY_R_NOT_SUPPORTED, status, MODE "%s", what);
}

static int lead(void *context)
{
    const enum cay_filter_way *way = context;
    return *way == CAY_FILTER_BY_TABLES ? cay_redirect_put() : cay_redirect_remove();
}

bool cay_filter_open(int netns_fd, enum cay_filter_way way, struct cay_filter *out_filter,
                     struct cay_error *err)
{
    struct cay_filter filter = CAY_FILTER_CLOSED;
    int status = cay_netns_visit(netns_fd, furnish, &filter);
    if (status < 0) {
        cay_filter_close(&filter);
        return fail(err, status, "the sandbox's routes and sockets cannot be made");
    }
    status = cay_netns_visit(netns_fd, lead, &way);
    if (status < 0) {
        cay_filter_close(&filter);
        return fail(err, status, "the sandbox's packet filter cannot be set");
    }
    if (way == CAY_FILTER_BY_TABLES) {
        *out_filter = filter;
        return true;
    }
    filter.link_fd = cay_steer(netns_fd, filter.sockets, &own4, &own6);
    if (filter.link_fd < 0) {
        status = filter.link_fd;
        cay_filter_close(&filter);
        return fail(err, status, "the kernel takes no BPF program of type sk_lookup");
    }
    *out_filter = filter;
    return true;
}

void cay_filter_close(struct cay_filter *filter)
{
    for (size_t i = 0; i < CAY_STEERED_COUNT; i++)
        cay_cleanup_close(&filter->sockets[i]);
    cay_cleanup_close(&filter->link_fd);
    *filter = CAY_FILTER_CLOSED;
}

static bool try_way(enum cay_filter_way way, struct cay_error *err)
{
    struct cay_filter filter = CAY_FILTER_CLOSED;
    if (geteuid() != 0)
        return cay_fail(err, CAY_R_NOT_SUPPORTED, MODE "the daemon is not root");
    cay_autoclose int netns_fd = cay_netns_open();
    if (netns_fd < 0)
        return fail(err, netns_fd, "a network namespace cannot be made");
    if (!cay_filter_open(netns_fd, way, &filter, err))
        return false;
    cay_filter_close(&filter);
    return true;
}

bool cay_filter_check(enum cay_filter_way wanted, enum cay_filter_way *out_way,
                      struct cay_error *err)
{
    struct cay_error by_bpf = {};
    struct cay_error by_tables = {};
    *out_way = wanted == CAY_FILTER_ANY_WAY ? CAY_FILTER_BY_BPF : wanted;
    if (wanted != CAY_FILTER_ANY_WAY)
        return try_way(wanted, err);
    if (try_way(CAY_FILTER_BY_BPF, &by_bpf))
        return true;
    *out_way = CAY_FILTER_BY_TABLES;
    return try_way(CAY_FILTER_BY_TABLES, &by_tables) ||
           cay_fail(err, CAY_R_NOT_SUPPORTED, "%s, nor by nft: %s", by_bpf.text,
                    by_tables.text + strlen(MODE));
}

/* --- ranges --- */

struct ranges {
    const struct cay_subnet *wanted;
    size_t wanted_count;
    struct cay_subnet *stale;
    size_t stale_count;
};

static bool is_same(const struct cay_subnet *a, const struct cay_subnet *b)
{
    return a->bits == b->bits && a->first.family == b->first.family &&
           memcmp(a->first.bytes, b->first.bytes, cay_ip_bytes(a->first.family)) == 0;
}

static bool note_stale(void *context, const struct cay_ip *to, unsigned bits, int)
{
    struct ranges *ranges = context;
    const struct cay_subnet one = {.first = *to, .bits = bits};
    for (size_t i = 0; i < ranges->wanted_count; i++) {
        if (is_same(&ranges->wanted[i], &one))
            return true;
    }
    ranges->stale =
        cay_realloc_array(ranges->stale, ranges->stale_count + 1, sizeof(*ranges->stale));
    ranges->stale[ranges->stale_count++] = one;
    return true;
}

static struct cay_local_route route_to(const struct cay_subnet *range, int index)
{
    return (struct cay_local_route){
        .to = range->first,
        .bits = range->bits,
        .table = RANGES_TABLE,
        .index = index,
        .source = range->first.family == AF_INET ? &own4 : &own6,
    };
}

static int set_ranges(void *context)
{
    struct ranges *ranges = context;
    cay_autoclose int fd = cay_netlink_open(NETLINK_ROUTE, 0);
    int index = fd < 0 ? fd : cay_netdev_find(fd, "lo");
    if (index < 0)
        return index;
    int status = 0;
    for (size_t i = 0; i < ranges->wanted_count && status == 0; i++) {
        const struct cay_local_route route = route_to(&ranges->wanted[i], index);
        status = cay_local_route_add(fd, &route);
        if (route.to.family == AF_INET6 && status < 0)
            status = 0; /* no IPv6 here: nothing leads there anyway */
    }
    for (size_t i = 0; i < CAY_COUNT(families) && status == 0; i++)
        (void)cay_local_route_list(fd, families[i].own->family, RANGES_TABLE, note_stale, ranges);
    for (size_t i = 0; i < ranges->stale_count && status == 0; i++) {
        const struct cay_local_route route = route_to(&ranges->stale[i], index);
        status = cay_local_route_delete(fd, &route);
    }
    return status;
}

bool cay_filter_set_ranges(int netns_fd, const struct cay_subnet *wanted, size_t count,
                           struct cay_error *err)
{
    struct ranges ranges = {.wanted = wanted, .wanted_count = count};
    if (count > CAY_FILTER_RANGES_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "network: %d ranges of addresses at most",
                        CAY_FILTER_RANGES_MAX);
    int status = cay_netns_visit(netns_fd, set_ranges, &ranges);
    free(ranges.stale);
    return status == 0 || fail(err, status, "routes for its ranges");
}

/* --- the end --- */

static int unfurnish(void *)
{
    (void)cay_redirect_remove(); /* what it led to is gone */
    struct ranges none = {};
    int status = set_ranges(&none);
    free(none.stale);
    cay_autoclose int fd = cay_netlink_open(NETLINK_ROUTE, 0);
    int index = fd < 0 ? fd : cay_netdev_find(fd, "lo");
    if (index < 0)
        return index;
    for (size_t i = 0; i < CAY_COUNT(families) && status == 0; i++) {
        const struct cay_local_route all = everywhere(&families[i], index);
        status = delete_rules(fd, &families[i]);
        if (status == 0)
            status = cay_local_route_delete(fd, &all);
        if (status == 0 || status == -ESRCH || status == -ENOENT)
            status = cay_netdev_delete_address(fd, index, families[i].own);
        if (status == -EADDRNOTAVAIL || families[i].own->family == AF_INET6)
            status = 0;
    }
    return status;
}

bool cay_filter_remove(int netns_fd, struct cay_error *err)
{
    int status = cay_netns_visit(netns_fd, unfurnish, NULL);
    return status == 0 || fail(err, status, "the sandbox's routes cannot be removed");
}

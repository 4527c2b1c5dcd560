/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <unistd.h>

#include "base/crash.h"
#include "egress/rules/guarded.h"
#include "host/net/gateway_internal.h"
#include "sys/netlink.h"
#include "sys/netns.h"

/*
 * A sandbox has one address and one neighbour, the gateway, at an address that is the same in all
 * of them and is nobody's: the host's end of the pair has no address at all. Neighbours are set,
 * not asked for.
 */

static const uint8_t host_mac[CAY_MAC_BYTES] = {0x02, 0xca, 0x79, 0, 0, 1};
static const uint8_t sandbox_mac[CAY_MAC_BYTES] = {0x02, 0xca, 0x79, 0, 0, 2};
static const struct cay_ip gateway4 = {AF_INET, {169, 254, 1, 1}};
static const struct cay_ip gateway6 = {AF_INET6, {0xfe, 0x80, [15] = 1}};

#define SANDBOX_DEVICE "eth0"

void cay_gateway_link_name(const struct cay_gateway *gateway, uint32_t slot,
                           char out_name[CAY_NETDEV_NAME_SIZE])
{
    snprintf(out_name, CAY_NETDEV_NAME_SIZE, "%s%x", gateway->prefix, slot);
}

/* Settings of a device that differ from what the host may have as default. */
static void set_device(const char *family, const char *device, const char *name, const char *value)
{
    char path[128];
    snprintf(path, sizeof(path), "/proc/sys/net/%s/conf/%s/%s", family, device, name);
    cay_autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, value, strlen(value)) < 0)
        return; /* each is one more bolt on a door that the rules keep shut */
}

static void set_host_device(const char *device)
{
    static const struct {
        const char *family, *name, *value;
    } settings[] = {
        {"ipv4", "forwarding", "1"},          {"ipv4", "accept_redirects", "0"},
        {"ipv4", "send_redirects", "0"},      {"ipv4", "route_localnet", "0"},
        {"ipv4", "accept_source_route", "0"}, {"ipv6", "accept_ra", "0"},
        {"ipv6", "accept_redirects", "0"},
    };
    for (size_t i = 0; i < CAY_COUNT(settings); i++)
        set_device(settings[i].family, device, settings[i].name, settings[i].value);
}

static struct cay_ip address6_of(const struct cay_ip *address)
{
    struct cay_ip six = {AF_INET6, {0xfd, 'c', 'a', 'y', 'n', 'e'}};
    memcpy(six.bytes + 12, address->bytes, 4);
    return six;
}

static struct cay_ip address_at(const struct cay_subnet *pool, uint32_t place)
{
    struct cay_ip address = pool->first;
    uint32_t first = 0;
    memcpy(&first, address.bytes, sizeof(first));
    first = htonl(ntohl(first) + place);
    memcpy(address.bytes, &first, sizeof(first));
    return address;
}

/* An address is ours when the route to it is: of two daemons that try, one finds it taken. */
static bool take_address(const struct cay_gateway *gateway, int fd, int index, uint32_t slot,
                         struct cay_ip *out_address, struct cay_error *err)
{
    char text[CAY_SUBNET_TEXT_SIZE];
    uint32_t count = (UINT32_C(1) << (32 - gateway->pool.bits)) - 2; /* not the first, the last */
    cay_subnet_format(&gateway->pool, text);
    for (uint32_t i = 0; i < count; i++) {
        struct cay_ip address = address_at(&gateway->pool, 1 + (slot + i) % count);
        int bits = cay_route_bits(fd, &address);
        if (bits > 0 && bits < 32)
            return cay_fail(err, CAY_R_FAILED_PRECONDITION,
                            "network open: this host has a route into %s; give the daemon another "
                            "range with network_pool",
                            text);
        if (bits == 32)
            continue;
        const struct cay_route route = {.to = address, .bits = 32, .index = index};
        int status = cay_route_add(fd, &route);
        if (status == 0) {
            *out_address = address;
            return true;
        }
        if (status != -EEXIST)
            return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, status, "network open: route");
    }
    return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "network open: no address is free in %s", text);
}

/* --- inside --- */

struct inside {
    const struct cay_gateway *gateway;
    struct cay_ip address;
    struct cay_ip address6;
    bool has_six;
    int fd;
    int index;
};

static int add_way(const struct inside *inside, const struct cay_subnet *to)
{
    const struct cay_route route = {
        .to = to->first,
        .bits = to->bits,
        .index = inside->index,
        .next = to->first.family == AF_INET ? &gateway4 : &gateway6,
    };
    int status = cay_route_add(inside->fd, &route);
    return status == -EEXIST ? 0 : status;
}

static int add_ways(const struct inside *inside, const struct cay_subnet *ways, size_t count)
{
    int status = 0;
    for (size_t i = 0; i < count && status == 0; i++)
        status = add_way(inside, &ways[i]);
    return status;
}

static bool is_allowed(const struct cay_gateway *gateway, const struct cay_subnet *subnet)
{
    for (size_t i = 0; i < gateway->allowed_count; i++) {
        if (cay_subnet_covers(&gateway->allowed[i], subnet))
            return true;
    }
    return false;
}

/* What the rules refuse is refused here already, and at once. */
static int close_ranges(const struct inside *inside)
{
    int status = 0;
    struct cay_subnet closed;
    size_t cursor = 0;
    while (status == 0 && cay_closed_next(&cursor, &closed)) {
        struct cay_route route = {};
        if (is_allowed(inside->gateway, &closed) ||
            (closed.first.family == AF_INET6 && !inside->has_six))
            continue;
        route.to = closed.first;
        route.bits = closed.bits;
        status = cay_route_add(inside->fd, &route);
        status = status == -EEXIST ? 0 : status;
    }
    return status;
}

static int add_allowed(const struct inside *inside)
{
    int status = 0;
    for (size_t i = 0; i < inside->gateway->allowed_count && status == 0; i++) {
        const struct cay_subnet *allowed = &inside->gateway->allowed[i];
        if (allowed->first.family == AF_INET || inside->has_six)
            status = add_way(inside, allowed);
    }
    return status;
}

static int add_family(const struct inside *inside, const struct cay_ip *address,
                      const struct cay_ip *next, const struct cay_subnet *ways, size_t way_count)
{
    int status = cay_netdev_add_address(inside->fd, inside->index, address);
    if (status == 0)
        status = cay_netdev_add_neighbour(inside->fd, inside->index, next, host_mac);
    return status == 0 ? add_ways(inside, ways, way_count) : status;
}

static int furnish(void *context)
{
    static const struct cay_subnet everywhere = {.first.family = AF_INET};
    struct inside *inside = context;
    cay_autoclose int fd = cay_netlink_open(NETLINK_ROUTE, 0);
    if (fd < 0)
        return fd;
    inside->fd = fd;
    inside->index = cay_netdev_find(fd, SANDBOX_DEVICE);
    if (inside->index < 0)
        return inside->index;
    set_device("ipv6", SANDBOX_DEVICE, "accept_ra", "0");
    int status = cay_netdev_up(fd, inside->index);
    if (status == 0)
        status = add_family(inside, &inside->address, &gateway4, &everywhere, 1);
    if (status == 0 && inside->has_six)
        status = add_family(inside, &inside->address6, &gateway6, cay_outside6, CAY_OUTSIDE6_COUNT);
    if (status == 0)
        status = add_allowed(inside);
    return status == 0 ? close_ranges(inside) : status;
}

/* --- both ends --- */

static int put_neighbour6(int fd, int index, const struct cay_ip *address)
{
    const struct cay_route route = {.to = *address, .bits = 128, .index = index};
    int status = cay_netdev_add_neighbour(fd, index, address, sandbox_mac);
    return status == 0 ? cay_route_add(fd, &route) : status;
}

static bool put_both(const struct cay_gateway *gateway, int fd, int netns_fd, const char *name,
                     uint32_t slot, bool has_six, struct cay_error *err)
{
    char alias[48];
    snprintf(alias, sizeof(alias), "%s sandbox %u", gateway->table, slot);
    struct cay_veth veth = {
        .name = name, .alias = alias, .peer_name = SANDBOX_DEVICE, .peer_netns_fd = netns_fd};
    memcpy(veth.mac, host_mac, sizeof(veth.mac));
    memcpy(veth.peer_mac, sandbox_mac, sizeof(veth.peer_mac));
    int status = cay_veth_make(fd, &veth);
    CAY_CRASH_POINT("network.linked");
    int index = status < 0 ? status : cay_netdev_find(fd, name);
    if (index < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, index, "network open: make a device");
    set_host_device(name);
    status = cay_netdev_up(fd, index);
    if (status < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, status, "network open: start a device");
    struct inside inside = {.gateway = gateway, .has_six = has_six};
    if (!take_address(gateway, fd, index, slot, &inside.address, err))
        return false;
    inside.address6 = address6_of(&inside.address);
    status = cay_netdev_add_neighbour(fd, index, &inside.address, sandbox_mac);
    if (status == 0 && has_six)
        status = put_neighbour6(fd, index, &inside.address6);
    CAY_CRASH_POINT("network.routed");
    if (status == 0)
        status = cay_netns_visit(netns_fd, furnish, &inside);
    return status == 0 ||
           cay_fail_errno(err, CAY_R_RUNTIME_FAILED, status, "network open: addresses and routes");
}

bool cay_gateway_put_link(const struct cay_gateway *gateway, int netns_fd, uint32_t slot,
                          bool has_six, struct cay_error *err)
{
    char name[CAY_NETDEV_NAME_SIZE];
    cay_autoclose int fd = cay_netlink_open(NETLINK_ROUTE, 0);
    if (fd < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, fd, "network open: netlink");
    cay_gateway_link_name(gateway, slot, name);
    /* The device of a sandbox that died may not be gone yet. */
    int status = cay_netdev_delete(fd, name);
    if (status < 0 && status != -ENODEV)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, status, "network open: remove '%s'", name);
    if (put_both(gateway, fd, netns_fd, name, slot, has_six, err))
        return true;
    (void)cay_netdev_delete(fd, name);
    return false;
}

static uint64_t read_counter(const char *device, const char *name)
{
    char path[128];
    char text[32];
    snprintf(path, sizeof(path), "/sys/class/net/%s/statistics/%s", device, name);
    cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof(text)) : -1;
    uint64_t value = 0;
    if (len <= 0 ||
        cay_str_to_u64(cay_str_trim((struct cay_str){text, (size_t)len}), UINT64_MAX, &value) < 0)
        return 0;
    return value;
}

struct cay_gateway_traffic cay_gateway_traffic(const struct cay_gateway *gateway, uint32_t slot)
{
    char device[CAY_NETDEV_NAME_SIZE];
    cay_gateway_link_name(gateway, slot, device);
    /* The host's end of the pair sees it the other way round. */
    return (struct cay_gateway_traffic){.received_bytes = read_counter(device, "tx_bytes"),
                                        .sent_bytes = read_counter(device, "rx_bytes")};
}

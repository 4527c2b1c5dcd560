/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "egress/rules/guarded.h"
#include "host/net/gateway_internal.h"
#include "sys/netdev.h"
#include "sys/netlink.h"

/*
 * Whoever is on the same wire as the host is not the internet, whatever addresses they have: a
 * sandbox that reached them would be inside their network. Routes tell who they are.
 */

enum { TEXT_BYTES_MAX = 64 * 1024 };

struct found {
    const struct cay_gateway *gateway;
    struct cay_subnet *list;
    size_t count;
    bool is_full;
};

/* Bridges and sandboxes have private addresses, and there may be many of them. */
static bool is_closed(const struct cay_subnet *subnet)
{
    struct cay_subnet closed;
    size_t cursor = 0;
    while (cay_closed_next(&cursor, &closed)) {
        if (cay_subnet_covers(&closed, subnet))
            return true;
    }
    return false;
}

static bool add(void *context, const struct cay_ip *to, unsigned bits, int)
{
    struct found *found = context;
    const struct cay_subnet subnet = {.first = *to, .bits = bits};
    if (is_closed(&subnet) || cay_subnet_covers(&found->gateway->pool, &subnet))
        return true;
    found->is_full = found->count == CAY_GATEWAY_NEIGHBOURS_MAX;
    if (!found->is_full)
        found->list[found->count++] = subnet;
    return !found->is_full;
}

static int compare(const void *left, const void *right)
{
    return memcmp(left, right, sizeof(struct cay_subnet));
}

bool cay_gateway_find_neighbours(struct cay_gateway *gateway, bool *out_changed,
                                 struct cay_error *err)
{
    cay_autoclose int fd = cay_netlink_open(NETLINK_ROUTE, 0);
    cay_autofree struct cay_subnet *list =
        cay_alloc(CAY_GATEWAY_NEIGHBOURS_MAX * sizeof(struct cay_subnet));
    struct found found = {.gateway = gateway, .list = list};
    int status = fd < 0 ? fd : cay_route_list_neighbours(fd, add, &found);
    if (status < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, status,
                              "network open: the routes of the host cannot be read");
    if (found.is_full)
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "network open: the host has more than %d networks of its own",
                        CAY_GATEWAY_NEIGHBOURS_MAX);
    qsort(list, found.count, sizeof(*list), compare);
    *out_changed = found.count != gateway->neighbour_count ||
                   memcmp(list, gateway->neighbours, found.count * sizeof(*list)) != 0;
    memcpy(gateway->neighbours, list, found.count * sizeof(*list));
    gateway->neighbour_count = found.count;
    return true;
}

void cay_gateway_write_neighbours(const struct cay_gateway *gateway, int family,
                                  struct cay_buf *out)
{
    char text[CAY_SUBNET_TEXT_SIZE];
    for (size_t i = 0; i < gateway->neighbour_count; i++) {
        if (gateway->neighbours[i].first.family != family)
            continue;
        cay_subnet_format(&gateway->neighbours[i], text);
        cay_buf_printf(out, "%s%s", out->len ? ", " : "", text);
    }
}

static void write_set(const struct cay_gateway *gateway, int family, const char *name,
                      struct cay_buf *out)
{
    cay_auto(cay_buf_finish) struct cay_buf list;
    cay_buf_init(&list, TEXT_BYTES_MAX);
    cay_gateway_write_neighbours(gateway, family, &list);
    cay_buf_printf(out, "flush set inet %s %s\n", gateway->table, name);
    if (list.len)
        cay_buf_printf(out, "add element inet %s %s { %.*s }\n", gateway->table, name,
                       (int)list.len, (const char *)list.data);
}

bool cay_gateway_put_neighbours(struct cay_gateway *gateway, struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, TEXT_BYTES_MAX);
    write_set(gateway, AF_INET, "neighbours4", &text);
    write_set(gateway, AF_INET6, "neighbours6", &text);
    cay_buf_append_byte(&text, '\0');
    return cay_gateway_apply((const char *)text.data, "the kernel does not take its rules", err);
}

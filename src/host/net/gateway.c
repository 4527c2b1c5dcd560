/* SPDX-License-Identifier: Apache-2.0 */
#include "host/net/gateway.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/crash.h"
#include "host/net/gateway_internal.h"
#include "sys/netlink.h"
#include "sys/nftables.h"

enum { POOL_BITS_MIN = 8, POOL_BITS_MAX = 29 };

bool cay_gateway_init(struct cay_gateway *gateway, const struct cay_gateway_options *options,
                      struct cay_error *err)
{
    *gateway = (struct cay_gateway){};
    pthread_mutex_init(&gateway->lock, NULL);
    snprintf(gateway->prefix, sizeof(gateway->prefix), "cy%06x-", options->instance & 0xFFFFFF);
    snprintf(gateway->table, sizeof(gateway->table), "cay_%06x", options->instance & 0xFFFFFF);
    if (!cay_subnet_parse(options->pool, &gateway->pool) || gateway->pool.first.family != AF_INET ||
        gateway->pool.bits < POOL_BITS_MIN || gateway->pool.bits > POOL_BITS_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "network_pool: '%s' is not an IPv4 range of /%d to /%d", options->pool,
                        POOL_BITS_MIN, POOL_BITS_MAX);
    if (options->allowed_count > CAY_GATEWAY_ALLOWED_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "network_allow: %d ranges at most",
                        CAY_GATEWAY_ALLOWED_MAX);
    for (size_t i = 0; i < options->allowed_count; i++) {
        if (!cay_subnet_parse(options->allowed[i], &gateway->allowed[gateway->allowed_count++]))
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "network_allow: '%s' is not a range of addresses like 10.1.0.0/16",
                            options->allowed[i]);
    }
    return true;
}

void cay_gateway_finish(struct cay_gateway *gateway)
{
    if (gateway->prefix[0])
        pthread_mutex_destroy(&gateway->lock);
}

bool cay_gateway_check(struct cay_error *err)
{
    if (geteuid() != 0)
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "network open or filtered: the daemon is not root");
    int status = cay_nft_has_table("cay");
    if (status < 0)
        return cay_fail_errno(err, CAY_R_NOT_SUPPORTED, status,
                              "network open or filtered: the kernel has no nf_tables");
    return cay_nft_is_installed() ||
           cay_fail(err, CAY_R_NOT_SUPPORTED,
                    "network open or filtered: the program nft is missing; install nftables");
}

bool cay_gateway_attach(struct cay_gateway *gateway, int netns_fd, uint32_t slot,
                        struct cay_gateway_notes *out_notes, struct cay_error *err)
{
    *out_notes = (struct cay_gateway_notes){};
    pthread_mutex_lock(&gateway->lock);
    /* Rules first: no packet ever passes without them. */
    bool is_good = gateway->is_ruled || cay_gateway_put_rules(gateway, err);
    CAY_CRASH_POINT("network.ruled");
    is_good = is_good && cay_gateway_set_forwarding(out_notes, err) &&
              cay_gateway_put_link(gateway, netns_fd, slot, out_notes->has_six, err);
    pthread_mutex_unlock(&gateway->lock);
    CAY_CRASH_POINT("network.attached");
    return is_good;
}

static bool note_one(void *context, const char *)
{
    *(bool *)context = true;
    return false;
}

/* Rules without a device to guard go. */
static bool tidy(struct cay_gateway *gateway, int fd, struct cay_error *err)
{
    bool is_some = false;
    int status = cay_netdev_list(fd, gateway->prefix, note_one, &is_some);
    if (status < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, status, "list network devices");
    return is_some || cay_gateway_drop_rules(gateway, err);
}

static bool detach(struct cay_gateway *gateway, int fd, uint32_t slot, struct cay_error *err)
{
    char name[CAY_NETDEV_NAME_SIZE];
    cay_gateway_link_name(gateway, slot, name);
    int status = cay_netdev_delete(fd, name);
    if (status < 0 && status != -ENODEV)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, status, "remove network device '%s'",
                              name);
    return true;
}

static int open_netlink(struct cay_error *err)
{
    int fd = cay_netlink_open(NETLINK_ROUTE, 0);
    if (fd < 0)
        cay_fail_errno(err, CAY_R_RUNTIME_FAILED, fd, "open netlink");
    return fd;
}

bool cay_gateway_detach(struct cay_gateway *gateway, uint32_t slot, struct cay_error *err)
{
    cay_autoclose int fd = open_netlink(err);
    if (fd < 0)
        return false;
    pthread_mutex_lock(&gateway->lock);
    bool is_good = detach(gateway, fd, slot, err);
    CAY_CRASH_POINT("network.unlinked");
    is_good = is_good && tidy(gateway, fd, err);
    pthread_mutex_unlock(&gateway->lock);
    return is_good;
}

bool cay_gateway_is_attached(struct cay_gateway *gateway, uint32_t slot)
{
    char name[CAY_NETDEV_NAME_SIZE];
    cay_autoclose int fd = cay_netlink_open(NETLINK_ROUTE, 0);
    cay_gateway_link_name(gateway, slot, name);
    return fd >= 0 && cay_netdev_find(fd, name) >= 0;
}

struct sweep {
    const struct cay_gateway *gateway;
    cay_gateway_wanted_fn *wanted;
    void *context;
    uint32_t *slots; /* to go */
    size_t count;
    bool is_some_left;
};

static bool note_unwanted(void *context, const char *name)
{
    struct sweep *sweep = context;
    uint32_t slot = (uint32_t)strtoul(name + strlen(sweep->gateway->prefix), NULL, 16);
    if (sweep->wanted(sweep->context, slot)) {
        sweep->is_some_left = true;
        return true;
    }
    sweep->slots = cay_realloc_array(sweep->slots, sweep->count + 1, sizeof(*sweep->slots));
    sweep->slots[sweep->count++] = slot;
    return true;
}

bool cay_gateway_recover(struct cay_gateway *gateway, cay_gateway_wanted_fn *wanted, void *context,
                         struct cay_error *err)
{
    struct sweep sweep = {.gateway = gateway, .wanted = wanted, .context = context};
    cay_autoclose int fd = open_netlink(err);
    if (fd < 0)
        return false;
    int status = cay_netdev_list(fd, gateway->prefix, note_unwanted, &sweep);
    bool is_good =
        status == 0 || cay_fail_errno(err, CAY_R_RUNTIME_FAILED, status, "list network devices");
    for (size_t i = 0; i < sweep.count && is_good; i++)
        is_good = detach(gateway, fd, sweep.slots[i], err);
    free(sweep.slots);
    if (!is_good)
        return false;
    /* They may have been written by an older daemon, or for another configuration. */
    return sweep.is_some_left ? cay_gateway_put_rules(gateway, err)
                              : cay_gateway_drop_rules(gateway, err);
}

bool cay_gateway_renew(struct cay_gateway *gateway, struct cay_error *err)
{
    pthread_mutex_lock(&gateway->lock);
    bool is_changed = false;
    bool is_good = true;
    if (gateway->is_ruled && cay_nft_has_table(gateway->table) != 1)
        is_good = cay_gateway_put_rules(gateway, err);
    else if (gateway->is_ruled)
        is_good = cay_gateway_find_neighbours(gateway, &is_changed, err) &&
                  (!is_changed || cay_gateway_put_neighbours(gateway, err));
    pthread_mutex_unlock(&gateway->lock);
    return is_good;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/net/gateway_internal.h"
#include "sys/netlink.h"

/* The host passes packets on, as routers do. Set when the first sandbox needs it, never taken back:
 * others may have come to count on it. */

static int read_setting(const char *path)
{
    char text[16] = "";
    cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t len = read(fd, text, sizeof(text) - 1);
    return len <= 0 ? -EIO : text[0] - '0';
}

static int write_setting(const char *path, const char *text)
{
    cay_autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

/* A host that forwards IPv6 takes no more advertisements of routers, and so loses its own way out
 * where it was told by one, unless it is asked to take them all the same. */
static void keep_advertisements(void)
{
    DIR *devices = opendir("/proc/sys/net/ipv6/conf");
    if (!devices)
        return;
    for (const struct dirent *device; (device = readdir(devices));) {
        char path[384];
        snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/accept_ra", device->d_name);
        if (device->d_name[0] != '.' && read_setting(path) == 1)
            (void)write_setting(path, "2");
    }
    closedir(devices);
}

static bool has_way6(void)
{
    static const struct cay_ip somewhere = {AF_INET6, {0x20, 0x01, 0x0d, 0xb8, [15] = 1}};
    cay_autoclose int fd = cay_netlink_open(NETLINK_ROUTE, 0);
    return fd >= 0 && cay_route_bits(fd, &somewhere) >= 0;
}

static bool set_forwarding6(struct cay_gateway_notes *out_notes)
{
    static const char path[] = "/proc/sys/net/ipv6/conf/all/forwarding";
    if (!has_way6())
        return false;
    int now = read_setting(path);
    if (now != 0)
        return now > 0;
    keep_advertisements();
    out_notes->is_forwarding6_set = write_setting(path, "1") == 0;
    return out_notes->is_forwarding6_set;
}

bool cay_gateway_set_forwarding(struct cay_gateway_notes *out_notes, struct cay_error *err)
{
    static const char path[] = "/proc/sys/net/ipv4/ip_forward";
    int now = read_setting(path);
    int status = now == 0 ? write_setting(path, "1") : CAY_MIN(now, 0);
    if (status < 0)
        return cay_fail_errno(err, CAY_R_NOT_SUPPORTED, status,
                              "network open: this host does not forward packets and cannot be made "
                              "to; set net.ipv4.ip_forward to 1");
    out_notes->is_forwarding_set = now == 0;
    out_notes->has_six = set_forwarding6(out_notes);
    return true;
}

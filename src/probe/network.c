/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets, and what else processes meet at: of the host, of another sandbox, of the daemon. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <mqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "probe/attempts.h"

ATTEMPT(try_socket)
{
    cay_autoclose int fd = socket(attempt->domain, attempt->type | SOCK_CLOEXEC, attempt->protocol);
    return judge(world, fd, 0);
}

static struct outcome judge_inet(const char *text, int port, const char *token)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, text, &address.sin_addr) != 1)
        return denied("'%.40s' is no address", text);
    return judge_socket(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
                        (const struct sockaddr *)&address, sizeof(address), token);
}

static struct outcome judge_inet6(const char *text, int port, const char *token)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET6, text, &address.sin6_addr) != 1)
        return denied("'%.40s' is no address", text);
    return judge_socket(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0),
                        (const struct sockaddr *)&address, sizeof(address), token);
}

ATTEMPT(host_loopback)
{
    return judge_inet("127.0.0.1", world->host.port, world->host.token);
}

ATTEMPT(host_any)
{
    return judge_inet("0.0.0.0", world->host.port, world->host.token);
}

ATTEMPT(host_mapped)
{
    return judge_inet6("::ffff:127.0.0.1", world->host.port, world->host.token);
}

/* A host without IPv6 has nothing there. */
ATTEMPT(host_loopback6)
{
    struct outcome made = judge_inet6("::1", world->host.port, world->host.token);
    if (world->is_control && made.verdict == PROBE_DENIED)
        return absent("the host has no IPv6");
    return made;
}

ATTEMPT(host_address)
{
    if (!world->host.address)
        return absent("the host has no address but loopback");
    return judge_inet(world->host.address, world->host.port, world->host.token);
}

/* In the control it is planted in a network of its own. */
static int plant_metadata(void)
{
    if (unshare(CLONE_NEWNET) < 0)
        return -1;
    struct ifreq request = {.ifr_name = "lo"};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(80)};
    (void)inet_pton(AF_INET, "169.254.169.254", &address.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(&request.ifr_addr, &address, sizeof(address));
    if (fd < 0 || ioctl(fd, SIOCSIFADDR, &request) < 0)
        return -1;
    request.ifr_flags = IFF_UP;
    if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
        return -1;
    return bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 1) < 0 ? -1 : 0;
}

ATTEMPT(metadata)
{
    if (world->is_control && plant_metadata() < 0)
        return denied("none can be planted: %s", strerror(errno));
    return judge_inet("169.254.169.254", 80, NULL);
}

/* Takes lo down, in the control a new one. */
ATTEMPT(route_change)
{
    if (world->is_control && unshare(CLONE_NEWNET) < 0)
        return denied("%s", strerror(errno));
    struct {
        struct nlmsghdr header;
        struct ifinfomsg link;
    } request = {
        .header = {.nlmsg_len = sizeof(request),
                   .nlmsg_type = RTM_NEWLINK,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
        .link = {.ifi_index = 1, .ifi_change = IFF_UP, .ifi_flags = 0},
    };
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
    } answer = {};
    cay_autoclose int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0 || send(fd, &request, sizeof(request), 0) < 0 ||
        recv(fd, &answer, sizeof(answer), 0) < (ssize_t)sizeof(answer))
        return judge(world, -1, 0);
    errno = -answer.error.error;
    return judge(world, answer.error.error, 0);
}

ATTEMPT(neighbour_loopback)
{
    return judge_inet("127.0.0.1", world->neighbour.port, world->neighbour.token);
}

ATTEMPT(neighbour_address)
{
    if (!world->neighbour.address)
        return absent("it has no address but loopback");
    return judge_inet(world->neighbour.address, world->neighbour.port, world->neighbour.token);
}

static struct outcome judge_unix(const char *path, bool is_abstract, const char *token)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if (len + is_abstract >= sizeof(address.sun_path))
        return denied("its path is too long");
    memcpy(address.sun_path + is_abstract, path, len);
    return judge_socket(
        socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), (const struct sockaddr *)&address,
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + is_abstract + len), token);
}

ATTEMPT(host_abstract)
{
    return judge_unix(world->host.queue + 1, true, world->host.token);
}

ATTEMPT(neighbour_abstract)
{
    return judge_unix(world->neighbour.queue + 1, true, world->neighbour.token);
}

ATTEMPT(host_unix)
{
    return judge_unix(world->host.socket, false, world->host.token);
}

ATTEMPT(daemon_socket)
{
    return judge_unix(world->daemon_socket, false, NULL);
}

ATTEMPT(daemon_port)
{
    struct outcome made = judge_inet("127.0.0.1", world->daemon_port, NULL);
    if (made.verdict != PROBE_REACHED && world->host.address)
        made = judge_inet(world->host.address, world->daemon_port, NULL);
    return made;
}

static struct outcome judge_segment(const struct world *world, const struct prize *prize)
{
    int id = shmget(prize->segment, 0, 0);
    const char *text = id < 0 ? (const char *)-1 : shmat(id, NULL, SHM_RDONLY);
    if (text == (const char *)-1)
        return judge(world, -1, 0);
    return strncmp(text, prize->token, strlen(prize->token)) == 0 ? reached("it is attached")
                                                                  : denied("another one");
}

ATTEMPT(segment_of_host)
{
    return judge_segment(world, &world->host);
}

ATTEMPT(neighbour_segment)
{
    return judge_segment(world, &world->neighbour);
}

ATTEMPT(queue_of_host)
{
    return judge(world, mq_open(world->host.queue, O_RDONLY), 0);
}

ATTEMPT(neighbour_queue)
{
    return judge(world, mq_open(world->neighbour.queue, O_RDONLY), 0);
}

ATTEMPT(neighbour_file)
{
    return judge_secret(world, world->neighbour.secret, world->neighbour.token);
}

/* A file that both have from their image, which the other one has locked. */
ATTEMPT(neighbour_lock)
{
    const char *path = world->is_control ? world->host.secret : "/planted/shared";
    cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return denied("%s", strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return denied("nobody else has it");
    return errno == EWOULDBLOCK ? reached("it is locked") : denied("%s", strerror(errno));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways out that a filtered network could leave open. All of them lead to addresses for
 * documentation and measurements, which nobody has; in the control they are planted in a network of
 * its own.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "probe/attempts.h"

enum {
    PORT_HTTPS = 443,
    PORT_FREE = 8443,
    PORT_DNS = 53,
    DNS_HEAD = 12,
    ANSWER_MS = 400,
    DNS_MORE = 16
};

#define FAR      "192.0.2.1"
#define LISTENER "198.18.0.2" /* where the host's helper listens in the sandbox */

static struct sockaddr_in address_of(const char *text, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    (void)inet_pton(AF_INET, text, &address.sin_addr);
    return address;
}

static int open_there(const char *text, int type, int port)
{
    struct sockaddr_in address = address_of(text, port);
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    if (fd >= 0 && (bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
                    (type == SOCK_STREAM && listen(fd, 4) < 0)))
        close(cay_take_fd(fd));
    return fd;
}

/* A question comes back as an answer with one record more than it had. */
static size_t answer(char *message, size_t len)
{
    static const char record[DNS_MORE] = {(char)0xC0, DNS_HEAD, 0, 1, 0, 1, 0, 0,
                                          0,          9,        0, 4, 1, 2, 3, 4};
    message[2] = (char)0x81;
    message[7] = 1;
    memcpy(message + len, record, sizeof(record));
    return len + sizeof(record);
}

/* Who says the token by TCP, and sends back what comes by UDP. */
_Noreturn static void serve(const struct world *world, int port, int stream_fd, int datagram_fd)
{
    char piece[512 + DNS_MORE];
    struct pollfd fds[] = {{stream_fd, POLLIN, 0}, {datagram_fd, POLLIN, 0}};
    while (poll(fds, CAY_COUNT(fds), -1) > 0) {
        if (fds[0].revents) {
            int fd = accept(stream_fd, NULL, NULL);
            (void)!write(fd, world->host.token, strlen(world->host.token));
            close(fd);
        }
        if (fds[1].revents) {
            struct sockaddr_in peer;
            socklen_t peer_len = sizeof(peer);
            ssize_t len = recvfrom(datagram_fd, piece, sizeof(piece) - DNS_MORE, 0,
                                   (struct sockaddr *)&peer, &peer_len);
            size_t size = len < DNS_HEAD || port != PORT_DNS ? (size_t)CAY_MAX(len, 0)
                                                             : answer(piece, (size_t)len);
            (void)sendto(datagram_fd, piece, size, 0, (const struct sockaddr *)&peer, peer_len);
        }
    }
    _exit(0);
}

/* In the control: somebody at that address. */
static int plant(const struct world *world, const char *text, int port)
{
    struct ifreq request = {.ifr_name = "lo"};
    struct sockaddr_in address = address_of(text, port);
    if (!world->is_control)
        return 0;
    if (unshare(CLONE_NEWNET) < 0)
        return -1;
    cay_autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(&request.ifr_addr, &address, sizeof(address));
    if (fd < 0 || ioctl(fd, SIOCSIFADDR, &request) < 0)
        return -1;
    request.ifr_flags = IFF_UP;
    if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
        return -1;
    cay_autoclose int stream_fd = open_there(text, SOCK_STREAM, port);
    cay_autoclose int datagram_fd = open_there(text, SOCK_DGRAM, port);
    if (stream_fd < 0 || datagram_fd < 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0)
        serve(world, port, stream_fd, datagram_fd);
    return pid < 0 ? -1 : 0;
}

static struct outcome try_stream(const struct world *world, const char *text, int port)
{
    struct sockaddr_in address = address_of(text, port);
    if (plant(world, text, port) < 0)
        return denied("nobody can be planted: %s", strerror(errno));
    return judge_socket(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
                        (const struct sockaddr *)&address, sizeof(address), world->host.token);
}

/* The length of what comes back, or -errno. */
static ssize_t ask(const char *text, int port, const char *question, size_t len, char *out,
                   size_t size)
{
    struct sockaddr_in address = address_of(text, port);
    cay_autoclose int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 ||
        sendto(fd, question, len, 0, (const struct sockaddr *)&address, sizeof(address)) < 0)
        return -errno;
    struct pollfd ready = {fd, POLLIN, 0};
    if (poll(&ready, 1, ANSWER_MS) != 1)
        return -ETIMEDOUT;
    ssize_t got = recv(fd, out, size, 0);
    return got < 0 ? -errno : got;
}

ATTEMPT(far_stream)
{
    return try_stream(world, FAR, PORT_HTTPS);
}

ATTEMPT(far_listener)
{
    return try_stream(world, LISTENER, 1);
}

ATTEMPT(far_datagram)
{
    char piece[16];
    if (plant(world, FAR, PORT_HTTPS) < 0)
        return denied("nobody can be planted: %s", strerror(errno));
    ssize_t len = ask(FAR, PORT_HTTPS, "quic", 4, piece, sizeof(piece));
    return len > 0 ? reached("an answer came") : denied("%s", strerror((int)-len));
}

/* The question carries what is to get out. */
ATTEMPT(far_name)
{
    static const char question[] = "\x12\x34\x01\0\0\1\0\0\0\0\0\0\6secret\7example\0\0\1\0\1";
    char piece[512];
    if (plant(world, FAR, PORT_DNS) < 0)
        return denied("nobody can be planted: %s", strerror(errno));
    ssize_t len = ask(FAR, PORT_DNS, question, sizeof(question) - 1, piece, sizeof(piece));
    if (len < DNS_HEAD)
        return denied("%s", len < 0 ? strerror((int)-len) : "a short answer");
    return (piece[3] & 15) == 0 && piece[7] ? reached("an answer came")
                                            : denied("refused with code %d", piece[3] & 15);
}

/* Whoever listens on every address must not get what others connect to. */
ATTEMPT(steal)
{
    struct sockaddr_in to = address_of(FAR, PORT_FREE);
    const int on = 1;
    if (world->is_control && plant(world, FAR, PORT_DNS) < 0)
        return denied("no address can be planted: %s", strerror(errno));
    struct sockaddr_in all = {.sin_family = AF_INET, .sin_port = htons(PORT_FREE)};
    cay_autoclose int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    cay_autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(listener, (const struct sockaddr *)&all, sizeof(all)) < 0 || listen(listener, 4) < 0)
        return denied("listen: %s", strerror(errno));
    if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS)
        return denied("%s", strerror(errno));
    struct pollfd ready = {listener, POLLIN, 0};
    return poll(&ready, 1, ANSWER_MS) == 1 ? reached("it came to us") : denied("nobody came");
}

/* Options with which a socket would pass routes and rules. Some kernels take them and do nothing.
 */
static struct outcome set_option(const struct world *world, int level, int name)
{
    int value = 1;
    socklen_t len = sizeof(value);
    cay_autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return denied("no socket: %s", strerror(errno));
    if (setsockopt(fd, level, name, &value, len) < 0)
        return judge(world, -1, 0);
    value = 0;
    return getsockopt(fd, level, name, &value, &len) == 0 && value == 1
               ? reached("it is set")
               : denied("it is taken and not kept");
}

ATTEMPT(transparent)
{
    return set_option(world, IPPROTO_IP, IP_TRANSPARENT);
}

ATTEMPT(repair)
{
    return set_option(world, IPPROTO_TCP, TCP_REPAIR);
}

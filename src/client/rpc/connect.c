/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/rpc/transfer.h"

/* Connections without TLS, on a Unix socket or by TCP. They do not block. */

enum { STOP_LOOK_MS = 200 }; /* a signal may come right before a wait, which it then does not end */

static bool interrupted(const struct cay_client *client, struct cay_error *err)
{
    return client->stop && *client->stop && !cay_fail(err, CAY_R_CANCELED, "interrupted");
}

bool cay_transfer_wait(const struct cay_client *client, int fd, short events, int64_t deadline_ns,
                       bool is_silent, short *out_ready, struct cay_error *err)
{
    struct pollfd entry = {.fd = fd, .events = events};
    for (;;) {
        int64_t left_ms = -1;
        if (interrupted(client, err))
            return false;
        if (deadline_ns) {
            left_ms = (deadline_ns - cay_clock_ns()) / (int64_t)CAY_NS_PER_MS + 1;
            if (left_ms <= 0)
                return cay_transfer_timed_out(client, is_silent, err);
        }
        if (client->stop && (left_ms < 0 || left_ms > STOP_LOOK_MS))
            left_ms = STOP_LOOK_MS;
        int count = poll(&entry, 1, (int)CAY_MIN(left_ms, (int64_t)INT32_MAX));
        if (count > 0) {
            *out_ready = entry.revents;
            return true;
        }
    }
}

/* *out_errno: why nobody is there; 0 with false: *err says it. */
static bool finish_connect(const struct cay_client *client, int64_t deadline_ns, int fd,
                           int *out_errno, struct cay_error *err)
{
    short ready = 0;
    socklen_t len = sizeof(*out_errno);
    int64_t most_ns = cay_clock_ns() + CAY_TRANSFER_CONNECT_MS * (int64_t)CAY_NS_PER_MS;
    deadline_ns = deadline_ns ? CAY_MIN(deadline_ns, most_ns) : most_ns;
    return cay_transfer_wait(client, fd, POLLOUT, deadline_ns, true, &ready, err) &&
           getsockopt(fd, SOL_SOCKET, SO_ERROR, out_errno, &len) == 0;
}

/* As above. */
static bool connect_to(const struct cay_client *client, int64_t deadline_ns,
                       const struct sockaddr *address, socklen_t len, int *out_fd, int *out_errno,
                       struct cay_error *err)
{
    *out_errno = 0;
    cay_autoclose int fd =
        socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, address, len) < 0)
        *out_errno = errno;
    /* A Unix socket whose queue is full says so at once: somebody is about to serve. */
    while (*out_errno == EAGAIN && address->sa_family == AF_UNIX) {
        struct pollfd nothing = {.fd = -1};
        (void)poll(&nothing, 1, 10);
        if (interrupted(client, err)) {
            *out_errno = 0;
            break;
        }
        *out_errno = connect(fd, address, len) < 0 ? errno : 0;
    }
    if (*out_errno == EINPROGRESS) {
        *out_errno = 0;
        (void)finish_connect(client, deadline_ns, fd, out_errno, err);
    }
    if (*out_errno || err->reason)
        return false;
    *out_fd = cay_take_fd(fd);
    return true;
}

static void set_keepalive(int fd)
{
    static const int on = 1;
    static const int seconds = CAY_TRANSFER_KEEPALIVE_S;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static bool connect_tcp(const struct cay_client *client, int64_t deadline_ns, int *out_fd,
                        struct cay_error *err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int status = 0;
    if (getaddrinfo(client->address.host, client->address.port, &hints, &found) != 0)
        return cay_transfer_unreachable(client, "there is no such host", "check CAY_URL", err);
    bool is_done = false;
    for (const struct addrinfo *to = found; to && !is_done && !err->reason; to = to->ai_next)
        is_done =
            connect_to(client, deadline_ns, to->ai_addr, to->ai_addrlen, out_fd, &status, err);
    freeaddrinfo(found);
    if (is_done)
        set_keepalive(*out_fd);
    return is_done || (!err->reason && cay_transfer_not_connected(client, status, err));
}

static bool connect_unix(const struct cay_client *client, int64_t deadline_ns, int *out_fd,
                         struct cay_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int status = 0;
    memcpy(address.sun_path, client->address.unix_path, strlen(client->address.unix_path));
    return connect_to(client, deadline_ns, (const struct sockaddr *)&address, sizeof(address),
                      out_fd, &status, err) ||
           (!err->reason && cay_transfer_not_connected(client, status, err));
}

bool cay_transfer_connect(const struct cay_client *client, int64_t deadline_ns, int *out_fd,
                          struct cay_error *err)
{
    *err = (struct cay_error){}; /* whether it is set is how we know what happened */
    return client->address.unix_path ? connect_unix(client, deadline_ns, out_fd, err)
                                     : connect_tcp(client, deadline_ns, out_fd, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/runtime/carrier.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/frame/pipe.h"

int cay_carrier_open(struct cay_carrier *carrier, int fd, int out_fd, bool is_first)
{
    *carrier = (struct cay_carrier){.fd = fd, .out_fd = out_fd, .poll_fd = -1, .is_late = is_first};
    if (out_fd < 0)
        return 0;
    carrier->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event in = {.events = EPOLLIN};
    struct epoll_event out = {.events = 0};
    if (carrier->poll_fd >= 0 && epoll_ctl(carrier->poll_fd, EPOLL_CTL_ADD, fd, &in) == 0 &&
        epoll_ctl(carrier->poll_fd, EPOLL_CTL_ADD, out_fd, &out) == 0)
        return 0;
    int result = -errno;
    cay_carrier_close(carrier);
    return result;
}

void cay_carrier_close(struct cay_carrier *carrier)
{
    cay_cleanup_close(&carrier->fd);
    cay_cleanup_close(&carrier->out_fd);
    cay_cleanup_close(&carrier->poll_fd);
    *carrier = (struct cay_carrier){.fd = -1, .out_fd = -1, .poll_fd = -1};
}

int cay_carrier_fd(const struct cay_carrier *carrier)
{
    return carrier->out_fd < 0 ? carrier->fd : carrier->poll_fd;
}

short cay_carrier_wants(struct cay_carrier *carrier, size_t out_bytes)
{
    bool waits = out_bytes > 0;
    if (carrier->out_fd < 0)
        return (short)(POLLIN | (waits ? POLLOUT : 0));
    if (waits != carrier->waits) {
        struct epoll_event out = {.events = waits ? EPOLLOUT : 0};
        (void)epoll_ctl(carrier->poll_fd, EPOLL_CTL_MOD, carrier->out_fd, &out);
        carrier->waits = waits;
    }
    return POLLIN;
}

static ssize_t send_chunks(struct cay_carrier *carrier, const uint8_t *data, size_t len)
{
    size_t sent = 0;
    while (sent < len) {
        uint8_t chunk[CAY_CHUNK_BYTES_MAX];
        size_t part = CAY_MIN(len - sent, (size_t)CAY_CHUNK_DATA_BYTES_MAX);
        cay_chunk_put(chunk, part, !carrier->is_late);
        memcpy(chunk + CAY_CHUNK_HEADER_BYTES, data + sent, part);
        if (write(carrier->out_fd, chunk, CAY_CHUNK_HEADER_BYTES + part) < 0) {
            if (errno == EINTR)
                continue;
            return sent ? (ssize_t)sent : -errno;
        }
        carrier->is_late = true;
        sent += part;
    }
    return (ssize_t)sent;
}

ssize_t cay_carrier_send(struct cay_carrier *carrier, const void *data, size_t len)
{
    if (carrier->out_fd >= 0)
        return send_chunks(carrier, data, len);
    ssize_t sent;
    do {
        sent = send(carrier->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : sent;
}

ssize_t cay_carrier_receive(const struct cay_carrier *carrier, void *out, size_t size)
{
    ssize_t got;
    do {
        got = carrier->out_fd < 0 ? recv(carrier->fd, out, size, MSG_DONTWAIT)
                                  : read(carrier->fd, out, size);
    } while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

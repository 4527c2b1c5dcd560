/* SPDX-License-Identifier: Apache-2.0 */
#include "host/net/relay.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

void cay_relay_reset(int fd)
{
    const struct linger linger = {.l_onoff = 1};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    close(fd);
}

static struct cay_relay_side *other_of(const struct cay_relay_side *side)
{
    struct cay_relay *relay = side->relay;
    return &relay->sides[side == &relay->sides[0]];
}

static bool is_later(int error)
{
    return error == EAGAIN || error == EINTR;
}

/* Sends what it can; -1 when the side is broken. */
static ssize_t give(const struct cay_relay_side *side, const char *data, size_t len)
{
    ssize_t sent = send(side->fd, data, len, MSG_NOSIGNAL);
    return sent < 0 && is_later(errno) ? 0 : sent;
}

static bool give_rest(struct cay_relay_side *side)
{
    ssize_t sent = give(side, side->rest + side->rest_sent, side->rest_len - side->rest_sent);
    if (sent < 0)
        return false;
    side->rest_sent += (size_t)sent;
    if (side->rest_sent == side->rest_len)
        free(cay_take_ptr(side->rest));
    return true;
}

/* One piece from this side to the other. */
static bool take(struct cay_relay_side *side)
{
    struct cay_relay_side *to = other_of(side);
    char *scratch = cay_loop_scratch(side->relay->loop);
    ssize_t len = recv(side->fd, scratch, CAY_LOOP_SCRATCH_BYTES, 0);
    if (len < 0)
        return is_later(errno);
    if (len == 0) {
        side->is_read_over = true;
        return shutdown(to->fd, SHUT_WR) == 0;
    }
    ssize_t sent = give(to, scratch, (size_t)len);
    if (sent < 0)
        return false;
    if (sent < len) {
        to->rest_len = (size_t)(len - sent);
        to->rest_sent = 0;
        to->rest = cay_alloc(to->rest_len);
        memcpy(to->rest, scratch + sent, to->rest_len);
    }
    return true;
}

static bool is_over(const struct cay_relay *relay)
{
    return relay->sides[0].is_read_over && relay->sides[1].is_read_over;
}

static void update(struct cay_relay_side *side)
{
    bool wants_read = !side->is_read_over && !other_of(side)->rest;
    cay_watch_set(&side->watch,
                  (wants_read ? CAY_READY_READ : 0u) | (side->rest ? CAY_READY_WRITE : 0u));
}

static void on_ready(struct cay_watch *watch, unsigned events)
{
    struct cay_relay_side *side = CAY_CONTAINER_OF(watch, struct cay_relay_side, watch);
    struct cay_relay *relay = side->relay;
    bool is_good = true;
    if (events & CAY_READY_WRITE && side->rest)
        is_good = give_rest(side);
    if (is_good && events & CAY_READY_READ && !side->is_read_over && !other_of(side)->rest)
        is_good = take(side);
    relay->is_broken = !is_good;
    if (!is_good || is_over(relay)) {
        relay->over(relay);
        return;
    }
    update(&relay->sides[0]);
    update(&relay->sides[1]);
}

int cay_relay_open(struct cay_relay *relay, struct cay_loop *loop, int fd, int other_fd,
                   void (*over)(struct cay_relay *relay))
{
    *relay = (struct cay_relay){.loop = loop, .over = over, .is_broken = true};
    const int fds[] = {fd, other_fd};
    int status = 0;
    for (size_t i = 0; i < CAY_COUNT(fds); i++)
        relay->sides[i] = (struct cay_relay_side){.relay = relay, .fd = fds[i]};
    for (size_t i = 0; i < CAY_COUNT(fds) && status == 0; i++)
        status = cay_watch_open(&relay->sides[i].watch, loop, fds[i], on_ready);
    if (status < 0) {
        cay_relay_close(relay);
        return status;
    }
    relay->is_broken = false;
    update(&relay->sides[0]);
    update(&relay->sides[1]);
    return 0;
}

void cay_relay_close(struct cay_relay *relay)
{
    bool is_good = !relay->is_broken && is_over(relay);
    for (size_t i = 0; i < CAY_COUNT(relay->sides); i++) {
        struct cay_relay_side *side = &relay->sides[i];
        cay_watch_close(&side->watch);
        free(cay_take_ptr(side->rest));
        if (is_good)
            close(side->fd);
        else
            cay_relay_reset(side->fd);
        side->fd = -1;
    }
}

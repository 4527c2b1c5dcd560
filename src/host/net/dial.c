/* SPDX-License-Identifier: Apache-2.0 */
#include "host/net/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sys/netns.h"

enum {
    DIAL_MS_MAX = 30'000, /* a server whose queue is full does not answer */
    WAYS = 2,
};

struct cay_dial {
    struct cay_loop *loop;
    cay_dialled_fn *done;
    void *owner;
    uint16_t port;
    int fds[WAYS]; /* one by one */
    int way;
    int status; /* of the first that did not work */
    struct cay_watch watch;
    struct cay_timer limit;
};

static int open_sockets(void *context)
{
    static const int families[WAYS] = {AF_INET, AF_INET6};
    struct cay_dial *dial = context;
    int status = 0;
    for (int i = 0; i < WAYS; i++) {
        dial->fds[i] = socket(families[i], SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (dial->fds[i] < 0 && i == 0) /* a kernel without IPv6 is none the worse */
            status = -errno;
    }
    return status;
}

static void free_dial(struct cay_dial *dial)
{
    cay_watch_close(&dial->watch);
    cay_timer_close(&dial->limit);
    for (int i = 0; i < WAYS; i++) {
        if (dial->fds[i] >= 0)
            close(dial->fds[i]);
    }
    free(dial);
}

static void finish(struct cay_dial *dial, int fd)
{
    cay_dialled_fn *done = dial->done;
    void *owner = dial->owner;
    free_dial(dial);
    done(owner, fd);
}

static void finish_well(struct cay_dial *dial)
{
    int on = 1;
    cay_watch_close(&dial->watch); /* before the descriptor gets another owner */
    int fd = cay_take_fd(dial->fds[dial->way]);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    finish(dial, fd);
}

static int connect_way(const struct cay_dial *dial)
{
    struct sockaddr_in four = {.sin_family = AF_INET,
                               .sin_port = htons(dial->port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6,
                               .sin6_port = htons(dial->port),
                               .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = dial->fds[dial->way];
    if (fd < 0)
        return -EAFNOSUPPORT;
    const struct sockaddr *address = dial->way == 0 ? (const void *)&four : (const void *)&six;
    socklen_t len = dial->way == 0 ? sizeof(four) : sizeof(six);
    return connect(fd, address, len) < 0 ? -errno : 0;
}

static void on_ready(struct cay_watch *watch, unsigned events);

/* The way at hand did not work, or is the first: goes on from there. */
static void go(struct cay_dial *dial)
{
    for (; dial->way < WAYS; dial->way++) {
        int status = connect_way(dial);
        if (status == 0) {
            finish_well(dial);
            return;
        }
        if (status == -EINPROGRESS) {
            status = cay_watch_open(&dial->watch, dial->loop, dial->fds[dial->way], on_ready);
            if (status == 0) {
                cay_watch_set(&dial->watch, CAY_READY_WRITE);
                return;
            }
        }
        dial->status = dial->status ? dial->status : status;
    }
    finish(dial, dial->status);
}

static void on_ready(struct cay_watch *watch, unsigned)
{
    struct cay_dial *dial = CAY_CONTAINER_OF(watch, struct cay_dial, watch);
    int error = 0;
    socklen_t len = sizeof(error);
    if (getsockopt(dial->fds[dial->way], SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    cay_watch_close(&dial->watch);
    if (!error) {
        finish_well(dial);
        return;
    }
    dial->status = dial->status ? dial->status : -error;
    dial->way++;
    go(dial);
}

static void on_limit(struct cay_timer *timer)
{
    finish(CAY_CONTAINER_OF(timer, struct cay_dial, limit), -ETIMEDOUT);
}

void cay_dial_start(struct cay_loop *loop, int netns_fd, uint16_t port, cay_dialled_fn *done,
                    void *owner, struct cay_dial **out_dial)
{
    struct cay_dial *dial = cay_new(struct cay_dial);
    *dial = (struct cay_dial){
        .loop = loop, .done = done, .owner = owner, .port = port, .fds = {-1, -1}};
    *out_dial = dial;
    int status = cay_netns_visit(netns_fd, open_sockets, dial);
    if (status < 0) {
        finish(dial, status);
        return;
    }
    cay_timer_open(&dial->limit, loop, on_limit);
    cay_timer_start(&dial->limit, DIAL_MS_MAX, 0);
    go(dial);
}

void cay_dial_cancel(struct cay_dial *dial)
{
    free_dial(dial);
}

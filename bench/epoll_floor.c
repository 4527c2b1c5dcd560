/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor under every HTTP server with one thread: epoll, one read, one send, the same bytes for
 * every request. It looks at a request only as far as it must to find its end, so that what a real
 * server does beyond that (parsing, routing, authentication, encoding, limits) is what the ratio
 * shows.
 *
 * Usage: epoll_floor REPLY-FILE   Prints the port it listens on, then serves until it is killed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVENTS_MAX = 256,
    REQUEST_BYTES_MAX = 16 * 1024,
    REPLY_BYTES_MAX = 64 * 1024,
    BACKLOG = 1024,
};

struct conn {
    int fd;
    size_t len; /* of a request that came in pieces */
    char data[REQUEST_BYTES_MAX];
};

static char reply[REPLY_BYTES_MAX];
static size_t reply_len;

[[gnu::noreturn]] static void die(const char *what)
{
    fprintf(stderr, "epoll_floor: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

/* The length of the first request in `data`, 0 when it is not complete. */
static size_t request_len(const char *data, size_t len)
{
    static const char name[] = "content-length:";
    const char *end = memmem(data, len, "\r\n\r\n", 4);
    if (!end)
        return 0;
    size_t body_len = 0;
    for (const char *line = data; line < end; line++) {
        if (strncasecmp(line, name, sizeof(name) - 1) == 0)
            body_len = strtoul(line + sizeof(name) - 1, NULL, 10);
        line = memchr(line, '\n', (size_t)(end + 4 - line));
    }
    size_t total = (size_t)(end + 4 - data) + body_len;
    return total <= len ? total : 0;
}

static void answer(struct conn *conn)
{
    ssize_t got = recv(conn->fd, conn->data + conn->len, sizeof(conn->data) - conn->len, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        close(conn->fd);
        free(conn);
        return;
    }
    conn->len += (size_t)got;
    size_t used = 0;
    for (size_t one; (one = request_len(conn->data + used, conn->len - used)) > 0; used += one) {
        if (send(conn->fd, reply, reply_len, MSG_NOSIGNAL) != (ssize_t)reply_len)
            break; /* the next read tells */
    }
    conn->len -= used;
    memmove(conn->data, conn->data + used, conn->len);
}

static void accept_all(int epoll, int listener)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        int on = 1;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        struct conn *conn = malloc(sizeof(*conn));
        if (!conn)
            die("malloc");
        conn->fd = fd;
        conn->len = 0;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
            die("epoll_ctl");
    }
}

static int start_listening(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) < 0 || listen(fd, BACKLOG) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        die("listen");
    printf("%u\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

int main(int argc, char **argv)
{
    FILE *file = argc == 2 ? fopen(argv[1], "re") : NULL;
    if (!file) {
        fprintf(stderr, "Usage: epoll_floor REPLY-FILE\n");
        return EXIT_FAILURE;
    }
    reply_len = fread(reply, 1, sizeof(reply), file);
    fclose(file);
    int listener = start_listening();
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) < 0)
        die("epoll");
    for (;;) {
        struct epoll_event events[EVENTS_MAX];
        int count = epoll_wait(epoll, events, EVENTS_MAX, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr)
                answer(events[i].data.ptr);
            else
                accept_all(epoll, listener);
        }
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor under every HTTP server with one thread: epoll, one read, one send, the same bytes for
 * every request. It looks at a request only as far as it must to find its end, so that what a real
 * server does beyond that (parsing, routing, authentication, encoding, limits) is what the ratio
 * shows.
 *
 *     epoll_floor REPLY-FILE
 *     epoll_floor --read DIR PATH   reads a small file below DIR for each request instead, and
 *                                   answers it as a JSON string
 *
 * Prints the port it listens on, then serves until it is killed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    EVENTS_MAX = 256,
    REQUEST_BYTES_MAX = 16 * 1024,
    REPLY_BYTES_MAX = 64 * 1024,
    BACKLOG = 1024,
    FILE_BYTES_MAX = 8 * 1024,
};

struct conn {
    int fd;
    size_t len; /* of a request that came in pieces */
    char data[REQUEST_BYTES_MAX];
};

static char reply[REPLY_BYTES_MAX];
static size_t reply_len;
static int root_fd = -1;
static const char *file_path;

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

static size_t escape(const char *data, size_t len, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c == '\n' || c == '"' || c == '\\') {
            out[used++] = '\\';
            c = c == '\n' ? 'n' : c;
        } else if (c < ' ') {
            used += (size_t)snprintf(out + used, 7, "\\u%04x", c);
            continue;
        }
        out[used++] = (char)c;
    }
    return used;
}

/* What reading a file takes at least, by a path that may not leave the directory. */
static void read_reply(void)
{
    static char content[FILE_BYTES_MAX];
    static char body[6 * FILE_BYTES_MAX + 64];
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK, .resolve = RESOLVE_IN_ROOT};
    int fd = (int)syscall(SYS_openat2, root_fd, file_path, &how, sizeof(how));
    ssize_t got = fd >= 0 ? read(fd, content, sizeof(content)) : -1;
    if (got < 0)
        die(file_path);
    close(fd);
    size_t len = (size_t)snprintf(body, sizeof(body), "{\"content\":\"");
    len += escape(content, (size_t)got, body + len);
    len += (size_t)snprintf(body + len, 3, "\"}");
    int head_len = snprintf(reply, sizeof(reply),
                            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                            "content-length: %zu\r\n\r\n",
                            len);
    memcpy(reply + head_len, body, len);
    reply_len = (size_t)head_len + len;
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
        if (root_fd >= 0)
            read_reply();
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

static void load_reply(const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file)
        die(path);
    reply_len = fread(reply, 1, sizeof(reply), file);
    fclose(file);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--read") == 0) {
        root_fd = open(argv[2], O_PATH | O_DIRECTORY | O_CLOEXEC);
        file_path = argv[3];
        if (root_fd < 0)
            die(argv[2]);
    } else if (argc == 2) {
        load_reply(argv[1]);
    } else {
        fprintf(stderr, "Usage: epoll_floor REPLY-FILE | --read DIR PATH\n");
        return EXIT_FAILURE;
    }
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

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Round trips over TCP, timed as api_client does calls: count, and the shortest, median and 99th
 * percentile in microseconds.
 *
 *     round_trip serve [PORT]             sends back what comes, prints its port, until it is
 * killed round_trip time PORT COUNT BYTES    over one connection round_trip connect PORT COUNT
 * BYTES over a new one each time, its making included
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { COUNT_MAX = 100000, BYTES_MAX = 64 * 1024, WARM_UP = 50 };

static char data[BYTES_MAX];

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static struct sockaddr_in loopback(const char *port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)strtoul(port, NULL, 10)),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void set_now(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static int serve(const char *port)
{
    struct sockaddr_in address = loopback(port);
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    if (bind(listener, (struct sockaddr *)&address, len) < 0 || listen(listener, 512) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &len) < 0 ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) < 0)
        die("listen");
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        if (epoll_wait(epoll, &event, 1, -1) != 1)
            continue;
        int fd = event.data.fd;
        if (fd == listener) {
            event =
                (struct epoll_event){.events = EPOLLIN, .data.fd = accept(listener, NULL, NULL)};
            set_now(event.data.fd);
            epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event);
            continue;
        }
        ssize_t got = read(fd, data, sizeof(data));
        if (got <= 0 || write(fd, data, (size_t)got) != got)
            close(fd);
    }
}

static int dial(const char *port)
{
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        die("connect");
    set_now(fd);
    return fd;
}

static void there_and_back(int fd, size_t bytes)
{
    if (write(fd, data, bytes) != (ssize_t)bytes)
        die("write");
    for (size_t got = 0; got < bytes;) {
        ssize_t len = read(fd, data, bytes - got);
        if (len <= 0)
            die("read");
        got += (size_t)len;
    }
}

static int measure(const char *port, long count, size_t bytes, int connects)
{
    static double times[COUNT_MAX];
    int fd = connects ? -1 : dial(port);
    for (long i = -WARM_UP; i < count; i++) {
        double start = now_us();
        if (connects)
            fd = dial(port);
        there_and_back(fd, bytes);
        if (i >= 0)
            times[i] = now_us() - start;
        if (connects)
            close(fd);
    }
    qsort(times, (size_t)count, sizeof(*times), by_size);
    printf("x\t%ld\t%.2f\t%.2f\t%.2f\n", count, times[0], times[count / 2],
           times[count - 1 - count / 100]);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "serve") == 0)
        return serve(argc > 2 ? argv[2] : "0");
    if (argc != 5)
        return 2;
    long count = strtol(argv[3], NULL, 10);
    size_t bytes = strtoul(argv[4], NULL, 10);
    if (count < 1 || count > COUNT_MAX || bytes < 1 || bytes > BYTES_MAX)
        return 2;
    return measure(argv[2], count, bytes, strcmp(argv[1], "connect") == 0);
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Round trips over TCP, timed as api_client does calls: count, and the shortest, median and 99th
 * percentile in microseconds.
 *
 *     round_trip serve [WHERE]               sends back what comes, prints its port, until it is
 * killed round_trip time WHERE COUNT BYTES      over one connection round_trip connect WHERE COUNT
 * BYTES   over a new one each time, its making included round_trip requests WHERE COUNT BYTES  over
 * 16 connections at once; prints how many in a second round_trip stream WHERE COUNT BYTES    one
 * after the other and back, without waiting; the same
 *
 * WHERE is a port of the loopback, or ADDRESS:PORT.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COUNT_MAX = 100000, BYTES_MAX = 64 * 1024, WARM_UP = 50, CONNECTIONS = 16 };

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

static struct sockaddr_in address_of(const char *where)
{
    char text[64];
    const char *colon = strchr(where, ':');
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (colon) {
        snprintf(text, sizeof(text), "%.*s", (int)(colon - where), where);
        inet_pton(AF_INET, text, &address.sin_addr);
    }
    address.sin_port = htons((uint16_t)strtoul(colon ? colon + 1 : where, NULL, 10));
    return address;
}

static void set_now(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static int serve(const char *where)
{
    struct sockaddr_in address = address_of(where);
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

static int dial(const char *where)
{
    struct sockaddr_in address = address_of(where);
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

static int measure(const char *where, long count, size_t bytes, int connects)
{
    static double times[COUNT_MAX];
    int fd = connects ? -1 : dial(where);
    for (long i = -WARM_UP; i < count; i++) {
        double start = now_us();
        if (connects)
            fd = dial(where);
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

static int tell_rate(long count, double start)
{
    printf("%.2f\n", (double)count / (now_us() - start) * 1e6);
    return 0;
}

/* Each connection has one on its way. */
static int measure_requests(const char *where, long count, size_t bytes)
{
    struct epoll_event event = {.events = EPOLLIN};
    size_t got[CONNECTIONS] = {0};
    int fds[CONNECTIONS];
    int epoll = epoll_create1(0);
    double start = 0;
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        fds[i] = dial(where);
        there_and_back(fds[i], bytes);
        event.data.u32 = i;
        epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &event);
    }
    start = now_us();
    for (unsigned i = 0; i < CONNECTIONS; i++) {
        if (write(fds[i], data, bytes) != (ssize_t)bytes)
            die("write");
    }
    for (long done = 0; done < count;) {
        if (epoll_wait(epoll, &event, 1, -1) != 1)
            continue;
        unsigned i = event.data.u32;
        ssize_t len = read(fds[i], data, bytes - got[i]);
        if (len <= 0)
            die("read");
        got[i] += (size_t)len;
        if (got[i] < bytes)
            continue;
        got[i] = 0;
        done++;
        if (write(fds[i], data, bytes) != (ssize_t)bytes)
            die("write");
    }
    return tell_rate(count, start);
}

static int measure_stream(const char *where, long count, size_t bytes)
{
    int fd = dial(where);
    double start = now_us();
    pid_t pid = fork();
    for (long i = 0; pid == 0 && i < count; i++) {
        for (size_t sent = 0; sent < bytes;) {
            ssize_t len = write(fd, data, bytes - sent);
            if (len <= 0)
                _exit(1);
            sent += (size_t)len;
        }
    }
    if (pid == 0)
        _exit(0);
    for (size_t got = 0; got < (size_t)count * bytes;) {
        ssize_t len = read(fd, data, sizeof(data));
        if (len <= 0)
            die("read");
        got += (size_t)len;
    }
    waitpid(pid, NULL, 0);
    return tell_rate(count, start);
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
    if (strcmp(argv[1], "requests") == 0)
        return measure_requests(argv[2], count, bytes);
    if (strcmp(argv[1], "stream") == 0)
        return measure_stream(argv[2], count, bytes);
    return measure(argv[2], count, bytes, strcmp(argv[1], "connect") == 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs inside a sandbox and says what its network lets it do, in one line.
 *
 *   tcp HOST PORT         connects and reads to the end: "ok DATA" or "failed ERROR"
 *   udp HOST PORT TEXT    sends one datagram: "ok" or "failed ERROR"
 *   names NAME            "ok ADDRESS ..." or "failed ERROR"
 *   raw                   is a raw socket given? "ok" or "failed ERROR"
 *   try HOST PORT         the same, with less patience
 *   echo HOST PORT        connects, says something and reads as much: "ok" or "failed ERROR"
 *   hold HOST PORT FILE   connects, and counts in the file what comes back, until it fails
 *   serve PORT            answers every connection with "inside"
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 20 * 1000 };

static int dial_ms = PATIENCE_MS;

static int fail(const char *why)
{
    printf("failed %s\n", why);
    return 0;
}

static struct addrinfo *look_up(const char *host, const char *port, int type)
{
    struct addrinfo hints = {.ai_socktype = type};
    struct addrinfo *found = NULL;
    return getaddrinfo(host, port, &hints, &found) == 0 ? found : NULL;
}

static int dial(const char *host, const char *port, int type)
{
    const struct addrinfo *to = look_up(host, port, type);
    if (!to)
        return -ENOENT;
    int fd = socket(to->ai_family, type | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, to->ai_addr, to->ai_addrlen) < 0 && errno != EINPROGRESS)
        return -errno;
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    if (poll(&ready, 1, dial_ms) != 1)
        return -ETIMEDOUT;
    int error = 0;
    socklen_t len = sizeof(error);
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
    return error ? -error : fd;
}

static ssize_t get(int fd, char *data, size_t size, int patience_ms)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    return poll(&ready, 1, patience_ms) == 1 ? read(fd, data, size) : -1;
}

static int tcp(char **args)
{
    char data[256];
    int fd = dial(args[0], args[1], SOCK_STREAM);
    if (fd < 0)
        return fail(strerror(-fd));
    ssize_t len = get(fd, data, sizeof(data) - 1, PATIENCE_MS);
    if (len < 0)
        return fail("no answer");
    data[len] = '\0';
    printf("ok %s\n", data);
    return 0;
}

static int try(char **args)
{
    dial_ms = 400;
    return tcp(args);
}

static int udp(char **args)
{
    int fd = dial(args[0], args[1], SOCK_DGRAM);
    if (fd < 0)
        return fail(strerror(-fd));
    return send(fd, args[2], strlen(args[2]), 0) < 0 ? fail(strerror(errno)) : puts("ok") < 0;
}

static int names(char **args)
{
    const struct addrinfo *found = look_up(args[0], NULL, SOCK_STREAM);
    char text[64];
    if (!found)
        return fail("no such name");
    printf("ok");
    for (; found; found = found->ai_next) {
        const void *address =
            found->ai_family == AF_INET
                ? (const void *)&((const struct sockaddr_in *)found->ai_addr)->sin_addr
                : (const void *)&((const struct sockaddr_in6 *)found->ai_addr)->sin6_addr;
        printf(" %s", inet_ntop(found->ai_family, address, text, sizeof(text)));
    }
    printf("\n");
    return 0;
}

static int raw(char **args)
{
    (void)args;
    int fd = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
    if (fd < 0)
        fd = socket(AF_PACKET, SOCK_RAW, 0);
    return fd < 0 ? fail(strerror(errno)) : puts("ok") < 0;
}

static int echo(char **args)
{
    char data[16];
    int fd = dial(args[0], args[1], SOCK_STREAM);
    if (fd < 0)
        return fail(strerror(-fd));
    bool is_good = write(fd, "x\n", 2) == 2 && get(fd, data, sizeof(data), PATIENCE_MS) == 2;
    return is_good ? puts("ok") < 0 : fail(strerror(errno));
}

static int hold(char **args)
{
    char data[16];
    int fd = dial(args[0], args[1], SOCK_STREAM);
    if (fd < 0)
        return fail(strerror(-fd));
    for (long count = 0;; count++) {
        FILE *file = fopen(args[2], "w");
        fprintf(file, "%ld\n", count);
        fclose(file);
        if (write(fd, "x\n", 2) != 2 || get(fd, data, sizeof(data), -1) != 2)
            return 1;
        usleep(10 * 1000);
    }
}

static int serve(char **args)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6,
                                   .sin6_port = htons((uint16_t)atoi(args[0]))};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 16) < 0)
        return 1;
    for (;;) {
        int peer = accept(fd, NULL, NULL);
        if (peer < 0 || write(peer, "inside", 6) != 6)
            return 1;
        close(peer);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int count;
        int (*run)(char **args);
    } verbs[] = {
        {"tcp", 2, tcp}, {"try", 2, try},   {"udp", 3, udp},     {"names", 1, names},
        {"raw", 0, raw}, {"hold", 3, hold}, {"serve", 1, serve}, {"echo", 2, echo},
    };
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (argc - 2 == verbs[i].count && strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].run(argv + 2);
    }
    return 2;
}

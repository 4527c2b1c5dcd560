/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds many idle keep-alive connections to a server on 127.0.0.1.
 *
 * Usage: idle_clients PORT COUNT REQUEST-FILE
 *
 * Opens COUNT connections, sends the request once on each, reads the answer and prints
 * "answered N". For every line on standard input it does another such round on the connections
 * it holds, without opening any. Ends with its standard input.
 *
 * A source address has some 28,000 ports: every 10,000 connections take another 127.0.0.x.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum {
    PER_ADDRESS = 10000,
    REQUEST_BYTES_MAX = 16 * 1024,
    ANSWER_TIMEOUT_S = 10,
    SPARE_DESCRIPTORS = 16,
};

[[gnu::noreturn]] static void die(const char *what)
{
    fprintf(stderr, "idle_clients: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static void allow_descriptors(size_t count)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        die("getrlimit");
    if (limit.rlim_max < count)
        limit.rlim_max = count; /* for root */
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        die("raise the limit of open files");
}

static int open_connection(size_t index, unsigned port)
{
    struct sockaddr_in source = {.sin_family = AF_INET};
    struct sockaddr_in target = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    target.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    source.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + (uint32_t)(index / PER_ADDRESS));
    struct timeval timeout = {.tv_sec = ANSWER_TIMEOUT_S};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&source, sizeof(source)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0 ||
        connect(fd, (struct sockaddr *)&target, sizeof(target)) < 0)
        die("connect");
    return fd;
}

/* Answers are small: one that does not come whole in one read counts as none. */
static bool ask(int fd, const char *request, size_t len)
{
    char answer[4096];
    if (send(fd, request, len, MSG_NOSIGNAL) != (ssize_t)len)
        return false;
    ssize_t got = recv(fd, answer, sizeof(answer) - 1, 0);
    if (got <= 0)
        return false;
    answer[got] = '\0';
    return strncmp(answer, "HTTP/1.1 200 ", 13) == 0 && strstr(answer, "\r\n\r\n");
}

int main(int argc, char **argv)
{
    FILE *file = argc == 4 ? fopen(argv[3], "re") : NULL;
    if (!file) {
        fprintf(stderr, "Usage: idle_clients PORT COUNT REQUEST-FILE\n");
        return EXIT_FAILURE;
    }
    static char request[REQUEST_BYTES_MAX];
    size_t len = fread(request, 1, sizeof(request), file);
    fclose(file);
    unsigned port = (unsigned)strtoul(argv[1], NULL, 10);
    size_t count = strtoul(argv[2], NULL, 10);
    allow_descriptors(count + SPARE_DESCRIPTORS);
    int *fds = calloc(count, sizeof(*fds));
    if (!fds)
        die("calloc");
    for (size_t i = 0; i < count; i++)
        fds[i] = open_connection(i, port);
    char line[16];
    do {
        size_t answered = 0;
        for (size_t i = 0; i < count; i++)
            answered += ask(fds[i], request, len);
        printf("answered %zu\n", answered);
        fflush(stdout);
    } while (fgets(line, sizeof(line), stdin));
    free(fds);
    return EXIT_SUCCESS;
}

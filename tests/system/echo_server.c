/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs inside a sandbox and sends back what it gets, on every connection until its end, then ends
 * its own half. Arguments: an address of the loopback (127.0.0.1 or ::1) and a port. With a third
 * one it says "bye", ends its own half at once, and then prints how many bytes it got.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 512 };

static void echo(int fd)
{
    static char data[64 * 1024];
    for (;;) {
        ssize_t len = read(fd, data, sizeof(data));
        if (len <= 0)
            return;
        for (ssize_t sent = 0; sent < len;) {
            ssize_t part = write(fd, data + sent, (size_t)(len - sent));
            if (part < 0)
                return;
            sent += part;
        }
    }
}

static void say_bye(int fd)
{
    static char data[64 * 1024];
    long total = 0;
    if (write(fd, "bye", 3) != 3 || shutdown(fd, SHUT_WR))
        return;
    for (ssize_t len; (len = read(fd, data, sizeof(data))) > 0;)
        total += len;
    printf("%ld bytes\n", total);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    int on = 1;
    if (argc != 3 && argc != 4)
        return 2;
    int is_six = strchr(argv[1], ':') != NULL;
    four.sin_port = six.sin6_port = htons((unsigned short)strtol(argv[2], NULL, 10));
    int fd = socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM, 0);
    int is_good = inet_pton(is_six ? AF_INET6 : AF_INET, argv[1],
                            is_six ? (void *)&six.sin6_addr : (void *)&four.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (is_good != 1 ||
        (is_six ? bind(fd, (void *)&six, sizeof(six)) : bind(fd, (void *)&four, sizeof(four))) ||
        listen(fd, BACKLOG)) {
        perror("echo_server");
        return 1;
    }
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int client = accept(fd, NULL, NULL);
        if (client < 0)
            continue;
        if (fork() == 0) {
            close(fd);
            (argc == 4 ? say_bye : echo)(client);
            _exit(0);
        }
        close(client);
    }
}

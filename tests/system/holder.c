/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holder hold FILE: locks, leases and watches a file; says `ready`, then a line for whatever it
 * hears of it. holder try FILE: says what of the two keeps it from the file, or `free`; then reads
 * the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <unistd.h>

static int hold(const char *path)
{
    int fd = open(path, O_RDONLY);
    int watch = inotify_init1(0);
    char event[4096];
    signal(SIGIO, SIG_IGN);
    if (fd < 0 || flock(fd, LOCK_EX) < 0 || fcntl(fd, F_SETLEASE, F_RDLCK) < 0 ||
        inotify_add_watch(watch, path, IN_ALL_EVENTS) < 0) {
        perror(path);
        return 1;
    }
    puts("ready");
    fflush(stdout);
    while (read(watch, event, sizeof(event)) > 0) {
        puts("heard");
        fflush(stdout);
    }
    return 0;
}

static int try(const char *path)
{
    char byte;
    int fd = open(path, O_RDONLY);
    if (fd < 0 || read(fd, &byte, 1) < 0)
        return 1;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        puts("locked");
    if (open(path, O_RDWR | O_NONBLOCK) < 0)
        puts(errno == EWOULDBLOCK ? "leased" : strerror(errno));
    puts("free");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    return strcmp(argv[1], "hold") == 0 ? hold(argv[2]) : try(argv[2]);
}

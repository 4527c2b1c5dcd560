/* SPDX-License-Identifier: Apache-2.0 */
/* Tricks that take more than a share: of a disk, of what the kernel counts, of time. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "probe/tricks.h"

enum {
    PIECE_BYTES = 64 * 1024,
    PAUSE_US = 5000,
    EMPTY_AT_ONCE = 20,
    FILES_MAX = 20'000,
    DEEP_NAME_BYTES = 200,
};

/* For who waits for it: what is done is done. */
static int say_ready(const char *path)
{
    cay_autoclose int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    return fd < 0 ? 1 : 0;
}

/* fill DIR KIND COUNT: so many pieces, slowly. Of files with a name, without one, or empty ones. */
int trick_fill(char **argv)
{
    static const char piece[PIECE_BYTES] = "x";
    bool is_empty = strcmp(argv[1], "empty") == 0;
    long count = strtol(argv[2], NULL, 10);
    char name[64];
    if (chdir(argv[0]) < 0)
        return 1;
    int fd = open("filled", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || (strcmp(argv[1], "nameless") == 0 && unlink("filled") < 0))
        return 1;
    for (long i = 0; i < count; i++) {
        for (int k = 0; k < EMPTY_AT_ONCE && is_empty; k++) {
            snprintf(name, sizeof(name), "empty-%ld-%d", i, k);
            cay_autoclose int empty = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
            if (empty < 0)
                return 1;
        }
        if (!is_empty && write(fd, piece, sizeof(piece)) != (ssize_t)sizeof(piece))
            return 1;
        usleep(PAUSE_US);
    }
    return 0;
}

/* sparse PATH: a tebibyte of nothing, and a byte. */
int trick_sparse(char **argv)
{
    cay_autoclose int fd = open(argv[0], O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    return fd < 0 || pwrite(fd, "x", 1, (off_t)1 << 40) != 1 ? 1 : 0;
}

/* deep DIR DEPTH: long names that are no text, one in the other; undone when it is below 0. */
int trick_deep(char **argv)
{
    char name[DEEP_NAME_BYTES + 1];
    long depth = strtol(argv[1], NULL, 10);
    long at = 0;
    memset(name, '\xfe', DEEP_NAME_BYTES);
    name[DEEP_NAME_BYTES] = '\0';
    if (chdir(argv[0]) < 0)
        return 1;
    for (; at < labs(depth); at++) {
        if ((depth > 0 && mkdir(name, 0755) < 0) || chdir(name) < 0)
            return 1;
    }
    while (depth < 0 && at-- > 0) {
        if (chdir("..") < 0 || rmdir(name) < 0)
            return 1;
    }
    return 0;
}

/* shuffle DIR MS: a file that is always in one of two directories, and never in both. */
int trick_shuffle(char **argv)
{
    struct timespec end = trick_in_ms(argv[1]);
    if (chdir(argv[0]) < 0 || (mkdir("a", 0755) < 0 && errno != EEXIST) ||
        (mkdir("b", 0755) < 0 && errno != EEXIST) || say_ready("a/file"))
        return 1;
    while (trick_is_before(&end)) {
        if (rename("a/file", "b/file") < 0 || rename("b/file", "a/file") < 0)
            return 1;
    }
    return 0;
}

/* keep PATH TEXT READY: writes it again and again, by a descriptor and by memory. */
int trick_keep(char **argv)
{
    size_t len = strlen(argv[1]);
    int fd = open(argv[0], O_RDWR | O_CLOEXEC);
    char *memory = fd < 0 || ftruncate(fd, 4096) < 0
                       ? MAP_FAILED
                       : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED || say_ready(argv[2]))
        return 1;
    for (;;) {
        memcpy(memory + len, argv[1], len);
        if (pwrite(fd, argv[1], len, 0) < 0)
            return 1;
        usleep(1000);
    }
}

/* How many of them there are for the asking, up to FILES_MAX. */
static int take_all(int (*take)(void))
{
    int count = 0;
    while (count < FILES_MAX && take() >= 0)
        count++;
    return count;
}

static int take_watcher(void)
{
    return inotify_init1(IN_CLOEXEC);
}

static int take_socket(void)
{
    return socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

static int take_file(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* exhaust READY: all there is to have of what the kernel counts by user, until it is killed. */
int trick_exhaust(char **argv)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    int spare = take_file(); /* to say so with, when there is no other */
    (void)take_all(take_watcher);
    (void)take_all(take_socket);
    (void)take_all(take_file);
    close(spare);
    if (say_ready(argv[0]))
        return 1;
    for (;;)
        pause();
}

/* some: ends with 0 when there is a little of each for us. */
int trick_some(char **)
{
    for (int i = 0; i < 4; i++) {
        if (take_watcher() < 0 || take_socket() < 0 || take_file() < 0)
            return 1;
    }
    return 0;
}

/* lease PROGRAM READY: whoever starts it is kept waiting until the lease is given up. */
int trick_lease(char **argv)
{
    char piece[65536];
    ssize_t len = -1;
    {
        cay_autoclose int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        cay_autoclose int to = open(argv[0], O_CREAT | O_WRONLY | O_CLOEXEC, 0755);
        while (from >= 0 && to >= 0 && (len = read(from, piece, sizeof(piece))) > 0)
            if (write(to, piece, (size_t)len) != len)
                return 1;
    }
    int fd = open(argv[0], O_RDWR | O_CLOEXEC);
    (void)signal(SIGIO, SIG_IGN);
    if (len < 0 || fd < 0 || fcntl(fd, F_SETLEASE, F_WRLCK) < 0 || say_ready(argv[1]))
        return 1;
    for (;;)
        pause();
}

/* signal PID: ends with 0 when it may be signalled. */
int trick_signal(char **argv)
{
    return kill((pid_t)strtol(argv[0], NULL, 10), 0) == 0 ? 0 : 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What hostile code does while somebody else is watched: the daemon, or a neighbour. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe/tricks.h"

enum { RENAME_BOTH = 2, BOMB_MAX = 100'000 };

bool trick_is_before(const struct timespec *end)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec < end->tv_sec || (now.tv_sec == end->tv_sec && now.tv_nsec < end->tv_nsec);
}

struct timespec trick_in_ms(const char *text)
{
    struct timespec end;
    long ms = strtol(text, NULL, 10);
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += ms / 1000 + (end.tv_nsec + ms % 1000 * 1000000) / 1000000000;
    end.tv_nsec = (end.tv_nsec + ms % 1000 * 1000000) % 1000000000;
    return end;
}

/* plant DIR SECRET: names in DIR that lead to the secret of the host, and a FIFO. */
static int plant(char **argv)
{
    char up[PATH_MAX] = "";
    char dir[PATH_MAX];
    snprintf(dir, sizeof(dir), "%s", argv[1]);
    *strrchr(dir, '/') = '\0';
    for (int i = 0; i < 32; i++)
        memcpy(up + 3 * i, "../", 4);
    memmove(up + 96, argv[1] + 1, strlen(argv[1]));
    if ((mkdir(argv[0], 0755) < 0 && errno != EEXIST) || chdir(argv[0]) < 0)
        return 1;
    char root[PATH_MAX];
    snprintf(root, sizeof(root), "/proc/self/root%s", argv[1]);
    const struct {
        const char *target;
        const char *name;
    } links[] = {{argv[1], "link"}, {dir, "folder"}, {up, "upwards"}, {root, "process"}};
    for (size_t i = 0; i < CAY_COUNT(links); i++) {
        if (symlink(links[i].target, links[i].name) < 0 && errno != EEXIST)
            return 1;
    }
    return mkfifo("fifo", 0666) < 0 && errno != EEXIST ? 1 : 0;
}

/* swap DIR SECRET MS: DIR/race is a file and a link to the secret by turns, and DIR/turn a
 * directory and a link to that of the secret. */
static int swap(char **argv)
{
    char dir[PATH_MAX];
    struct timespec end = trick_in_ms(argv[2]);
    snprintf(dir, sizeof(dir), "%s", argv[1]);
    *strrchr(dir, '/') = '\0';
    if ((mkdir(argv[0], 0755) < 0 && errno != EEXIST) || chdir(argv[0]) < 0)
        return 1;
    cay_autoclose int file = open("race", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    (void)symlink(argv[1], "race-link");
    (void)mkdir("turn", 0755);
    (void)symlink(dir, "turn-link");
    while (trick_is_before(&end)) {
        (void)syscall(SYS_renameat2, AT_FDCWD, "race", AT_FDCWD, "race-link", RENAME_BOTH);
        (void)syscall(SYS_renameat2, AT_FDCWD, "turn", AT_FDCWD, "turn-link", RENAME_BOTH);
    }
    return 0;
}

/* scribble PATH TEXT: over the beginning of the file, through shared memory. */
static int scribble(char **argv)
{
    cay_autoclose int fd = open(argv[0], O_RDWR | O_CLOEXEC);
    char *memory = fd < 0 || ftruncate(fd, 4096) < 0
                       ? MAP_FAILED
                       : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return 1;
    memcpy(memory, argv[1], strlen(argv[1]));
    return msync(memory, 4096, MS_SYNC) < 0 ? 1 : 0;
}

/* bomb MS: each process makes more, until the time is up. */
static int bomb(char **argv)
{
    struct timespec end = trick_in_ms(argv[0]);
    (void)signal(SIGCHLD, SIG_IGN);
    for (long i = 0; i < BOMB_MAX && trick_is_before(&end); i++)
        (void)fork();
    while (trick_is_before(&end))
        usleep(1000);
    return 0;
}

/* spin MS COUNT: so many processes use the processors. */
static int spin(char **argv)
{
    struct timespec end = trick_in_ms(argv[0]);
    for (long left = strtol(argv[1], NULL, 10); left > 0; left--) {
        if (fork() != 0)
            continue;
        while (trick_is_before(&end))
            ;
        _exit(0);
    }
    while (wait(NULL) > 0)
        ;
    return 0;
}

/* flood MS: as much as is taken. */
static int flood(char **argv)
{
    static char piece[1 << 16];
    struct timespec end = trick_in_ms(argv[0]);
    while (trick_is_before(&end) && write(STDOUT_FILENO, piece, sizeof(piece)) > 0)
        ;
    return 0;
}

/* linger MS: ends at once, and leaves a process of another session with its output open. */
static int linger(char **argv)
{
    if (fork() == 0) {
        (void)setsid();
        if (fork() == 0) {
            usleep((useconds_t)strtoul(argv[0], NULL, 10) * 1000);
            _exit(0);
        }
        _exit(0);
    }
    (void)wait(NULL);
    return 0;
}

/* stubborn: ignores what it can, and has children that are stopped and traced. */
static int stubborn(char **)
{
    for (int number = 1; number < 32; number++)
        (void)signal(number, SIG_IGN);
    pid_t traced = fork();
    if (traced == 0) {
        (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        _exit(0);
    }
    pid_t stopped = fork();
    if (stopped == 0) {
        raise(SIGSTOP);
        _exit(0);
    }
    printf("ready\n");
    fflush(stdout);
    for (;;)
        pause();
}

/* random: what two sandboxes must not have in common. */
static int unlike(char **)
{
    unsigned char bytes[16];
    char id[64] = "";
    cay_autoclose int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, id, 36) < 0)
        return 1;
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
        return 1;
    printf("%s\n", id);
    for (size_t i = 0; i < sizeof(bytes); i++)
        printf("%02x", bytes[i]);
    printf("\n");
    return 0;
}

static const struct {
    const char *name;
    int words;
    int (*run)(char **argv);
} tricks[] = {
    {"plant", 2, plant},         {"swap", 3, swap},
    {"scribble", 2, scribble},   {"bomb", 1, bomb},
    {"flood", 1, flood},         {"linger", 1, linger},
    {"stubborn", 0, stubborn},   {"random", 0, unlike},
    {"fill", 3, trick_fill},     {"sparse", 1, trick_sparse},
    {"deep", 2, trick_deep},     {"shuffle", 2, trick_shuffle},
    {"keep", 3, trick_keep},     {"exhaust", 1, trick_exhaust},
    {"some", 0, trick_some},     {"lease", 2, trick_lease},
    {"signal", 1, trick_signal}, {"spin", 2, spin},
};

int trick(int argc, char **argv)
{
    for (size_t i = 0; i < CAY_COUNT(tricks) && argc > 0; i++) {
        if (strcmp(argv[0], tricks[i].name) == 0 && argc == tricks[i].words + 1)
            return tricks[i].run(argv + 1);
    }
    return -1;
}

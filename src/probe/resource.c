/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More than the sandbox may have, by a quarter: enough to see that a limit is missing, and little
 * enough for a machine where it is.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe/attempts.h"

enum { PIECE_BYTES = 1 << 20, PIPE_BYTES = 1 << 20 };

static uint64_t wanted_bytes(const struct world *world)
{
    return world->memory_bytes + world->memory_bytes / 4;
}

/* `use` runs in a process that the kernel may kill for it; it returns 0 when it got all. */
static struct outcome judge_greed(const struct world *world, int (*use)(const struct world *world))
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(use(world));
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return denied("no process: %s", strerror(errno));
    if (WIFSIGNALED(status))
        return denied("killed by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status) == 0 ? reached("%llu bytes", (unsigned long long)wanted_bytes(world))
                                    : denied("%s", strerror(WEXITSTATUS(status)));
}

static int map_memory(const struct world *world)
{
    uint64_t size = wanted_bytes(world);
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return errno;
    for (uint64_t at = 0; at < size; at += 4096)
        memory[at] = 1;
    return 0;
}

ATTEMPT(much_memory)
{
    return judge_greed(world, map_memory);
}

static int lock_memory(const struct world *world)
{
    uint64_t size = wanted_bytes(world);
    const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    (void)setrlimit(RLIMIT_MEMLOCK, &all);
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED || mlock(memory, size) < 0 ? errno : 0;
}

ATTEMPT(much_locked)
{
    return judge_greed(world, lock_memory);
}

static int fill(int fd, uint64_t size)
{
    static char piece[PIECE_BYTES];
    memset(piece, 'x', sizeof(piece));
    for (uint64_t done = 0; done < size; done += sizeof(piece)) {
        ssize_t len = write(fd, piece, sizeof(piece));
        if (len != (ssize_t)sizeof(piece))
            return len < 0 ? errno : ENOSPC;
    }
    return 0;
}

static int fill_memory_file(const struct world *world)
{
    int fd = (int)syscall(SYS_memfd_create, "probe", 1);
    return fd < 0 ? errno : fill(fd, wanted_bytes(world));
}

ATTEMPT(much_memory_file)
{
    return judge_greed(world, fill_memory_file);
}

/* Without a name from the start, so that nothing is left however it ends. */
static int fill_shared(const struct world *world)
{
    int fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd < 0 ? errno : fill(fd, wanted_bytes(world));
}

ATTEMPT(fill_shared_memory)
{
    struct outcome made = judge_greed(world, fill_shared);
    if (world->is_control && made.verdict == PROBE_DENIED)
        return absent("the host's own is smaller");
    return made;
}

static int fill_pipes(const struct world *world)
{
    const struct rlimit many = {4096, 4096};
    (void)setrlimit(RLIMIT_NOFILE, &many);
    for (uint64_t done = 0; done < wanted_bytes(world); done += PIPE_BYTES) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0 ||
            fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES) < PIPE_BYTES)
            return errno;
        int error = fill(ends[1], PIPE_BYTES);
        if (error)
            return error;
    }
    return 0;
}

ATTEMPT(much_in_pipes)
{
    return judge_greed(world, fill_pipes);
}

ATTEMPT(many_processes)
{
    int wanted = world->process_count + world->process_count / 4;
    int count = 0;
    for (; count < wanted; count++) {
        pid_t pid = fork();
        if (pid < 0)
            break;
        if (pid == 0) {
            pause();
            _exit(0);
        }
    }
    int error = errno;
    /* The group dies with the attempt. */
    return count == wanted ? reached("%d of them", count)
                           : denied("%d, then %s", count, strerror(error));
}

static void *wait_for_ever(void *)
{
    for (;;)
        pause();
    return NULL;
}

ATTEMPT(many_threads)
{
    int wanted = world->process_count + world->process_count / 4;
    int count = 0;
    int error = 0;
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 16384);
    while (count < wanted && (error = pthread_create(&thread, &attr, wait_for_ever, NULL)) == 0)
        count++;
    return count == wanted ? reached("%d of them", count)
                           : denied("%d, then %s", count, strerror(error));
}

/* How many processes are dead and still there; of one parent, if it is not 0. */
static int count_zombies(int parent)
{
    DIR *dir = opendir("/proc");
    int count = 0;
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[64];
        char text[128] = "";
        int pid = 0;
        int whose = 0;
        char letter = 0;
        if (sscanf(entry->d_name, "%d", &pid) != 1)
            continue;
        snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
        const char *state =
            fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 ? strrchr(text, ')') : NULL;
        count += state && sscanf(state + 1, " %c %d", &letter, &whose) == 2 && letter == 'Z' &&
                 (!parent || whose == parent);
    }
    if (dir)
        closedir(dir);
    return count;
}

/* Orphans are the first process's; in the control they are ours, and we do not look after them. */
ATTEMPT(zombies)
{
    enum { ORPHANS = 64, LOOKS = 100, LOOK_US = 10'000 };
    int parent = world->is_control ? getpid() : 0; /* a host has others */
    int before = count_zombies(parent);
    for (int i = 0; i < ORPHANS; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            if (!world->is_control && fork() == 0)
                usleep(1000);
            _exit(0);
        }
        if (pid > 0 && !world->is_control)
            (void)waitpid(pid, NULL, 0);
    }
    int count = ORPHANS;
    int looks = world->is_control ? 1 : LOOKS;
    for (int i = 0; i < looks && (count = count_zombies(parent) - before) > 0; i++)
        usleep(LOOK_US);
    return count > 0 ? reached("%d are left", count) : denied("none is left");
}

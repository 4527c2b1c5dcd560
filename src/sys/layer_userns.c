/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/layer_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A user namespace is only born with a process in it. That process shares our memory (a fork of a
 * large daemon is dear), so it may do nothing but wait to be killed: no libc, one system call. */
enum { HOLDER_STACK_BYTES = 16 * 1024 };

static int hold_namespace(void *)
{
    for (;;)
        syscall(SYS_pause);
    return 0;
}

static int write_map(pid_t pid, const char *file, uint32_t id_base, uint32_t id_count)
{
    char path[64];
    char map[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
    int len = snprintf(map, sizeof(map), "0 %u %u\n", id_base, id_count);
    cay_autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return write(fd, map, (size_t)len) == len ? 0 : -errno;
}

static int map_and_open(pid_t pid, uint32_t id_base, uint32_t id_count)
{
    int rc = write_map(pid, "uid_map", id_base, id_count);
    if (!rc)
        rc = write_map(pid, "gid_map", id_base, id_count);
    if (rc < 0)
        return rc;
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int cay_layer_userns(uint32_t id_base, uint32_t id_count)
{
    cay_autofree char *stack = cay_alloc(HOLDER_STACK_BYTES);
    /* The exit signal is none: nobody's SIGCHLD handler shall reap it. */
    pid_t pid = clone(hold_namespace, stack + HOLDER_STACK_BYTES,
                      CLONE_VM | CLONE_FILES | CLONE_NEWUSER, NULL);
    if (pid < 0)
        return -errno;
    int fd = map_and_open(pid, id_base, id_count);
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        continue;
    return fd;
}

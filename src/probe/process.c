/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces, other processes, terminals. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe/attempts.h"

ATTEMPT(try_namespace)
{
    return judge(world, unshare((int)attempt->number), 0);
}

static struct outcome judge_child(const struct world *world, long pid)
{
    struct outcome made = judge(world, pid, 0);
    if (pid > 0)
        (void)waitpid((pid_t)pid, NULL, 0);
    return made;
}

ATTEMPT(clone_user)
{
    long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0)
        _exit(0);
    return judge_child(world, pid);
}

ATTEMPT(clone3_user)
{
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    long pid = syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0)
        _exit(0);
    return judge_child(world, pid);
}

ATTEMPT(setns_of_init)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/ns/net", world->supervisor);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return judge(world, fd < 0 ? -1 : setns(fd, 0), 0);
}

ATTEMPT(owner_namespace)
{
    enum { GET_USER_NAMESPACE = 0xb701 };
    int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    return judge(world, fd < 0 ? -1 : ioctl(fd, GET_USER_NAMESPACE), 0);
}

ATTEMPT(trace_init)
{
    long result = ptrace(PTRACE_SEIZE, world->supervisor, NULL, NULL);
    return judge(world, result, 0);
}

/* An address that nobody has: EFAULT is told to whom may read. */
ATTEMPT(read_memory)
{
    char byte = 0;
    struct iovec here = {&byte, 1};
    struct iovec there = {(void *)(uintptr_t)4096, 1};
    return judge(world, process_vm_readv(world->supervisor, &here, 1, &there, 1, 0), EFAULT);
}

ATTEMPT(take_descriptor)
{
    long pidfd = syscall(SYS_pidfd_open, world->supervisor, 0);
    return judge(world, pidfd < 0 ? -1 : syscall(SYS_pidfd_getfd, pidfd, 0, 0), 0);
}

/* A directory, or a file of which a byte can be read where its place is 0. */
ATTEMPT(try_init_file)
{
    char path[64];
    char byte = 0;
    snprintf(path, sizeof(path), "/proc/%d/%s", world->supervisor, attempt->path);
    cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (fd < 0 || fstat(fd, &info) < 0)
        return judge(world, -1, 0);
    if (S_ISDIR(info.st_mode) || strcmp(attempt->path, "mem") == 0)
        return reached("it is open");
    ssize_t len = read(fd, &byte, 1);
    return len == 0 ? denied("it is empty") : judge(world, len, 0);
}

ATTEMPT(signal_init)
{
    return judge(world, kill(world->supervisor, 0), 0);
}

ATTEMPT(limit_init)
{
    struct rlimit now;
    if (prlimit(world->supervisor, RLIMIT_CORE, NULL, &now) < 0)
        return judge(world, -1, 0);
    return judge(world, prlimit(world->supervisor, RLIMIT_CORE, &now, NULL), 0);
}

/* Only as much as it takes to know. */
ATTEMPT(slow_init)
{
    return judge(world, setpriority(PRIO_PROCESS, (id_t)world->supervisor, 1), 0);
}

ATTEMPT(bind_init)
{
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof(all), &all) < 0)
        return denied("%s", strerror(errno));
    return judge(world, sched_setaffinity(world->supervisor, sizeof(all), &all), 0);
}

ATTEMPT(oom_init)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", world->supervisor);
    cay_autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);
    return judge(world, fd, 0);
}

/* Every id that its owner could be, of those that a sandbox knows. */
ATTEMPT(become_init)
{
    char path[64];
    struct stat info;
    snprintf(path, sizeof(path), "/proc/%d", world->supervisor);
    const uid_t ids[] = {65535, 65534, 65533, 0, stat(path, &info) == 0 ? info.st_uid : 65535};
    for (size_t i = 0; i < CAY_COUNT(ids); i++) {
        pid_t pid = fork();
        if (pid == 0) {
            bool is_it = syscall(SYS_setresuid, ids[i], ids[i], ids[i]) == 0 &&
                         kill(world->supervisor, 0) == 0;
            _exit(is_it ? 0 : 1);
        }
        int status = 1;
        if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
            WEXITSTATUS(status) == 0)
            return reached("as %u", (unsigned)ids[i]);
    }
    return denied("as none of its users");
}

/* Numbers are given again: it must also be the process that is meant. */
static bool is_prize(const struct prize *prize)
{
    char path[64];
    char comm[32] = "";
    snprintf(path, sizeof(path), "/proc/%d/comm", prize->pid);
    cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, comm, sizeof(comm) - 1) > 0 &&
           strncmp(comm, prize->name, strlen(prize->name)) == 0;
}

ATTEMPT(signal_host)
{
    if (kill(world->host.pid, 0) < 0)
        return denied("%s", strerror(errno));
    return is_prize(&world->host) ? reached("it may be killed") : denied("a process of its own");
}

ATTEMPT(pidfd_of_host)
{
    if (syscall(SYS_pidfd_open, world->host.pid, 0) < 0)
        return judge(world, -1, 0);
    return is_prize(&world->host) ? reached("it is open") : denied("a process of its own");
}

/* A terminal of our own that controls this process. */
static int open_terminal(void)
{
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0 || !ptsname(master))
        return -1;
    (void)setsid();
    int slave = open(ptsname(master), O_RDWR | O_CLOEXEC);
    if (slave >= 0)
        (void)ioctl(slave, TIOCSCTTY, 0);
    return slave;
}

ATTEMPT(terminal_input)
{
    int fd = open_terminal();
    if (fd < 0)
        return denied("no terminal: %s", strerror(errno));
    return judge(world, ioctl(fd, TIOCSTI, "x"), 0);
}

/* A terminal of this kind knows no such request (ENOTTY), but a filter does not ask it. */
ATTEMPT(terminal_console)
{
    char kind = 2;
    int fd = open_terminal();
    if (fd < 0)
        return denied("no terminal: %s", strerror(errno));
    return judge(world, ioctl(fd, TIOCLINUX, &kind), ENOTTY);
}

ATTEMPT(terminal_of_host)
{
    cay_autoclose int fd = open(world->terminal, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    return judge(world, fd, 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/clone.h"
#include "sys/raw.h"

/* Leaving the effective uid of root makes the whole (shared) memory non-dumpable (prctl(2),
 * PR_SET_DUMPABLE), which would take core files and the leak checker from the daemon. One maker at
 * a time puts the flag back. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

struct maker {
    uint32_t owner;
    void *stack; /* of the holder */
    pid_t parent;
    long result; /* the holder's pid or -errno */
};

/* Keeps the namespace alive until its maps are written and it has been opened. Dies with the
 * maker's thread, also with one that was killed before it could ask for that: it has all the
 * maker's descriptors, locks among them. */
CAY_CLONE_CHILD static int hold(void *arg)
{
    const pid_t *parent = arg;
    cay_raw2(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
    if (cay_raw0(SYS_getppid) != *parent)
        return 1;
    for (;;)
        cay_raw4(SYS_ppoll, 0, 0, 0, 0);
    return 0;
}

/* Takes the owner's ids, so that the namespace it makes belongs to them, and leaves the holder to
 * the caller (CLONE_PARENT). */
CAY_CLONE_CHILD static int make(void *arg)
{
    struct maker *maker = arg;
    maker->result = cay_raw3(SYS_setresgid, maker->owner, maker->owner, maker->owner);
    if (maker->result == 0)
        maker->result = cay_raw3(SYS_setresuid, maker->owner, maker->owner, maker->owner);
    if (maker->result == 0) {
        struct cay_clone how = {
            .flags = CLONE_VM | CLONE_NEWUSER | CLONE_PARENT,
            .cgroup_fd = -1,
            .stack = maker->stack,
        };
        maker->result = cay_clone_call(&how, hold, &maker->parent);
    }
    return 0;
}

static int write_map(pid_t pid, const char *name, uint32_t outside, uint32_t count)
{
    char path[64];
    char line[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    int len = snprintf(line, sizeof(line), "0 %u %u\n", outside, count);
    cay_autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return write(fd, line, (size_t)len) == len ? 0 : -errno;
}

/* Writes both maps of the namespace that `pid` keeps and opens it. */
static int finish(pid_t pid, uint32_t outside, uint32_t count)
{
    int result = write_map(pid, "uid_map", outside, count);
    if (result == 0)
        result = write_map(pid, "gid_map", outside, count);
    if (result == 0) {
        char path[64];
        snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
        result = open(path, O_RDONLY | O_CLOEXEC);
        if (result < 0)
            result = -errno;
    }
    return result;
}

static void reap(pid_t pid)
{
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
}

static int open_locked(struct maker *maker, void *stack, uint32_t base, uint32_t count)
{
    struct cay_clone how = {.flags = CAY_CLONE_SHARED, .cgroup_fd = -1, .stack = stack};
    int dumpable = prctl(PR_GET_DUMPABLE);
    pid_t pid = cay_clone_call(&how, make, maker);
    if (pid < 0)
        return pid;
    reap(pid);
    if (dumpable == 1)
        prctl(PR_SET_DUMPABLE, 1);
    if (maker->result < 0)
        return (int)maker->result;
    pid_t holder = (pid_t)maker->result;
    int fd = finish(holder, base, count);
    kill(holder, SIGKILL);
    reap(holder);
    return fd;
}

int cay_userns_open(uint32_t base, uint32_t count)
{
    uint32_t last = 0;
    if (!count || __builtin_add_overflow(base, count - 1, &last))
        return -EINVAL;
    void *stack = cay_clone_stack_open();
    struct maker maker = {
        .owner = last, .stack = cay_clone_stack_open(), .parent = getpid(), .result = -ECHILD};
    int result = -ENOMEM;
    if (stack && maker.stack) {
        sigset_t all;
        sigset_t before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        pthread_mutex_lock(&making);
        result = open_locked(&maker, stack, base, count);
        pthread_mutex_unlock(&making);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    cay_clone_stack_close(maker.stack);
    cay_clone_stack_close(stack);
    return result;
}

int cay_userns_open_inner(uint32_t count)
{
    void *stack = cay_clone_stack_open();
    if (!stack)
        return -ENOMEM;
    /* The maps of a non-dumpable process belong to the host's root (proc(5)), who is not us any
     * more. */
    int dumpable = prctl(PR_GET_DUMPABLE);
    prctl(PR_SET_DUMPABLE, 1);
    struct cay_clone how = {.flags = CLONE_VM | CLONE_NEWUSER, .cgroup_fd = -1, .stack = stack};
    pid_t parent = getpid();
    int result = cay_clone_call(&how, hold, &parent);
    if (result > 0) {
        pid_t holder = result;
        result = finish(holder, 0, count);
        kill(holder, SIGKILL);
        reap(holder);
    }
    prctl(PR_SET_DUMPABLE, dumpable == 1 ? 1 : 0);
    cay_clone_stack_close(stack);
    return result;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "init/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/mark.h"
#include "sys/caps.h"
#include "sys/program.h"
#include "sys/raw.h"
#include "sys/resolve.h"

enum { EXIT_NOT_STARTED = 127 };

/* 0, 1 and 2 without losing an end that lies on one of these numbers itself. */
static int set_stdio(const struct child *child)
{
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = child->stdio[i];
        if (fds[i] < 3)
            fds[i] = fcntl(fds[i], F_DUPFD, 3);
        if (fds[i] < 0)
            return -errno;
    }
    for (int i = 0; i < 3; i++) {
        if (dup2(fds[i], i) < 0)
            return -errno;
    }
    return 0;
}

/* The terminal on 0 becomes the one of our new session. */
static int set_terminal(const struct child *child)
{
    if (!(child->exec->flags & CAY_EXEC_PTY))
        return 0;
    return ioctl(0, TIOCSCTTY, 0) < 0 ? -errno : 0;
}

static int set_limits(const struct child *child)
{
    struct rlimit core = {.rlim_cur = 0, .rlim_max = 0};
    if (setrlimit(RLIMIT_CORE, &core) < 0)
        return -errno;
    struct rlimit files;
    if (!child->init->spec.open_files || getrlimit(RLIMIT_NOFILE, &files) < 0)
        return 0;
    files.rlim_cur = CAY_MIN((rlim_t)child->init->spec.open_files, files.rlim_max);
    return setrlimit(RLIMIT_NOFILE, &files) < 0 ? -errno : 0;
}

/* Into the inner user namespace, and there to the wanted user, by raw calls: the C library would
 * look for threads. */
static int set_user(const struct child *child)
{
    const struct cay_frame_exec *exec = child->exec;
    uint64_t caps = child->init->page ? CAY_CAPS_GVISOR : CAY_CAPS_SANDBOX;
    long result = cay_raw2(SYS_setgroups, exec->group_count, exec->groups);
    if (result == 0)
        result = cay_raw3(SYS_setresgid, exec->gid, exec->gid, exec->gid);
    if (result == 0)
        result = cay_raw3(SYS_setresuid, exec->uid, exec->uid, exec->uid);
    /* Whoever enters a user namespace has every capability in it, whatever its uid
     * (user_namespaces(7)). */
    if (result == 0)
        result = cay_caps_set(exec->uid == 0 ? caps : 0);
    if (result == 0 && child->init->spec.no_new_privs)
        result = cay_raw5(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return (int)result;
}

static int set_cwd(const struct child *child)
{
    int flags = O_PATH | O_DIRECTORY;
    if (child->init->page)
        return chdir(child->exec->cwd) < 0 ? -errno : 0;
    int fd = child->init->root_fd >= 0
                 ? cay_resolve_open(child->init->root_fd, child->exec->cwd, flags, 0)
                 : cay_resolve_open_here(child->exec->cwd, flags);
    if (fd < 0)
        return fd;
    return fchdir(fd) < 0 ? -errno : 0;
}

/* Init handles none and ignores none: see open_signals. */
static int set_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

static int become(const struct child *child)
{
    /* Nothing of ours outlives exec anyway. gVisor does not know the call in this form. */
    if (!child->init->page)
        (void)cay_raw3(SYS_close_range, 3, UINT_MAX, 0);
    return cay_program_exec(child->exec->args, child->exec->env);
}

/* Without a control group, descendants are known by a variable of the environment. The array has
 * room for it. */
static void add_mark(const struct child *child)
{
    static char mark[MARK_BYTES];
    uint32_t count = child->exec->env_count;
    if (child->init->slot_count || count >= CAY_FRAME_ENV_MAX)
        return;
    mark_format(mark, getppid(), child->call);
    child->exec->env[count] = mark;
    child->exec->env[count + 1] = NULL;
}

static int join_cgroup(const struct child *child)
{
    for (size_t i = 0; i < CAY_COUNT(child->tasks_fd); i++) {
        if (child->tasks_fd[i] >= 0 && write(child->tasks_fd[i], "0", 1) != 1)
            return -errno;
    }
    return 0;
}

/* Entering U2 gives all capabilities there, which the gate and the bounding set need. */
static int enter(const struct child *child)
{
    long result = cay_raw2(SYS_setns, child->init->userns_fd, CLONE_NEWUSER);
    /* So that the command sees its own group as the root of all (cgroup_namespaces(7)). */
    if (result == 0)
        result = cay_raw1(SYS_unshare, CLONE_NEWCGROUP);
    return (int)result;
}

static int run(struct child *child, uint32_t *stage)
{
    bool isolated = child->init->userns_fd >= 0;
    int result = 0;
#define STEP(at, step)             \
    do {                           \
        *stage = (at);             \
        if ((result = (step)) < 0) \
            return result;         \
    } while (0)
    STEP(CAY_STAGE_CGROUP, join_cgroup(child));
    setsid();
    add_mark(child);
    umask(022);
    STEP(CAY_STAGE_STDIO, set_stdio(child));
    STEP(CAY_STAGE_STDIO, set_terminal(child));
    if (!child->init->page)
        STEP(CAY_STAGE_LIMITS, set_limits(child));
    if (isolated) {
        STEP(CAY_STAGE_USERNS, enter(child));
        if (!child->init->spec.nesting)
            STEP(CAY_STAGE_SECCOMP, cay_seccomp_load(&child->init->gate));
        STEP(CAY_STAGE_CAPS, cay_caps_bound(CAY_CAPS_SANDBOX));
        STEP(CAY_STAGE_USER, set_user(child));
    }
    if (child->init->page) {
        STEP(CAY_STAGE_ROOT, gvisor_enter(child->init));
        STEP(CAY_STAGE_SECCOMP, cay_seccomp_load(&child->init->filter));
        STEP(CAY_STAGE_SECCOMP, cay_seccomp_load(&child->init->gate));
        STEP(CAY_STAGE_SECCOMP, cay_seccomp_load(&child->init->guard));
        STEP(CAY_STAGE_CAPS, cay_caps_unbound(CAY_CAPS_GVISOR_INIT));
        STEP(CAY_STAGE_USER, set_user(child));
    }
    STEP(CAY_STAGE_CWD, set_cwd(child));
    STEP(CAY_STAGE_EXEC, set_signals());
    STEP(CAY_STAGE_EXEC, become(child));
#undef STEP
    return 0;
}

int child_main(void *arg)
{
    struct child *child = arg;
    uint32_t stage = CAY_STAGE_FORK;
    int result = run(child, &stage);
    child->cell->error = (uint32_t)-result;
    child->cell->stage = stage;
    return EXIT_NOT_STARTED;
}

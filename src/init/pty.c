/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terminals of commands. The kernel gives a terminal to whoever opens it (devpts_pty_new() in
 * fs/devpts/inode.c), and init can give nothing away: so a child that has become the command's user
 * opens it, into the descriptors it shares with us.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/init.h"
#include "sys/clone.h"
#include "sys/raw.h"

struct opener {
    const struct init *init;
    const struct cay_frame_exec *exec;
    int master_fd;
    int slave_fd;
};

static int open_pair(struct opener *opener)
{
    const char *path = opener->init->userns_fd < 0 ? "/dev/ptmx" : "/dev/pts/ptmx";
    int unlocked = 0;
    opener->master_fd = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (opener->master_fd < 0)
        return -errno;
    if (ioctl(opener->master_fd, TIOCSPTLCK, &unlocked) == 0)
        opener->slave_fd = ioctl(opener->master_fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (opener->slave_fd >= 0)
        return 0;
    int result = -errno;
    close(opener->master_fd);
    return result;
}

/* In init's memory, on a stack of its own: the exit status is the error. */
static int opener_main(void *arg)
{
    struct opener *opener = arg;
    const struct cay_frame_exec *exec = opener->exec;
    long result = cay_raw2(SYS_setns, opener->init->userns_fd, CLONE_NEWUSER);
    if (result == 0)
        result = cay_raw3(SYS_setresgid, exec->gid, exec->gid, exec->gid);
    if (result == 0)
        result = cay_raw3(SYS_setresuid, exec->uid, exec->uid, exec->uid);
    if (result == 0)
        result = open_pair(opener);
    return result < 0 ? (int)-result : 0;
}

int pty_open(const struct init *init, const struct cay_frame_exec *exec, int *out_master_fd,
             int *out_slave_fd)
{
    struct opener opener = {.init = init, .exec = exec, .master_fd = -1, .slave_fd = -1};
    int result = 0;
    if (init->userns_fd < 0) {
        result = open_pair(&opener);
    } else {
        struct cay_clone how = {
            .flags = CAY_CLONE_SHARED | CLONE_FILES,
            .exit_signal = SIGCHLD,
            .cgroup_fd = -1,
            .stack = init->child_stack,
        };
        int status = 0;
        pid_t pid = cay_clone_call(&how, opener_main, &opener);
        if (pid < 0)
            return pid;
        if (waitpid(pid, &status, __WALL) != pid || !WIFEXITED(status))
            result = -EIO; /* killed on its way, by somebody of the sandbox */
        else
            result = -WEXITSTATUS(status);
    }
    if (result < 0)
        return result;
    *out_master_fd = opener.master_fd;
    *out_slave_fd = opener.slave_fd;
    return 0;
}

int pty_resize(struct call *call, const struct cay_frame_size *size)
{
    struct winsize window = {.ws_row = size->rows, .ws_col = size->columns};
    if (!(call->flags & CAY_EXEC_PTY) || call->output_fd[0] < 0)
        return -ENOTTY;
    call->size = *size;
    return ioctl(call->output_fd[0], TIOCSWINSZ, &window) < 0 ? -errno : 0;
}

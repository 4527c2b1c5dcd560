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
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
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

/* gVisor opens a terminal by its name only, and gives it to us: we can give it away. */
static int open_by_name(const struct opener *opener)
{
    enum { TTY_GID = 5 };
    char path[32];
    unsigned number = 0;
    if (ioctl(opener->master_fd, TIOCGPTN, &number) < 0)
        return -1;
    snprintf(path, sizeof(path), "/dev/pts/%u", number);
    int fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0)
        (void)fchown(fd, opener->exec->uid, TTY_GID);
    return fd;
}

static int open_pair(struct opener *opener)
{
    bool is_hosts = opener->init->userns_fd < 0 && !opener->init->page;
    const char *path = is_hosts ? "/dev/ptmx" : "/dev/pts/ptmx";
    int unlocked = 0;
    opener->master_fd = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (opener->master_fd < 0)
        return -errno;
    if (ioctl(opener->master_fd, TIOCSPTLCK, &unlocked) == 0)
        opener->slave_fd = ioctl(opener->master_fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (opener->slave_fd < 0 && opener->init->page)
        opener->slave_fd = open_by_name(opener);
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

/* What a terminal of gVisor does not do: signals for whoever is in its foreground. */
static void signal_foreground(const struct call *call, int signal)
{
    pid_t group = 0;
    if (ioctl(call->output_fd[0], TIOCGPGRP, &group) < 0 || group <= 1)
        group = call->group;
    if (group > 1)
        (void)kill(-group, signal);
}

static int signal_of(const struct termios *modes, uint8_t byte)
{
    if (!byte)
        return 0;
    return byte == modes->c_cc[VINTR]   ? SIGINT
           : byte == modes->c_cc[VQUIT] ? SIGQUIT
           : byte == modes->c_cc[VSUSP] ? SIGTSTP
                                        : 0;
}

uint32_t pty_keys_before_signal(const struct call *call, const uint8_t *data, uint32_t len)
{
    struct termios modes;
    uint32_t at = 0;
    while (at < len && data[at] >= 0x20) /* most input has none, and is not asked about */
        at++;
    if (at == len || ioctl(call->output_fd[0], TCGETS, &modes) < 0 || !(modes.c_lflag & ISIG))
        return len;
    while (at < len && !signal_of(&modes, data[at]))
        at++;
    return at;
}

void pty_press(const struct call *call, uint8_t key)
{
    struct termios modes;
    if (ioctl(call->output_fd[0], TCGETS, &modes) == 0)
        signal_foreground(call, signal_of(&modes, key));
}

int pty_resize(const struct init *init, struct call *call, const struct cay_frame_size *size)
{
    struct winsize window = {.ws_row = size->rows, .ws_col = size->columns};
    if (!(call->flags & CAY_EXEC_PTY) || call->output_fd[0] < 0)
        return -ENOTTY;
    call->size = *size;
    if (ioctl(call->output_fd[0], TIOCSWINSZ, &window) < 0)
        return -errno;
    if (init->page)
        signal_foreground(call, SIGWINCH);
    return 0;
}

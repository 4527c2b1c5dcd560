/* SPDX-License-Identifier: Apache-2.0 */
/* The program runsc. It makes the sandbox and is gone; nothing that comes later needs it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/runtime/gvisor/gvisor_internal.h"
#include "sys/clone.h"
#include "sys/mount.h"
#include "sys/pidfd.h"
#include "sys/raw.h"

enum { ARGS_MAX = 24, STATE_BYTES_MAX = 65536 };

/* Shared with the child, which runs in our memory until it is runsc. */
struct job {
    const char *path;
    const char *args[ARGS_MAX];
    int place_fd; /* the sandbox's directory, as a mount that is nowhere yet */
    int netns_fd;
    int userns_fd;
    int stdio[3];
    int tasks[CAY_CGROUP_CONTROLLERS];
    int task_count;
    long result; /* -errno when exec did not happen */
};

/* Into the sandbox's network and among its ids, with a copy of the host's mounts in which the
 * sandbox's directory lies over GVISOR_PLACE. Nothing that is mounted there comes back: mounts that
 * cross into another user namespace receive and do not send (mount_namespaces(7)). */
CAY_CLONE_CHILD static long enter(const struct job *job)
{
    long result = 0;
    for (int i = 0; i < job->task_count && result >= 0; i++)
        result = cay_raw3(SYS_write, job->tasks[i], "0", 1);
    if (result >= 0)
        result = cay_raw2(SYS_setns, job->netns_fd, CLONE_NEWNET);
    if (result >= 0)
        result = cay_raw2(SYS_setns, job->userns_fd, CLONE_NEWUSER);
    if (result >= 0)
        result = cay_raw2(SYS_setgroups, 0, 0);
    if (result >= 0)
        result = cay_raw3(SYS_setresgid, 0, 0, 0);
    if (result >= 0)
        result = cay_raw3(SYS_setresuid, 0, 0, 0);
    if (result >= 0)
        result = cay_raw1(SYS_unshare, CLONE_NEWNS);
    if (result >= 0)
        result = cay_raw5(SYS_move_mount, job->place_fd, "", AT_FDCWD, GVISOR_PLACE,
                          MOVE_MOUNT_F_EMPTY_PATH);
    return result;
}

CAY_CLONE_CHILD static int child_main(void *arg)
{
    struct job *job = arg;
    const char *env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    uint64_t no_signals = 0;
    int fds[3];
    long result = enter(job);
    for (int i = 0; i < 3 && result >= 0; i++)
        result = fds[i] = (int)cay_raw3(SYS_fcntl, job->stdio[i], F_DUPFD_CLOEXEC, 3);
    for (int i = 0; i < 3 && result >= 0; i++)
        result = cay_raw3(SYS_dup3, fds[i], i, 0);
    if (result >= 0)
        result = cay_raw3(SYS_close_range, 3, UINT_MAX, CLOSE_RANGE_CLOEXEC);
    if (result >= 0)
        result = cay_raw4(SYS_rt_sigprocmask, SIG_SETMASK, &no_signals, NULL, sizeof(no_signals));
    if (result >= 0)
        result = cay_raw0(SYS_setsid);
    if (result >= 0)
        result = cay_raw3(SYS_execve, job->path, job->args, env);
    job->result = result;
    return 127;
}

/* The exit status of runsc, or -errno. */
static int run(struct job *job, int cgroup_fd)
{
    cay_autoclose int pidfd = -1;
    struct cay_clone how = {.cgroup_fd = cgroup_fd, .out_pidfd = &pidfd};
    pid_t pid = cay_clone_shared(&how, child_main, job);
    if (pid < 0)
        return pid;
    int result = cay_pidfd_wait(pidfd, GVISOR_TIMEOUT_MS);
    if (result < 0)
        (void)cay_pidfd_signal(pidfd, SIGKILL);
    siginfo_t info = {};
    while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | __WALL) < 0 && errno == EINTR)
        ;
    if (job->result < 0)
        return (int)job->result;
    if (result < 0)
        return result;
    return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

static int open_stdio(const struct gvisor *gvisor, int stdio[static 3])
{
    stdio[0] = openat(gvisor->dir_fd, "in", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    stdio[1] = openat(gvisor->dir_fd, "out", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    stdio[2] = openat(gvisor->dir_fd, "page", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (stdio[0] < 0 || stdio[1] < 0 || stdio[2] < 0 ||
        lseek(stdio[2], GVISOR_ERROR_AT, SEEK_SET) < 0)
        return -errno;
    return 0;
}

/* The last line of what it said. */
static bool fail_with_words(const struct gvisor *gvisor, int status, struct cay_error *err)
{
    char text[512] = "";
    cay_autoclose int fd = openat(gvisor->dir_fd, "page", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : pread(fd, text, sizeof(text) - 1, GVISOR_ERROR_AT);
    text[CAY_MAX(len, (ssize_t)0)] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return cay_fail(err, CAY_R_RUNTIME_FAILED, "runsc ended with %d: %.160s", status, text);
}

static int read_number(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    long number = at ? strtol(at + strlen(key), NULL, 10) : 0;
    return number > 0 && number <= INT_MAX ? (int)number : -EBADMSG;
}

/* What runsc has written down of the sandbox. */
static int read_pids(const struct gvisor *gvisor, const char *runsc_id, pid_t *out_pid,
                     pid_t *out_gofer)
{
    static const char gofer[] = "\"goferPid\":";
    cay_autofree char *state = cay_realloc_array(NULL, STATE_BYTES_MAX, 1);
    char name[128];
    char text[32];
    snprintf(name, sizeof(name), "state/%s_sandbox:%s.state", runsc_id, runsc_id);
    int result = gvisor_place_read(gvisor->dir_fd, name, state, STATE_BYTES_MAX);
    if (result == 0)
        result = gvisor_place_read(gvisor->dir_fd, "state/pid", text, sizeof(text));
    if (result < 0)
        return result;
    *out_gofer = read_number(state, gofer);
    *out_pid = read_number(text, "");
    return *out_gofer < 0 || *out_pid < 0 ? -EBADMSG : 0;
}

bool gvisor_run(const struct gvisor *gvisor, int netns_fd, int userns_fd, pid_t *out_pid,
                pid_t *out_gofer, struct cay_error *err)
{
    const struct cay_resident *resident = &gvisor->resident;
    const struct cay_resident_runtime *runtime = resident->runtime;
    char id[GVISOR_ID_BYTES];
    char platform[64];
    gvisor_runsc_id(resident->base.id, id);
    cay_autoclose int place_fd = cay_mount_clone(gvisor->dir_fd, "", false);
    struct job job = {.path = runtime->runsc,
                      .place_fd = place_fd,
                      .netns_fd = netns_fd,
                      .userns_fd = userns_fd,
                      .stdio = {-1, -1, -1}};
    snprintf(platform, sizeof(platform), "--platform=%s", runtime->platform);
    size_t count = 0;
    const char *const args[] = {"runsc",
                                "--root=" GVISOR_PLACE "/state",
                                "--network=host",
                                "--file-access-mounts=shared",
                                "--ignore-cgroups",
                                "run",
                                "--detach",
                                "--bundle=" GVISOR_PLACE,
                                "--pid-file=" GVISOR_PLACE "/state/pid",
                                id};
    for (size_t i = 0; i < CAY_COUNT(args); i++) {
        job.args[count++] = args[i];
        if (i == 0 && runtime->platform[0])
            job.args[count++] = platform;
    }
    int status = place_fd < 0 ? place_fd : open_stdio(gvisor, job.stdio);
    if (status == 0 && resident->has_cgroup)
        status = job.task_count = cay_cgroup_open_tasks(&resident->cgroup, job.tasks);
    if (status >= 0)
        status = run(&job, resident->has_cgroup ? resident->cgroup.init_fd : -1);
    for (int i = 0; i < 3; i++)
        cay_cleanup_close(&job.stdio[i]);
    while (job.task_count > 0)
        close(job.tasks[--job.task_count]);
    if (status > 0)
        return fail_with_words(gvisor, status, err);
    if (status < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, status, "run '%s'", runtime->runsc);
    status = read_pids(gvisor, id, out_pid, out_gofer);
    return status == 0 ||
           cay_fail_errno(err, CAY_R_RUNTIME_FAILED, status, "read what runsc has started");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/runtime/namespaces/switch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/runtime/resident.h"
#include "host/runtime/socket.h"
#include "sys/clone.h"
#include "sys/mount.h"
#include "sys/raw.h"
#include "sys/resolve.h"

enum { DETACH = 2 }; /* MNT_DETACH */

/* Shared with the child, which runs in our memory and with our descriptors, but in the sandbox's
 * mount namespace. */
struct job {
    int pidfd;
    int root_fd; /* the new tree, detached */
    int dev_fd;  /* directories of the new tree */
    int proc_fd;
    const char *hostname; /* a new one; NULL: it keeps its own */
    size_t hostname_len;
    int sys_fd;
    int old_fd; /* out: the old tree's mount */
    long result;
    bool pivoted; /* past the point of no return */
};

CAY_CLONE_CHILD static long attach(int mount_fd, int target_fd)
{
    return cay_raw5(SYS_move_mount, mount_fd, "", target_fd, "",
                    MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

CAY_CLONE_CHILD static long move_in(const char *from, int target_fd)
{
    long fd = cay_raw3(SYS_open_tree, AT_FDCWD, from, OPEN_TREE_CLOEXEC);
    if (fd < 0)
        return fd;
    long result = attach((int)fd, target_fd);
    cay_raw1(SYS_close, fd);
    return result;
}

/* Everything that can fail for reasons of the new tree is done before the pivot. */
CAY_CLONE_CHILD static int child_main(void *arg)
{
    struct job *job = arg;
    long result = cay_raw2(SYS_setns, job->pidfd, CLONE_NEWNS | (job->hostname ? CLONE_NEWUTS : 0));
    long here = -1;
    if (result == 0 && job->hostname)
        result = cay_raw2(SYS_sethostname, job->hostname, job->hostname_len);
    if (result == 0)
        result = here = cay_raw3(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLOEXEC);
    if (result >= 0)
        result = attach(job->root_fd, (int)here);
    if (result >= 0) {
        /* The old tree's own mounts are picked while "/" still means the old tree. */
        result = move_in("/dev", job->dev_fd);
        if (result == 0)
            result = move_in("/proc", job->proc_fd);
        /* Inits of earlier daemons have nothing there. */
        if (result == 0 && (result = move_in("/sys", job->sys_fd)) == -EINVAL)
            result = 0;
        job->pivoted = true;
    }
    if (result == 0)
        result = cay_raw1(SYS_fchdir, job->root_fd);
    if (result == 0)
        result = cay_raw2(SYS_pivot_root, ".", ".");
    if (result == 0)
        result = cay_raw2(SYS_umount2, ".", DETACH);
    job->old_fd = (int)here;
    job->result = result;
    return 0;
}

/* As the sandbox's root, so that the tree says who owns it. */
static int open_mount_point(int root_fd, const char *name, uint32_t uid_base)
{
    int fd = cay_resolve_open_plain(root_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd != -ENOENT)
        return fd;
    cay_raw1(SYS_setfsgid, uid_base);
    cay_raw1(SYS_setfsuid, uid_base);
    int result = mkdirat(root_fd, name, 0755) < 0 && errno != EEXIST ? -errno : 0;
    cay_raw1(SYS_setfsuid, 0);
    cay_raw1(SYS_setfsgid, 0);
    if (result < 0)
        return result;
    return cay_resolve_open_plain(root_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
}

/* Every orphan of the sandbox is init's child: with no child nobody else is alive. */
bool cay_namespaces_is_idle(const struct cay_sandbox *sandbox)
{
    const struct cay_resident *resident = (const struct cay_resident *)sandbox;
    int pid = (int)resident->description.pid;
    char path[64];
    char text[16];
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
    cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT; /* init is gone, and all with it */
    ssize_t len = read(fd, text, sizeof(text));
    return len == 0 || (len < 0 && errno == ESRCH);
}

static int run(struct job *job)
{
    struct cay_clone how = {.flags = CLONE_FILES, .cgroup_fd = -1};
    pid_t pid = cay_clone_shared(&how, child_main, job);
    if (pid < 0)
        return pid;
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    return (int)job->result;
}

static bool put_under(struct cay_resident *resident, int root_fd, const char *hostname,
                      int *out_old_fd, struct cay_error *err)
{
    uint32_t base = resident->description.uid_base;
    cay_autoclose int root = cay_resident_copy_root(root_fd);
    if (root < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, root, "take the new root");
    int result = cay_mount_set(root, MOUNT_ATTR_NODEV, false);
    cay_autoclose int dev = open_mount_point(root, "dev", base);
    cay_autoclose int proc = open_mount_point(root, "proc", base);
    cay_autoclose int sys = open_mount_point(root, "sys", base);
    int worst = CAY_MIN(CAY_MIN(result, dev), CAY_MIN(proc, sys));
    if (worst < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, worst, "prepare the new root");
    struct job job = {.pidfd = resident->pidfd,
                      .root_fd = root,
                      .dev_fd = dev,
                      .proc_fd = proc,
                      .hostname = hostname,
                      .hostname_len = hostname ? strlen(hostname) : 0,
                      .sys_fd = sys,
                      .old_fd = -1};
    result = run(&job);
    if (result < 0) {
        cay_cleanup_close(&job.old_fd);
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "%s",
                              job.pivoted ? "the sandbox is broken and must be started anew"
                                          : "enter the sandbox");
    }
    *out_old_fd = job.old_fd;
    return true;
}

bool cay_namespaces_switch_root(struct cay_sandbox *sandbox, int root_fd, int *out_old_fd,
                                struct cay_error *err)
{
    struct cay_resident *resident = CAY_CONTAINER_OF(sandbox, struct cay_resident, base);
    if (!cay_namespaces_is_idle(sandbox))
        return cay_fail(err, CAY_R_TOOLS_IN_FLIGHT, "processes are alive in it");
    return put_under(resident, root_fd, NULL, out_old_fd, err);
}

bool cay_namespaces_hand_out(struct cay_sandbox *sandbox, const struct cay_sandbox_spec *spec,
                             int *out_old_fd, struct cay_error *err)
{
    struct cay_resident *resident = CAY_CONTAINER_OF(sandbox, struct cay_resident, base);
    if (spec->root_fd < 0 || spec->no_new_privs || spec->shm_bytes)
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "it was not started for that");
    if (resident->has_cgroup && !cay_resident_set_limits(sandbox, &spec->limits, err))
        return false;
    if (!put_under(resident, spec->root_fd, spec->hostname, out_old_fd, err))
        return false;
    int result = cay_socket_hand_out(resident->runtime->run_fd, sandbox->id);
    return result == 0 || cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "name its socket");
}

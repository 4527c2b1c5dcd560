/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session's tree below a sandbox. The gofer, which opens files for it, has a mount namespace of
 * its own, and in it a directory `s` with the tree mounted on `s/tree`: a helper that enters the
 * namespace puts another one there. No mount is made in the daemon's own.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/runtime/gvisor/gvisor_internal.h"
#include "sys/clone.h"
#include "sys/mount.h"
#include "sys/pidfd.h"
#include "sys/raw.h"
#include "sys/resolve.h"

enum { DETACH = 2, NOFOLLOW = 8 }; /* MNT_DETACH, UMOUNT_NOFOLLOW */

/* Shared with the child, which runs in our memory and with our descriptors, but in the gofer's
 * mount namespace. */
struct job {
    int pidfd;
    int root_fd;   /* the new tree, detached */
    int parent_fd; /* the directory that has `tree` in it */
    bool replaces;
    bool is_bare; /* out: the old tree is gone */
    long result;
};

CAY_CLONE_CHILD static int child_main(void *arg)
{
    struct job *job = arg;
    long result = cay_raw2(SYS_setns, job->pidfd, CLONE_NEWNS);
    if (result == 0)
        result = cay_raw1(SYS_fchdir, job->parent_fd);
    if (result == 0 && job->replaces) {
        result = cay_raw2(SYS_umount2, "tree", DETACH | NOFOLLOW);
        job->is_bare = result == 0;
    }
    if (result == 0)
        result = cay_raw5(SYS_move_mount, job->root_fd, "", job->parent_fd, "tree",
                          MOVE_MOUNT_F_EMPTY_PATH);
    job->is_bare = job->is_bare && result < 0;
    job->result = result;
    return 0;
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

/* Something of the gofer's files. What was opened is its own if it is alive afterwards. */
static int open_below(const struct gvisor *gvisor, const char *name)
{
    char path[64];
    if (gvisor->gofer_pidfd < 0)
        return -ESRCH;
    snprintf(path, sizeof(path), "/proc/%d/root/%s", (int)gvisor->gofer, name);
    cay_autoclose int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return cay_pidfd_wait(gvisor->gofer_pidfd, 0) == 0 ? -ESRCH : cay_take_fd(fd);
}

int gvisor_tree_open(const struct gvisor *gvisor)
{
    return open_below(gvisor, "s/tree");
}

static int attach(struct job *job, const struct gvisor *gvisor)
{
    cay_autoclose int parent = open_below(gvisor, "s");
    if (parent < 0)
        return parent;
    job->pidfd = gvisor->gofer_pidfd;
    job->parent_fd = parent;
    int result = run(job);
    if (result == 0)
        __atomic_add_fetch(&gvisor->page->tree, 1, __ATOMIC_SEQ_CST);
    return result;
}

/* A directory of the tree that something is mounted on. It is made when missing, as the sandbox's
 * root; a symbolic link in its place is refused. */
static bool make_mount_point(int root_fd, const char *name, uint32_t uid_base,
                             struct cay_error *err)
{
    const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW;
    cay_autoclose int fd = cay_resolve_open_plain(root_fd, name, flags, 0);
    if (fd >= 0)
        return true;
    int result = fd;
    if (result == -ENOENT) {
        cay_raw1(SYS_setfsgid, uid_base);
        cay_raw1(SYS_setfsuid, uid_base);
        result = mkdirat(root_fd, name, 0755) < 0 ? -errno : 0;
        cay_raw1(SYS_setfsuid, 0);
        cay_raw1(SYS_setfsgid, 0);
    }
    return result == 0 || cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "set up '%s'", name);
}

static bool dress(int root_fd, uint32_t uid_base, struct cay_error *err)
{
    int result = cay_mount_set(root_fd, MOUNT_ATTR_NODEV, false);
    if (result < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "set up 'root'");
    return make_mount_point(root_fd, "dev", uid_base, err) &&
           make_mount_point(root_fd, "proc", uid_base, err);
}

bool gvisor_tree_prepare(const struct cay_sandbox_spec *spec, int userns_fd, int *out_fd,
                         struct cay_error *err)
{
    cay_autoclose int root = cay_resident_open_root(spec, userns_fd);
    if (root < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, root, "take the root");
    if (!dress(root, spec->uid_base, err))
        return false;
    *out_fd = cay_take_fd(root);
    return true;
}

int gvisor_tree_attach(const struct gvisor *gvisor, int root_fd)
{
    struct job job = {.root_fd = root_fd};
    return attach(&job, gvisor);
}

bool gvisor_is_idle(const struct cay_sandbox *sandbox)
{
    const struct gvisor *gvisor = (const struct gvisor *)(const void *)sandbox;
    return !__atomic_load_n(&gvisor->page->is_busy, __ATOMIC_SEQ_CST) ||
           cay_pidfd_wait(gvisor->resident.pidfd, 0) == 0;
}

bool gvisor_switch_root(struct cay_sandbox *sandbox, int root_fd, int *out_old_fd,
                        struct cay_error *err)
{
    const struct gvisor *gvisor = gvisor_of(sandbox);
    if (!gvisor_is_idle(sandbox))
        return cay_fail(err, CAY_R_TOOLS_IN_FLIGHT, "processes are alive in it");
    cay_autoclose int root = cay_resident_copy_root(root_fd);
    if (root < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, root, "take the new root");
    if (!dress(root, gvisor->resident.description.uid_base, err))
        return false;
    cay_autoclose int old = gvisor_tree_open(gvisor);
    if (old < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, old, "find the old root");
    struct job job = {.root_fd = root, .replaces = true};
    int result = attach(&job, gvisor);
    if (result < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "%s",
                              job.is_bare ? "the sandbox is broken and must be started anew"
                                          : "enter the sandbox");
    *out_old_fd = cay_take_fd(old);
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a sandbox with a kernel of its own. Its root is a small read-only directory with
 * nothing but init in it; the session's tree lies at /s/tree and is bound to /t, where every
 * command is put before it is anybody. When the daemon lays another tree there, it is bound again
 * before the next command, with what is mounted in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/init.h"
#include "sys/caps.h"

#define TREE   "/t"
#define GROUPS "/cg"
#define KERNEL "/k"

static int mount_at(const char *type, const char *source, const char *at, unsigned long flags,
                    const char *options)
{
    return mount(source, at, type, flags, options) < 0 ? -errno : 0;
}

static int dress_tree(struct init *init, uint32_t *out_stage)
{
    char shm[64];
    snprintf(shm, sizeof(shm), "mode=1777,size=%llu", (unsigned long long)init->spec.shm_bytes);
    *out_stage = CAY_STAGE_ROOT;
    int result = mount_at(NULL, "/s/tree", TREE, MS_BIND, NULL);
    if (result < 0)
        return result;
    /* A name would be looked up by the gofer for each command. */
    init->tree_fd = open(TREE, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (init->tree_fd < 0)
        return -errno;
    *out_stage = CAY_STAGE_DEV;
    result = mount_at("devtmpfs", "dev", TREE "/dev", MS_NOSUID | MS_NOEXEC, NULL);
    if (result == 0)
        result = mount_at(NULL, "/dev/pts", TREE "/dev/pts", MS_BIND, NULL);
    if (result == 0)
        result = mount_at("tmpfs", "shm", TREE "/dev/shm", MS_NOSUID | MS_NODEV, shm);
    if (result < 0)
        return result;
    *out_stage = CAY_STAGE_PROC;
    const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY;
    result = mount_at("proc", "proc", TREE "/proc", flags, NULL);
    if (result == 0)
        result = mount_at("overlay", "none", TREE "/proc/sys/kernel", flags,
                          "lowerdir=" KERNEL ":/proc/sys/kernel");
    /* gVisor lets root look at everybody's descriptors: those of init are hidden. */
    return result < 0 ? result : mount_at("tmpfs", "none", TREE "/proc/1", flags, "mode=555");
}

static int write_file(const char *path, const char *text)
{
    cay_autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

/* Of init, which does with them, and so of all commands from the beginning: every system call of a
 * child is time that somebody waits. */
static int set_limits(const struct init *init)
{
    struct rlimit core = {.rlim_cur = 0, .rlim_max = 0};
    struct rlimit files;
    if (setrlimit(RLIMIT_CORE, &core) < 0 || getrlimit(RLIMIT_NOFILE, &files) < 0)
        return -errno;
    files.rlim_cur = CAY_MIN((rlim_t)init->spec.open_files, files.rlim_max);
    return setrlimit(RLIMIT_NOFILE, &files) < 0 ? -errno : 0;
}

/* What gVisor lacks of /proc/sys/kernel, to be laid over it. */
static int make_kernel_files(void)
{
    int result = mount_at("tmpfs", "none", KERNEL, MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=555");
    if (result < 0)
        return result;
    if (mkdir(KERNEL "/random", 0555) < 0)
        return -errno;
    cay_autoclose int fd = open(KERNEL "/random", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : setup_boot_id(fd);
}

int setup_gvisor(struct init *init, uint32_t *out_stage)
{
    *out_stage = CAY_STAGE_SECCOMP;
    cay_seccomp_build_gate(&init->gate);
    cay_seccomp_build_guard(&init->guard);
    int result = cay_seccomp_build(&init->filter, 0);
    if (result < 0)
        return result;
    *out_stage = CAY_STAGE_CGROUP;
    result = mount_at("cgroup", "none", GROUPS, 0, "pids");
    if (result < 0)
        return result;
    (void)unlink("/dev/fuse");
    *out_stage = CAY_STAGE_PROC;
    result = make_kernel_files();
    if (result < 0)
        return result;
    *out_stage = CAY_STAGE_LIMITS;
    result = set_limits(init);
    if (result < 0)
        return result;
    *out_stage = CAY_STAGE_CAPS;
    result = cay_caps_bound(CAY_CAPS_GVISOR | CAY_CAPS_GVISOR_INIT);
    if (result < 0)
        return result;
    init->tree = __atomic_load_n(&init->page->tree, __ATOMIC_SEQ_CST);
    return dress_tree(init, out_stage);
}

/* A sandbox that waited has the name of its session from the first tree on. */
static int take_hostname(const struct init *init)
{
    char name[CAY_PIPE_HOSTNAME_BYTES];
    memcpy(name, init->page->hostname, sizeof(name));
    size_t len = strnlen(name, sizeof(name));
    return len && sethostname(name, len) < 0 ? -errno : 0;
}

int gvisor_follow_tree(struct init *init)
{
    uint32_t stage = 0;
    uint32_t tree = __atomic_load_n(&init->page->tree, __ATOMIC_SEQ_CST);
    if (tree == init->tree)
        return 0;
    cay_cleanup_close(&init->tree_fd);
    init->tree_fd = -1;
    /* Of another that was not finished, too. */
    while (umount2(TREE, MNT_DETACH) == 0)
        ;
    int result = take_hostname(init);
    if (result == 0)
        result = dress_tree(init, &stage);
    if (result == 0)
        init->tree = tree;
    return result;
}

/* The kernel's groups are the sandbox's own: they tell who belongs to a command, and keep the
 * number of its processes. (Of a group above others gVisor keeps no limit.) */
static int limit_slot(const struct init *init, uint32_t index)
{
    char path[64];
    char text[16] = "max";
    if (init->pids_max)
        snprintf(text, sizeof(text), "%u", init->pids_max);
    snprintf(path, sizeof(path), GROUPS "/s%u/pids.max", index);
    return write_file(path, text);
}

/* Of all commands, also those that run, when it has changed. */
int gvisor_follow_limits(struct init *init)
{
    uint32_t pids_max = __atomic_load_n(&init->page->pids_max, __ATOMIC_SEQ_CST);
    int result = 0;
    if (pids_max == init->pids_max)
        return 0;
    init->pids_max = pids_max;
    for (uint32_t i = 0; i < init->slot_count && result == 0; i++)
        result = limit_slot(init, i);
    return result;
}

int gvisor_open_slot(struct init *init, uint32_t index)
{
    char path[64];
    if (index >= CAY_FRAME_SLOTS_MAX)
        return -EBUSY;
    snprintf(path, sizeof(path), GROUPS "/s%u", index);
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return -errno;
    int result = init->pids_max ? limit_slot(init, index) : 0;
    if (result < 0)
        return result;
    snprintf(path, sizeof(path), GROUPS "/s%u/cgroup.procs", index);
    struct slot *slot = &init->slots[index];
    slot->fds = CAY_CGROUP_NO_SLOT;
    slot->fds.procs_fd = open(path, O_RDONLY | O_CLOEXEC);
    slot->fds.tasks_fd = open(path, O_WRONLY | O_CLOEXEC);
    if (slot->fds.procs_fd < 0 || slot->fds.tasks_fd < 0)
        return -errno;
    slot->present = true;
    init->slot_count = index + 1;
    return 0;
}

/* The directory that it is to start in is looked up by its name, which may lead through
 * /proc/self/fd: no descriptor of ours there is a directory then. */
int gvisor_enter(const struct init *init)
{
    return fchdir(init->tree_fd) < 0 || chroot(".") < 0 || close(init->tree_fd) < 0 ? -errno : 0;
}

void gvisor_note_busy(const struct init *init, bool is_busy)
{
    if (init->page)
        __atomic_store_n(&init->page->is_busy, is_busy, __ATOMIC_SEQ_CST);
}

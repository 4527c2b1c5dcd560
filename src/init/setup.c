/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a fresh process in new namespaces, still root of the host, to the sandbox's init. All mounts
 * are made before any code of the sandbox runs, by descriptor; what the session's tree has at /dev
 * and /proc is followed nowhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <stdio.h>
#include <sys/fsuid.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "init/init.h"
#include "sys/caps.h"
#include "sys/loopback.h"
#include "sys/mount.h"
#include "sys/raw.h"
#include "sys/resolve.h"
#include "sys/userns.h"

enum {
    TTY_GID = 5,
    DEV_FILES = 4096,        /* for /dev and /sys themselves */
    SHM_FILE_BYTES = 16'384, /* one file more for each: empty ones take no room, but memory */
};

/* A directory of the session's tree that something is mounted on. It is made when missing, as the
 * sandbox's root; a symbolic link in its place is refused. */
static int open_mount_point(int root_fd, const char *name, uint32_t uid_base)
{
    int fd = cay_resolve_open_plain(root_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd != -ENOENT)
        return fd;
    setfsgid(uid_base);
    setfsuid(uid_base);
    int result = mkdirat(root_fd, name, 0755) < 0 && errno != EEXIST ? -errno : 0;
    setfsuid(0);
    setfsgid(0);
    if (result < 0)
        return result;
    return cay_resolve_open_plain(root_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
}

static int make_nodes(int dev_fd, uint32_t uid_base)
{
    static const struct {
        const char *name;
        unsigned int major;
        unsigned int minor;
    } nodes[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
                 {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};
    static const struct {
        const char *name;
        const char *target;
    } links[] = {{"ptmx", "pts/ptmx"},
                 {"fd", "/proc/self/fd"},
                 {"stdin", "/proc/self/fd/0"},
                 {"stdout", "/proc/self/fd/1"},
                 {"stderr", "/proc/self/fd/2"}};
    for (size_t i = 0; i < CAY_COUNT(nodes); i++) {
        if (mknodat(dev_fd, nodes[i].name, S_IFCHR | 0666,
                    makedev(nodes[i].major, nodes[i].minor)) < 0 ||
            fchownat(dev_fd, nodes[i].name, uid_base, uid_base, 0) < 0)
            return -errno;
    }
    for (size_t i = 0; i < CAY_COUNT(links); i++) {
        if (symlinkat(links[i].target, dev_fd, links[i].name) < 0 ||
            fchownat(dev_fd, links[i].name, uid_base, uid_base, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
    }
    return mkdirat(dev_fd, "pts", 0755) < 0 || mkdirat(dev_fd, "shm", 0755) < 0 ? -errno : 0;
}

static int attach_at(int mount_fd, int dir_fd, const char *name)
{
    cay_autoclose int target = cay_resolve_open_plain(dir_fd, name, O_PATH | O_DIRECTORY, 0);
    return target < 0 ? target : cay_mount_attach(mount_fd, target);
}

/* A part of /dev with flags of its own: only here may programs be run from. */
static int mount_shm(int dev_fd, uint32_t uid_base)
{
    if (fchownat(dev_fd, "shm", uid_base, uid_base, 0) < 0 || fchmodat(dev_fd, "shm", 01777, 0) < 0)
        return -errno;
    cay_autoclose int shm = cay_mount_clone(dev_fd, "shm", false);
    if (shm < 0)
        return shm;
    int result = cay_mount_set(shm, MOUNT_ATTR_NODEV, false);
    return result < 0 ? result : attach_at(shm, dev_fd, "shm");
}

/* One file system holds /dev, /dev/shm and /sys, and what hides parts of /proc: each would cost
 * time, and kernel memory in every control group of the host (mm/list_lru.c). */
static int mount_dev(const struct init *init, int root_fd, int *out_dev)
{
    char owner[16];
    char tty[16];
    char size[32];
    char files[32];
    uint32_t base = init->spec.uid_base;
    snprintf(owner, sizeof(owner), "%u", base);
    snprintf(tty, sizeof(tty), "%u", base + TTY_GID);
    snprintf(size, sizeof(size), "%llu", (unsigned long long)init->spec.shm_bytes);
    snprintf(files, sizeof(files), "%llu",
             DEV_FILES + (unsigned long long)init->spec.shm_bytes / SHM_FILE_BYTES);
    const struct cay_mount_option dev_options[] = {
        {"mode", "755"}, {"uid", owner}, {"gid", owner}, {"size", size}, {"nr_inodes", files}};
    cay_autoclose int dev =
        cay_mount_new("tmpfs", dev_options, CAY_COUNT(dev_options), MOUNT_ATTR_NOSUID);
    if (dev < 0)
        return dev;
    int result = make_nodes(dev, base);
    cay_autoclose int target = result == 0 ? open_mount_point(root_fd, "dev", base) : result;
    if (target < 0)
        return target;
    result = cay_mount_attach(dev, target);
    if (result == 0)
        result = mount_shm(dev, base);
    if (result == 0)
        result = cay_mount_set(dev, MOUNT_ATTR_NOEXEC, false);
    if (result < 0)
        return result;
    const struct cay_mount_option pts_options[] = {
        {"mode", "620"}, {"ptmxmode", "666"}, {"gid", tty}, {"max", "256"}};
    cay_autoclose int pts = cay_mount_new("devpts", pts_options, CAY_COUNT(pts_options),
                                          MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    result = pts < 0 ? pts : attach_at(pts, dev, "pts");
    if (result == 0)
        *out_dev = cay_take_fd(dev);
    return result;
}

enum {
    SHUT = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
};

/* Lays a copy of what `from` is over `name` in /proc, read-only: /sys is so already. A name this
 * kernel does not have needs no cover. */
static int cover(int proc_fd, const char *name, int from_fd, const char *from)
{
    cay_autoclose int target = openat(proc_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (target < 0)
        return errno == ENOENT ? 0 : -errno;
    cay_autoclose int copy = cay_mount_clone(from_fd, from, false);
    if (copy < 0)
        return copy;
    int result = from_fd == proc_fd ? cay_mount_set(copy, SHUT, false) : 0;
    if (result == 0)
        result = cay_mount_attach(copy, target);
    return result < 0 ? result : cay_mount_verify(proc_fd, name, from_fd);
}

/* A directory of /dev, which init goes on writing to (view.h) and nobody else can. Where the host
 * has control groups of version 2 only, the session's own lies in it. */
static int mount_sys(struct init *init, int root_fd, int dev_fd, int *out_shut)
{
    static const char name[] = ".sys";
    uint32_t base = init->spec.uid_base;
    cay_autoclose int groups_fd = cay_take_fd(init->view.cgroups_fd);
    int result = view_make_sys(&init->view, dev_fd, name, base + CAY_USERNS_COUNT - 1);
    cay_autoclose int sys = result == 0 ? cay_mount_clone(dev_fd, name, false) : result;
    if (sys < 0)
        return sys;
    cay_autoclose int target = open_mount_point(root_fd, "sys", base);
    if (target < 0)
        return target;
    result = cay_mount_set(sys, SHUT, false);
    if (result == 0)
        result = cay_mount_attach(sys, target);
    if (result == 0)
        result = cay_mount_verify(root_fd, "sys", dev_fd);
    if (result == 0 && groups_fd >= 0) {
        result = cay_mount_set(groups_fd, SHUT, false);
        if (result == 0)
            result = attach_at(groups_fd, sys, "fs/cgroup");
        if (result == 0)
            result = cay_mount_verify(sys, "fs/cgroup", groups_fd);
    }
    if (result == 0)
        *out_shut = cay_take_fd(sys);
    return result;
}

/* A random UUID, as the kernel has one for its own boot. Programs take it for the sign that
 * everything in memory is gone: a sandbox has one for as long as its init lives. */
int setup_boot_id(int dir_fd)
{
    static const char digits[] = "0123456789abcdef";
    static const char form[] = "xxxxxxxx-xxxx-4xxx-Nxxx-xxxxxxxxxxxx\n";
    uint8_t random[sizeof(form)];
    char text[sizeof(form)];
    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return -EIO;
    for (size_t i = 0; i < sizeof(form); i++) {
        text[i] = form[i];
        if (form[i] == 'x')
            text[i] = digits[random[i] % 16];
        else if (form[i] == 'N')
            text[i] = digits[8 + random[i] % 4];
    }
    cay_autoclose int file = openat(dir_fd, "boot_id", O_CREAT | O_WRONLY | O_CLOEXEC, 0444);
    if (file < 0)
        return -errno;
    return write(file, text, sizeof(text) - 1) < 0 ? -errno : 0;
}

/* The empty file hides files, the empty directory directories, the third is the number of this
 * boot, and the others say what the sandbox may have of the machine. They are in /sys until they
 * are laid over what they hide, without a name after that. */
static int make_masks(struct init *init, int proc_fd)
{
    int sys_fd = init->view.sys_fd;
    cay_autoclose int file = openat(sys_fd, "empty", O_CREAT | O_WRONLY | O_CLOEXEC, 0444);
    if (file < 0 || mkdirat(sys_fd, "none", 0555) < 0)
        return -errno;
    int result = setup_boot_id(sys_fd);
    return result < 0 ? result : view_make_files(&init->view, sys_fd, proc_fd);
}

static int drop_masks(int sys_fd)
{
    if (unlinkat(sys_fd, "empty", 0) < 0 || unlinkat(sys_fd, "none", AT_REMOVEDIR) < 0 ||
        unlinkat(sys_fd, "boot_id", 0) < 0)
        return -errno;
    for (int i = 0; i < VIEW_FILES; i++) {
        if (unlinkat(sys_fd, view_file_name(i), 0) < 0)
            return -errno;
    }
    return 0;
}

/* Most of this is closed already, because nobody in the sandbox is the host's root. It is closed
 * again, so that one wrong mode in the kernel is not enough. */
static int mask_proc(struct init *init, int proc_fd, int shut_fd)
{
    static const char *const read_only[] = {"sys", "sysrq-trigger", "irq", "bus", "fs"};
    static const char *const hidden_files[] = {
        "kcore", "keys", "kmsg", "timer_list", "kallsyms", "sched_debug", "latency_stats"};
    static const char *const hidden_dirs[] = {"acpi", "scsi"};
    int result = make_masks(init, proc_fd);
    for (size_t i = 0; i < CAY_COUNT(read_only) && result == 0; i++)
        result = cover(proc_fd, read_only[i], proc_fd, read_only[i]);
    for (size_t i = 0; i < CAY_COUNT(hidden_files) && result == 0; i++)
        result = cover(proc_fd, hidden_files[i], shut_fd, "empty");
    for (size_t i = 0; i < CAY_COUNT(hidden_dirs) && result == 0; i++)
        result = cover(proc_fd, hidden_dirs[i], shut_fd, "none");
    if (result == 0)
        result = cover(proc_fd, "sys/kernel/random/boot_id", shut_fd, "boot_id");
    for (int i = 0; i < VIEW_FILES && result == 0; i++)
        result = cover(proc_fd, view_file_name(i), shut_fd, view_file_name(i));
    return result < 0 ? result : drop_masks(init->view.sys_fd);
}

static int write_sysctl(int proc_fd, const char *name, const char *text)
{
    cay_autoclose int fd = openat(proc_fd, name, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

/* Any port can be bound without a capability, and ping works. */
static int set_network(int proc_fd, uint32_t uid_base)
{
    char range[32];
    snprintf(range, sizeof(range), "%u %u", uid_base, uid_base + CAY_USERNS_INNER_COUNT - 1);
    int result = cay_loopback_up();
    if (result == 0)
        result = write_sysctl(proc_fd, "sys/net/ipv4/ip_unprivileged_port_start", "0");
    (void)write_sysctl(proc_fd, "sys/net/ipv4/ping_group_range", range);
    return result;
}

/* Whoever makes a pid namespace mounts a /proc of its own, which the kernel allows only where one
 * without masks can be seen (mount_too_revealing() in fs/namespace.c). It is behind a door that
 * only the host's root could open. */
static int mount_whole_proc(int proc_fd, int dev_fd)
{
    if (mkdirat(dev_fd, ".nesting", 0700) < 0 || mkdirat(dev_fd, ".nesting/proc", 0700) < 0)
        return -errno;
    cay_autoclose int copy = cay_mount_clone(proc_fd, "", false);
    return copy < 0 ? copy : attach_at(copy, dev_fd, ".nesting/proc");
}

static int mount_proc(struct init *init, int root_fd, int dev_fd, int shut_fd, uint32_t *out_stage)
{
    cay_autoclose int proc =
        cay_mount_new("proc", NULL, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (proc < 0)
        return proc;
    cay_autoclose int target = open_mount_point(root_fd, "proc", init->spec.uid_base);
    if (target < 0)
        return target;
    int result = cay_mount_attach(proc, target);
    if (result < 0)
        return result;
    *out_stage = CAY_STAGE_NETWORK;
    result = set_network(proc, init->spec.uid_base);
    if (result < 0)
        return result;
    *out_stage = CAY_STAGE_PROC;
    init->limits_fd = openat(proc, "sys/user", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (init->spec.nesting)
        result = mount_whole_proc(proc, dev_fd);
    return result < 0 ? result : mask_proc(init, proc, shut_fd);
}

/* The session's tree over the host's, then everything else away. */
static int attach_root(int root_fd)
{
    int result = cay_mount_make_private();
    /* Device nodes of an image open nothing. Setuid files work: sudo needs them, and they can only
     * give a uid of this sandbox. */
    if (result == 0)
        result = cay_mount_set(root_fd, MOUNT_ATTR_NODEV, true);
    if (result < 0)
        return result;
    cay_autoclose int host_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (host_root < 0)
        return -errno;
    return cay_mount_attach(root_fd, host_root);
}

static int pivot(int root_fd)
{
    if (fchdir(root_fd) < 0)
        return -errno;
    return cay_mount_pivot_here();
}

/* How many namespaces can be made below ours, by the kernel's own count (namespaces(7)): besides
 * the filter, and for all. One user namespace is that of commands. */
static void limit_namespaces(struct init *init)
{
    static const char *const names[] = {
        "max_user_namespaces", "max_net_namespaces", "max_mnt_namespaces", "max_pid_namespaces",
        "max_ipc_namespaces",  "max_uts_namespaces", "max_time_namespaces"};
    size_t count = init->spec.nesting ? CAY_COUNT(names) : 1;
    for (size_t i = 0; i < count && init->limits_fd >= 0; i++)
        (void)write_sysctl(init->limits_fd, names[i], init->spec.nesting ? "257" : "1");
    cay_cleanup_close(&init->limits_fd);
}

/* Out of the host's root for good: the last id of the range in the outer namespace, which nobody in
 * the inner one can be. The memory of this process stays the host's, so no sandbox can look at it.
 */
static int drop_to_range(struct init *init, int userns_fd)
{
    const uint32_t init_id = CAY_USERNS_COUNT - 1;
    long result = cay_raw2(SYS_setns, userns_fd, CLONE_NEWUSER);
    if (result == 0)
        limit_namespaces(init);
    if (result == 0)
        result = cay_raw2(SYS_setgroups, 0, 0);
    if (result == 0)
        result = cay_raw3(SYS_setresgid, init_id, init_id, init_id);
    if (result == 0)
        result = cay_raw3(SYS_setresuid, init_id, init_id, init_id);
    close(userns_fd);
    if (result < 0)
        return (int)result;
    init->userns_fd = cay_userns_open_inner(CAY_USERNS_INNER_COUNT);
    return init->userns_fd < 0 ? init->userns_fd : 0;
}

int setup_namespaces(struct init *init, int root_fd, int userns_fd, uint32_t *out_stage)
{
    int result = root_fd < 0 || userns_fd < 0 ? -EPROTO : 0;
    cay_autoclose int dev_fd = -1;
    cay_autoclose int shut_fd = -1;
#define STEP(at, step)         \
    do {                       \
        if (result == 0) {     \
            *out_stage = (at); \
            result = (step);   \
        }                      \
    } while (0)
    STEP(CAY_STAGE_ROOT, attach_root(root_fd));
    STEP(CAY_STAGE_DEV, mount_dev(init, root_fd, &dev_fd));
    STEP(CAY_STAGE_SYS, mount_sys(init, root_fd, dev_fd, &shut_fd));
    STEP(CAY_STAGE_PROC, mount_proc(init, root_fd, dev_fd, shut_fd, out_stage));
    STEP(CAY_STAGE_PIVOT, pivot(root_fd));
    STEP(CAY_STAGE_HOSTNAME, sethostname(init->hostname, strlen(init->hostname)) < 0 ? -errno : 0);
    STEP(CAY_STAGE_USERNS, drop_to_range(init, userns_fd));
#undef STEP
    close(root_fd);
    return result;
}

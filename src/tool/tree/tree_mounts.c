/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "sys/pin.h"
#include "tool/tree/path.h"
#include "tool/tree/tree_internal.h"

/*
 * The mounts of a running sandbox: its /dev with /dev/shm, its /proc and its /sys. Whoever can
 * change a name there is as hostile as elsewhere, and two things are new. Devices must not be
 * opened, since opening is an act: everything is looked up first and opened by descriptor. And
 * /proc judges its readers by more than the mode of a file: it is read without any capability, also
 * for the sandbox's root, since what that one has inside counts for nothing in the host's own
 * files.
 *
 * What is more, much of /proc answers by the namespaces and the effective user of who reads, and
 * those are the daemon's: /proc/sys would tell the host's name and network, /proc/sysvipc its
 * shared memory, /proc/key-users its users. So of what belongs to no process of the sandbox only
 * those files are read that say the same to everybody.
 */

enum {
    PROC_FILE_BYTES_MAX = 16 * 1024 * 1024,
    CONTENT_WAIT_MS = 50,
};

#define ACROSS (RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)

bool cay_tree_is_mounted(struct cay_str path)
{
    static const char *const places[] = {"/dev", "/proc", "/sys"};
    for (size_t i = 0; i < CAY_COUNT(places); i++) {
        size_t len = strlen(places[i]);
        if (path.len >= len && memcmp(path.ptr, places[i], len) == 0 &&
            (path.len == len || path.ptr[len] == '/'))
            return true;
    }
    return false;
}

int cay_tree_keep_mount(const struct cay_tool_tree *tree, int parent_fd, const char *name)
{
    struct statx st;
    if (!tree->has_mounts ||
        statx(parent_fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, 0, &st) < 0)
        return 0;
    return st.stx_attributes & STATX_ATTR_MOUNT_ROOT ? -EBUSY : 0;
}

bool cay_tree_is_proc(int fd)
{
    struct statfs fs;
    return fstatfs(fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

static int look_up_bare(const struct cay_tool_tree *tree, const char *path, int flags)
{
    struct cay_tree_caps caps;
    int bare = cay_tree_bare(&caps);
    if (bare < 0)
        return bare;
    int fd = cay_tree_lookup(tree->root_fd, path, flags, ACROSS);
    cay_tree_unbare(&caps);
    return fd;
}

/* The sandbox's root may pass where it needs its capabilities for it, except in /proc. */
static int look_up(const struct cay_tool_tree *tree, const char *path, int flags)
{
    cay_autoclose int fd = look_up_bare(tree, path, flags);
    if (fd != -EACCES || tree->uid != 0)
        return cay_take_fd(fd);
    fd = cay_tree_lookup(tree->root_fd, path, flags, ACROSS);
    return fd >= 0 && cay_tree_is_proc(fd) ? -EACCES : cay_take_fd(fd);
}

static bool says_same_to_all(struct cay_str name, const struct stat *st)
{
    static const char *const names[] = {
        "buddyinfo",   "cgroups",    "cmdline", "cpuinfo", "crypto",  "devices", "diskstats",
        "filesystems", "interrupts", "loadavg", "meminfo", "misc",    "modules", "partitions",
        "softirqs",    "stat",       "swaps",   "uptime",  "version", "vmstat",  "zoneinfo",
    };
    for (size_t i = 0; i < CAY_COUNT(names); i++) {
        if (cay_str_is(name, names[i]))
            return st->st_mode & S_IROTH;
    }
    return false;
}

/* By the kernel's own word for where it is: /proc itself, what belongs to a process, or one of
 * those names. */
static bool may_read_proc(const struct cay_tool_tree *tree, int fd, const struct stat *st)
{
    struct cay_path top;
    struct cay_path path;
    cay_autoclose int top_fd =
        cay_tree_lookup(tree->root_fd, "proc", O_PATH | O_DIRECTORY, ACROSS | RESOLVE_NO_SYMLINKS);
    ssize_t top_len = top_fd < 0 ? top_fd : cay_pin_path(top_fd, top.bytes, sizeof(top.bytes));
    ssize_t len = cay_pin_path(fd, path.bytes, sizeof(path.bytes));
    if (top_len <= 0 || len < top_len || len >= (ssize_t)sizeof(path.bytes) ||
        memcmp(path.bytes, top.bytes, (size_t)top_len) != 0)
        return false;
    struct cay_str rest = {path.bytes + top_len, (size_t)(len - top_len)};
    if (!rest.len)
        return true;
    bool is_of_process = rest.len > 1 && rest.ptr[1] >= '1' && rest.ptr[1] <= '9';
    return rest.ptr[0] == '/' &&
           (is_of_process || says_same_to_all((struct cay_str){rest.ptr + 1, rest.len - 1}, st));
}

static int reopen(int fd, int flags)
{
    return cay_pin_reopen(fd, flags | O_NONBLOCK | O_NOCTTY);
}

static int reopen_proc(int fd, int flags)
{
    struct cay_tree_caps caps;
    if ((flags & O_ACCMODE) != O_RDONLY)
        return -EROFS;
    int opened = cay_tree_bare(&caps);
    if (opened < 0)
        return opened;
    opened = reopen(fd, flags);
    cay_tree_unbare(&caps);
    return opened;
}

/* Files that init lays over those of /proc get their content a moment after the sandbox has
 * started. What is to hide something stays empty. */
static void await_content(const char *path, int fd, struct stat *st)
{
    const struct timespec step = {.tv_nsec = 1'000'000};
    bool is_in_proc = strncmp(path, "/proc/", 6) == 0 || strncmp(path, "proc/", 5) == 0;
    for (int i = 0; i < CONTENT_WAIT_MS && is_in_proc && st->st_size == 0; i++) {
        (void)nanosleep(&step, NULL);
        if (fstat(fd, st) < 0)
            return;
    }
}

int cay_tree_cross(const struct cay_tool_tree *tree, const char *path, int flags)
{
    cay_autoclose int fd = look_up(tree, path, O_PATH | (flags & (O_NOFOLLOW | O_DIRECTORY)));
    struct stat st;
    if (fd < 0 || flags & O_PATH)
        return cay_take_fd(fd);
    if (fstat(fd, &st) < 0)
        return -errno;
    if (S_ISLNK(st.st_mode))
        return -ELOOP;
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return -ENXIO;
    if (!cay_tree_is_proc(fd)) {
        await_content(path, fd, &st);
        return reopen(fd, flags);
    }
    if ((flags & O_ACCMODE) == O_RDONLY && !may_read_proc(tree, fd, &st))
        return -EREMOTE;
    return reopen_proc(fd, flags);
}

static int copy_all(int from_fd, int to_fd, int64_t *out_len)
{
    char piece[16 * 1024];
    for (;;) {
        ssize_t got = read(from_fd, piece, sizeof(piece));
        if (got <= 0)
            return got < 0 ? -errno : 0;
        if (*out_len + got > PROC_FILE_BYTES_MAX)
            return -EFBIG;
        if (write(to_fd, piece, (size_t)got) != got)
            return -ENOSPC;
        *out_len += got;
    }
}

int cay_tree_copy_proc(int fd, struct stat *out_stat)
{
    cay_autoclose int copy_fd = memfd_create("proc", MFD_CLOEXEC);
    if (copy_fd < 0)
        return -errno;
    struct cay_tree_caps caps;
    int64_t len = 0;
    int copied = cay_tree_bare(&caps);
    if (copied < 0)
        return copied;
    copied = copy_all(fd, copy_fd, &len);
    cay_tree_unbare(&caps);
    if (copied < 0)
        return copied;
    if (lseek(copy_fd, 0, SEEK_SET) < 0)
        return -errno;
    out_stat->st_size = len;
    return cay_take_fd(copy_fd);
}

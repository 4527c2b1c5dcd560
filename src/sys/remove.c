/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/stop.h"

enum {
    /* Below this depth a directory is moved to the top before it is emptied, so that a tree of any
     * depth costs few descriptors and no stack. */
    REMOVE_DEPTH_MAX = 32,
    /* Where that cannot be, as with directories of a lower layer of overlayfs
     * (Documentation/filesystems/overlayfs.rst, "renaming directories"): a descriptor each.
     */
    REMOVE_OPEN_MAX = 512,
};

struct removal {
    int top_fd;
    unsigned long moved; /* names given at the top */
    uint64_t *budget;
};

static int spend(struct removal *removal)
{
    if (cay_stop_asked())
        return removal->budget ? -EAGAIN : -ECANCELED;
    if (!removal->budget)
        return 0;
    if (*removal->budget == 0)
        return -EAGAIN;
    --*removal->budget;
    return 0;
}

/* One name below a directory, nothing followed, no mount crossed. */
static int open_below(int dir_fd, const char *name, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS,
    };
    long fd = syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));
    return fd < 0 ? -errno : (int)fd;
}

static void cleanup_dir(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

static int remove_dir(struct removal *removal, int dir_fd, const char *name, int depth);

/* Two digits of noise in the name are enough: the caller's directory holds nothing else of it. */
static int move_up_and_remove(struct removal *removal, int dir_fd, const char *name, int depth)
{
    char moved[40];
    for (;;) {
        snprintf(moved, sizeof(moved), "deep-%d-%lu", (int)getpid(), removal->moved++);
        if (renameat2(dir_fd, name, removal->top_fd, moved, RENAME_NOREPLACE) == 0)
            return remove_dir(removal, removal->top_fd, moved, 1);
        if ((errno == EXDEV || errno == EINVAL) && depth < REMOVE_OPEN_MAX)
            return remove_dir(removal, dir_fd, name, depth + 1);
        if (errno != EEXIST)
            return -errno;
    }
}

static int remove_entry(struct removal *removal, int dir_fd, const struct dirent *entry, int depth)
{
    int rc = spend(removal);
    if (rc < 0)
        return rc;
    if (entry->d_type != DT_DIR) {
        if (unlinkat(dir_fd, entry->d_name, 0) == 0 || errno == ENOENT)
            return 0;
        if (errno != EISDIR)
            return -errno;
    }
    if (depth >= REMOVE_DEPTH_MAX)
        return move_up_and_remove(removal, dir_fd, entry->d_name, depth);
    return remove_dir(removal, dir_fd, entry->d_name, depth + 1);
}

static int remove_dir(struct removal *removal, int dir_fd, const char *name, int depth)
{
    cay_autoclose int fd = open_below(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    /* The position is that of `fd`; entries removed while reading are not a reason to reread. */
    cay_auto(cleanup_dir) DIR *dir = fdopendir(fd);
    if (!dir)
        return -errno;
    int own_fd = cay_take_fd(fd);
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            if (errno)
                return -errno;
            break;
        }
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        int rc = remove_entry(removal, own_fd, entry, depth);
        if (rc < 0)
            return rc;
    }
    return unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -errno;
}

int cay_remove_tree(int dir_fd, const char *name, uint64_t *budget)
{
    struct removal removal = {.top_fd = dir_fd, .budget = budget};
    if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR)
        return -errno;
    return remove_dir(&removal, dir_fd, name, 1);
}

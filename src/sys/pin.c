/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/pin.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The links of /proc/self/fd lead to what is open, whatever its name is now: they end there, also
 * at a symbolic link. Some calls take a descriptor that is O_PATH in no other way. */
enum { FD_PATH_BYTES = 32 };

static const char *fd_path(int fd, char out[static FD_PATH_BYTES])
{
    snprintf(out, FD_PATH_BYTES, "/proc/self/fd/%d", fd);
    return out;
}

int cay_pin_open(int dir_fd, const char *name)
{
    assert(*name && !strchr(name, '/'));
    int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int cay_pin_open_type(int dir_fd, const char *name, mode_t type)
{
    struct stat st;
    cay_autoclose int fd = cay_pin_open(dir_fd, name);
    if (fd < 0)
        return fd == -ENOENT ? -EAGAIN : cay_take_fd(fd);
    if (fstat(fd, &st) < 0)
        return -errno;
    return (st.st_mode & S_IFMT) == type ? cay_take_fd(fd) : -EAGAIN;
}

int cay_pin_make_dir(int dir_fd, const char *name, mode_t mode, uid_t uid, gid_t gid)
{
    assert(*name && !strchr(name, '/'));
    if (mkdirat(dir_fd, name, 0700) < 0)
        return -errno;
    cay_autoclose int fd = cay_pin_open_type(dir_fd, name, S_IFDIR);
    int rc = fd < 0 ? fd : cay_pin_chown(fd, uid, gid);
    return rc ? rc : cay_pin_chmod(fd, mode);
}

int cay_pin_chown(int fd, uid_t uid, gid_t gid)
{
    return fchownat(fd, "", uid, gid, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

int cay_pin_chmod(int fd, mode_t mode)
{
    char path[FD_PATH_BYTES];
    if (fchmod(fd, mode) == 0)
        return 0;
    if (errno != EBADF)
        return -errno;
    return chmod(fd_path(fd, path), mode) < 0 ? -errno : 0;
}

int cay_pin_set_times(int fd, const struct timespec times[2])
{
    return utimensat(fd, "", times, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

/* By /proc and not by AT_EMPTY_PATH, which asks for CAP_DAC_READ_SEARCH over the machine (linkat(2)
 * has both). */
int cay_pin_link(int fd, int dir_fd, const char *name)
{
    char path[FD_PATH_BYTES];
    int linked = linkat(AT_FDCWD, fd_path(fd, path), dir_fd, name, AT_SYMLINK_FOLLOW);
    return linked < 0 ? -errno : 0;
}

int cay_pin_reopen(int fd, int flags)
{
    char path[FD_PATH_BYTES];
    int opened = open(fd_path(fd, path), (flags & ~O_NOFOLLOW) | O_CLOEXEC);
    return opened < 0 ? -errno : opened;
}

ssize_t cay_pin_path(int fd, char *out, size_t size)
{
    char path[FD_PATH_BYTES];
    ssize_t len = readlink(fd_path(fd, path), out, size);
    return len < 0 ? -errno : len;
}

ssize_t cay_pin_list_xattrs(int fd, char *list, size_t size)
{
    char path[FD_PATH_BYTES];
    ssize_t len = flistxattr(fd, list, size);
    if (len < 0 && errno == EBADF)
        len = listxattr(fd_path(fd, path), list, size);
    return len < 0 ? -errno : len;
}

ssize_t cay_pin_get_xattr(int fd, const char *name, void *value, size_t size)
{
    char path[FD_PATH_BYTES];
    ssize_t len = fgetxattr(fd, name, value, size);
    if (len < 0 && errno == EBADF)
        len = getxattr(fd_path(fd, path), name, value, size);
    return len < 0 ? -errno : len;
}

int cay_pin_set_xattr(int fd, const char *name, const void *value, size_t size)
{
    char path[FD_PATH_BYTES];
    int rc = fsetxattr(fd, name, value, size, 0);
    if (rc < 0 && errno == EBADF)
        rc = setxattr(fd_path(fd, path), name, value, size, 0);
    return rc < 0 ? -errno : 0;
}

int cay_pin_watch(int inotify_fd, int fd, uint32_t mask)
{
    char path[FD_PATH_BYTES];
    int wd = inotify_add_watch(inotify_fd, fd_path(fd, path), mask);
    return wd < 0 ? -errno : wd;
}

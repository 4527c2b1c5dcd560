/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <sys/types.h>

#include "sys/raw.h"

/* From <sys/mount.h>, which clashes with <linux/mount.h> in some C libraries. */
enum { DETACH = 2 };

static int configure(int fs_fd, const struct cay_mount_option *option)
{
    unsigned int command = option->value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;
    return (int)cay_raw5(SYS_fsconfig, fs_fd, command, option->key, option->value, 0);
}

int cay_mount_new(const char *type, const struct cay_mount_option *options, size_t option_count,
                  unsigned int attr)
{
    cay_autoclose int fs_fd = (int)cay_raw2(SYS_fsopen, type, FSOPEN_CLOEXEC);
    if (fs_fd < 0)
        return fs_fd;
    int result = 0;
    for (size_t i = 0; i < option_count && result == 0; i++)
        result = configure(fs_fd, &options[i]);
    if (result == 0)
        result = (int)cay_raw5(SYS_fsconfig, fs_fd, FSCONFIG_CMD_CREATE, 0, 0, 0);
    if (result == 0)
        result = (int)cay_raw3(SYS_fsmount, fs_fd, FSMOUNT_CLOEXEC, attr);
    return result;
}

int cay_mount_clone(int dir_fd, const char *path, bool recursive)
{
    unsigned int flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH;
    if (recursive)
        flags |= AT_RECURSIVE;
    return (int)cay_raw3(SYS_open_tree, dir_fd, path, flags);
}

int cay_mount_attach(int mount_fd, int target_fd)
{
    return (int)cay_raw5(SYS_move_mount, mount_fd, "", target_fd, "",
                         MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
}

int cay_mount_set(int mount_fd, uint64_t attr_set, bool recursive)
{
    /* How access times are kept is one field of several bits: a new value needs the old one out
     * (mount_setattr(2), MOUNT_ATTR__ATIME). */
    struct mount_attr attr = {
        .attr_set = attr_set,
        .attr_clr = attr_set & MOUNT_ATTR__ATIME ? MOUNT_ATTR__ATIME : 0,
    };
    unsigned int flags = AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0);
    return (int)cay_raw5(SYS_mount_setattr, mount_fd, "", flags, &attr, sizeof(attr));
}

int cay_mount_set_idmap(int mount_fd, int userns_fd)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)userns_fd};
    return (int)cay_raw5(SYS_mount_setattr, mount_fd, "", AT_EMPTY_PATH, &attr, sizeof(attr));
}

int cay_mount_verify(int dir_fd, const char *name, int mount_fd)
{
    struct statx like = {};
    struct statx found = {};
    long result = cay_raw5(SYS_statx, mount_fd, "", AT_EMPTY_PATH, 0, &like);
    if (result == 0)
        result =
            cay_raw5(SYS_statx, dir_fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, 0, &found);
    if (result < 0)
        return (int)result;
    return found.stx_attributes & STATX_ATTR_MOUNT_ROOT &&
                   found.stx_dev_major == like.stx_dev_major &&
                   found.stx_dev_minor == like.stx_dev_minor
               ? 0
               : -EXDEV;
}

int cay_mount_make_private(void)
{
    enum { MS_REC_PRIVATE = (1 << 14) | (1 << 18) };
    return (int)cay_raw5(SYS_mount, 0, "/", 0, MS_REC_PRIVATE, 0);
}

/* Detaches the mount whose root is the working directory, which is "/" from then on. */
static int detach_here(void)
{
    long result = cay_raw2(SYS_umount2, ".", DETACH);
    if (result == 0)
        result = cay_raw1(SYS_chdir, "/");
    return (int)result;
}

int cay_mount_pivot_here(void)
{
    long result = cay_raw2(SYS_pivot_root, ".", ".");
    /* The old root now lies over the new one at the working directory (pivot_root(2), NOTES). */
    return result == 0 ? detach_here() : (int)result;
}

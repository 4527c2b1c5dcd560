/* SPDX-License-Identifier: Apache-2.0 */
#include <btrfsutil.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/store/btrfs/btrfs_internal.h"

static bool util_fail(struct cay_error *err, enum btrfs_util_error rc, const char *what)
{
    int number = errno;
    return cay_store_fail(err, number ? -number : -EIO, "%s: %s", what, btrfs_util_strerror(rc));
}

bool btrfs_make(struct cay_trees *trees, const char *id, struct cay_error *err)
{
    enum btrfs_util_error rc = btrfs_util_create_subvolume_fd(trees->trees_fd, id, 0, NULL, NULL);
    if (rc)
        return util_fail(err, rc, "make subvolume");
    cay_autoclose int fd = cay_trees_open_tree(trees, id);
    return (fd >= 0 && fchmod(fd, 0755) == 0) ||
           cay_store_fail(err, fd < 0 ? fd : -errno, "open subvolume to all");
}

bool btrfs_clone(struct cay_trees *trees, const char *from, const char *id, bool sealed,
                 struct cay_error *err)
{
    cay_autoclose int fd = cay_trees_open_tree(trees, from);
    if (fd < 0)
        return cay_store_fail(err, fd, "open subvolume");
    int flags = sealed ? BTRFS_UTIL_CREATE_SNAPSHOT_READ_ONLY : 0;
    enum btrfs_util_error rc =
        btrfs_util_create_snapshot_fd2(fd, trees->trees_fd, id, flags, NULL, NULL);
    return rc ? util_fail(err, rc, "snapshot subvolume") : true;
}

bool btrfs_seal(struct cay_trees *trees, const char *id, struct cay_error *err)
{
    cay_autoclose int fd = cay_trees_open_tree(trees, id);
    if (fd < 0)
        return cay_store_fail(err, fd, "open subvolume");
    enum btrfs_util_error rc = btrfs_util_set_subvolume_read_only_fd(fd, true);
    return rc ? util_fail(err, rc, "make subvolume read-only") : true;
}

/* The kernel frees the blocks behind our back. Inside may be subvolumes that a sandbox has made. */
int btrfs_remove(struct cay_trees *trees, const char *id, uint64_t *)
{
    enum { DEEP = BTRFS_UTIL_DELETE_SUBVOLUME_RECURSIVE };
    enum btrfs_util_error rc = btrfs_util_delete_subvolume_fd(trees->trees_fd, id, DEEP);
    if (rc && errno == EDQUOT) { /* taking away what is inside needs room, too */
        btrfs_leave_groups(trees, id);
        rc = btrfs_util_delete_subvolume_fd(trees->trees_fd, id, DEEP);
    }
    if (!rc)
        return 0;
    int number = errno;
    struct stat st;
    if (fstatat(trees->trees_fd, id, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        return 0;
    return number ? -number : -EIO;
}

/* Numbers of subvolumes grow: those that were deleted before the mark are not above it. The kernel
 * frees with the next transaction, which is asked for. */
bool btrfs_is_freed(struct cay_store *store, uint64_t *in_out_mark, bool *out_freed,
                    struct cay_error *err)
{
    int fd = cay_trees_of(store)->trees_fd;
    cay_autofree uint64_t *ids = NULL;
    size_t count = 0;
    enum btrfs_util_error rc = btrfs_util_start_sync_fd(fd, NULL);
    if (!rc)
        rc = btrfs_util_deleted_subvolumes_fd(fd, &ids, &count);
    if (rc)
        return util_fail(err, rc, "list deleted subvolumes");
    uint64_t lowest = UINT64_MAX;
    uint64_t highest = 1;
    for (size_t i = 0; i < count; i++) {
        lowest = CAY_MIN(lowest, ids[i]);
        highest = CAY_MAX(highest, ids[i]);
    }
    if (!*in_out_mark)
        *in_out_mark = highest;
    *out_freed = lowest > *in_out_mark;
    return true;
}

/*
 * The transaction of the last change of an inode, which the kernel keeps in memory and tells
 * without any I/O. A snapshot ends a transaction and writes out all dirty pages of its source
 * (create_snapshot() in fs/btrfs/ioctl.c), so whatever changes after it does so in a later one,
 * with two exceptions: content that is written but not on its way to the disk (btrfs_stamps_tell),
 * and a second store through a mapping within one tick of the clock, which changes no time. Hence
 * the wait until the tick of the last change is over. Access times are never kept, else looking
 * would be changing.
 */
bool btrfs_stamp(struct cay_trees *trees, const char *id, bool settle,
                 struct cay_tree_stamp *out_stamp, struct cay_error *err)
{
    struct btrfs_ioctl_get_subvol_info_args info = {};
    cay_autoclose int fd = cay_trees_open_tree(trees, id);
    if (fd < 0 || ioctl(fd, BTRFS_IOC_GET_SUBVOL_INFO, &info) < 0)
        return cay_store_fail(err, -errno, "ask about subvolume");
    if (settle)
        cay_trees_pass((int64_t)info.ctime.sec * 1'000'000'000 + info.ctime.nsec);
    *out_stamp = (struct cay_tree_stamp){{info.ctransid, info.treeid}};
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "host/store/btrfs/btrfs_internal.h"

/* Newer than the headers of the oldest supported distribution. */
enum { QUOTA_CTL_ENABLE_SIMPLE = 4 };

enum { FACT_SIZE = 24 };

static int subvolume_info(struct cay_trees *trees, const char *id,
                          struct btrfs_ioctl_get_subvol_info_args *out_info, int *out_fd)
{
    cay_autoclose int fd = cay_trees_open_tree(trees, id);
    if (fd < 0)
        return fd;
    if (ioctl(fd, BTRFS_IOC_GET_SUBVOL_INFO, out_info) < 0)
        return -errno;
    if (out_fd)
        *out_fd = cay_take_fd(fd);
    return 0;
}

/* One of the small texts that the kernel has about this file system; "" when there is none. */
static void read_fact(const struct cay_trees *trees, const char *name, char out[static FACT_SIZE])
{
    struct btrfs_ioctl_fs_info_args info = {};
    char path[128];
    int len = snprintf(path, sizeof(path), "/sys/fs/btrfs/");
    out[0] = '\0';
    if (ioctl(trees->root_fd, BTRFS_IOC_FS_INFO, &info) < 0)
        return;
    for (size_t i = 0; i < BTRFS_FSID_SIZE; i++)
        len += snprintf(path + len, sizeof(path) - (size_t)len, "%s%02x",
                        i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", info.fsid[i]);
    snprintf(path + len, sizeof(path) - (size_t)len, "/%s", name);
    cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, out, FACT_SIZE - 1);
    out[CAY_MAX(got, (ssize_t)0)] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

/* A write leaves the subvolume's books alone until it is on its way to the disk. Until then it has
 * space reserved, which is counted for the file system as a whole: none reserved, nothing waits. */
bool btrfs_stamps_tell(struct cay_trees *trees, const char *)
{
    char data[FACT_SIZE];
    char mixed[FACT_SIZE];
    read_fact(trees, "allocation/data/bytes_may_use", data);
    read_fact(trees, "allocation/mixed/bytes_may_use", mixed);
    return !strcmp(data, "0") && !mixed[0];
}

/* What kind of quotas is on: "squota", "qgroup" (the classic ones) or "". */
static void quota_mode(const struct cay_trees *trees, char out[static FACT_SIZE])
{
    read_fact(trees, "qgroups/mode", out);
}

bool btrfs_kernel_has_quota(void)
{
    return access("/sys/fs/btrfs/features/simple_quota", F_OK) == 0;
}

/* Classic quotas make every snapshot slow, and the slower the more there are; they are for whoever
 * turned them on. */
bool btrfs_has_quota(const struct cay_trees *trees)
{
    char mode[FACT_SIZE];
    quota_mode(trees, mode);
    if (mode[0])
        return !strcmp(mode, "squota");
    return btrfs_kernel_has_quota();
}

bool btrfs_limit(struct cay_trees *trees, const char *id, const char *, uint64_t bytes_max,
                 struct cay_error *err)
{
    char mode[FACT_SIZE];
    quota_mode(trees, mode);
    if (!mode[0] && bytes_max) {
        struct btrfs_ioctl_quota_ctl_args enable = {.cmd = QUOTA_CTL_ENABLE_SIMPLE};
        if (ioctl(trees->root_fd, BTRFS_IOC_QUOTA_CTL, &enable) < 0)
            return cay_fail_errno(err, CAY_R_NOT_SUPPORTED, -errno, "turn on simple quotas");
    } else if (!mode[0]) {
        return true;
    }
    struct btrfs_ioctl_get_subvol_info_args info = {};
    int rc = subvolume_info(trees, id, &info, NULL);
    if (rc < 0)
        return cay_store_fail(err, rc, "ask about subvolume");
    struct btrfs_ioctl_qgroup_limit_args limit = {
        .qgroupid = info.treeid,
        .lim = {.flags = BTRFS_QGROUP_LIMIT_MAX_RFER,
                .max_rfer = bytes_max ? bytes_max : UINT64_MAX},
    };
    return ioctl(trees->root_fd, BTRFS_IOC_QGROUP_LIMIT, &limit) == 0 ||
           cay_store_fail(err, -errno, "limit subvolume");
}

struct counting {
    uint64_t base_transid;
    struct cay_store_usage *usage;
};

/* Counts one item of a tree, when it is younger than the base. */
static void count_item(void *ctx, const struct btrfs_ioctl_search_header *header, const char *data)
{
    const struct counting *counting = ctx;
    struct cay_store_usage *usage = counting->usage;
    if (header->type == BTRFS_INODE_ITEM_KEY && header->len >= sizeof(struct btrfs_inode_item)) {
        struct btrfs_inode_item inode;
        memcpy(&inode, data, sizeof(inode));
        usage->entries += le64toh(inode.transid) > counting->base_transid;
    }
    size_t head = offsetof(struct btrfs_file_extent_item, disk_bytenr);
    if (header->type != BTRFS_EXTENT_DATA_KEY || header->len < head)
        return;
    struct btrfs_file_extent_item extent = {};
    memcpy(&extent, data, CAY_MIN((size_t)header->len, sizeof(extent)));
    if (le64toh(extent.generation) <= counting->base_transid)
        return;
    if (extent.type == BTRFS_FILE_EXTENT_INLINE)
        usage->own_bytes += header->len - head;
    else if (extent.disk_bytenr)
        usage->own_bytes += le64toh(extent.num_bytes);
}

/* Reads only the leaves of the subvolume that were written since the base was sealed. */
static int count_items(int fd, uint64_t base_transid, struct cay_store_usage *usage)
{
    struct counting counting = {base_transid, usage};
    const struct btrfs_ioctl_search_key key = {
        .min_objectid = BTRFS_FIRST_FREE_OBJECTID,
        .max_objectid = BTRFS_LAST_FREE_OBJECTID,
        .min_type = BTRFS_INODE_ITEM_KEY,
        .max_type = BTRFS_EXTENT_DATA_KEY,
        .max_offset = UINT64_MAX,
        .min_transid = base_transid + 1,
        .max_transid = UINT64_MAX,
    };
    return btrfs_search(fd, &key, count_item, &counting);
}

bool btrfs_measure(struct cay_trees *trees, const char *id, const char *base,
                   struct cay_store_usage *out_usage, struct cay_error *err)
{
    struct btrfs_ioctl_get_subvol_info_args below = {};
    struct btrfs_ioctl_get_subvol_info_args info = {};
    cay_autoclose int fd = -1;
    int rc = subvolume_info(trees, base, &below, NULL);
    if (!rc)
        rc = subvolume_info(trees, id, &info, &fd);
    if (!rc)
        rc = count_items(fd, below.ctransid, out_usage); /* see btrfs_changed */
    return rc == 0 || cay_store_fail(err, rc, "measure subvolume");
}

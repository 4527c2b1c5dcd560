/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "host/store/btrfs/btrfs_internal.h"

/* Newer than the headers of the oldest supported distribution. */
enum { QUOTA_CTL_ENABLE_SIMPLE = 4 };

enum { FACT_SIZE = 24 };

/* A level of groups that nobody else is likely to use; numbers have 48 bits. */
static const uint64_t group_level = 0xCA1;
static const uint64_t group_number_max = (UINT64_C(1) << BTRFS_QGROUP_LEVEL_SHIFT) - 1;

enum { SWEEP_AFTER = 64 }; /* trees that were given a limit */

int btrfs_subvolume_info(struct cay_trees *trees, const char *id,
                         struct btrfs_ioctl_get_subvol_info_args *out_info)
{
    cay_autoclose int fd = cay_trees_open_tree(trees, id);
    if (fd < 0)
        return fd;
    return ioctl(fd, BTRFS_IOC_GET_SUBVOL_INFO, out_info) < 0 ? -errno : 0;
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

static bool set_limit(const struct cay_trees *trees, uint64_t group, uint64_t bytes_max,
                      struct cay_error *err)
{
    struct btrfs_ioctl_qgroup_limit_args limit = {
        .qgroupid = group,
        .lim = {.flags = BTRFS_QGROUP_LIMIT_MAX_RFER,
                .max_rfer = bytes_max ? bytes_max : UINT64_MAX},
    };
    return ioctl(trees->root_fd, BTRFS_IOC_QGROUP_LIMIT, &limit) == 0 ||
           cay_store_fail(err, -errno, "limit subvolume");
}

/*
 * The group of a session: all subvolumes that it had and has. What one of them wrote counts there
 * as long as anything refers to it, also when the subvolume itself is gone (a rollback leaves it)
 * and only snapshots have its blocks. Subvolumes that are made inside of them join by themselves.
 */
static uint64_t group_of(const char *session_id)
{
    return group_level << BTRFS_QGROUP_LEVEL_SHIFT |
           (strtoull(session_id, NULL, 16) & group_number_max);
}

static int make_group(const struct cay_trees *trees, uint64_t group, bool is_there)
{
    struct btrfs_ioctl_qgroup_create_args create = {.create = is_there, .qgroupid = group};
    return ioctl(trees->root_fd, BTRFS_IOC_QGROUP_CREATE, &create) < 0 ? -errno : 0;
}

static int assign(const struct cay_trees *trees, uint64_t member, uint64_t group, bool is_member)
{
    struct btrfs_ioctl_qgroup_assign_args args = {is_member, member, group};
    return ioctl(trees->root_fd, BTRFS_IOC_QGROUP_ASSIGN, &args) < 0 ? -errno : 0;
}

/* A sweep may take away the new group that has no members yet; hence twice. */
static int join(const struct cay_trees *trees, uint64_t member, uint64_t group)
{
    int rc = -ENOENT;
    for (int i = 0; i < 2 && rc == -ENOENT; i++) {
        rc = make_group(trees, group, true);
        if (rc == 0 || rc == -EEXIST)
            rc = assign(trees, member, group, true);
    }
    return rc == -EEXIST ? 0 : rc;
}

bool btrfs_limit(struct cay_trees *trees, const struct cay_tree_limit *wanted,
                 struct cay_error *err)
{
    char mode[FACT_SIZE];
    quota_mode(trees, mode);
    if (!mode[0] && wanted->bytes_max) {
        struct btrfs_ioctl_quota_ctl_args enable = {.cmd = QUOTA_CTL_ENABLE_SIMPLE};
        if (ioctl(trees->root_fd, BTRFS_IOC_QUOTA_CTL, &enable) < 0)
            return cay_fail_errno(err, CAY_R_NOT_SUPPORTED, -errno, "turn on simple quotas");
    } else if (!mode[0]) {
        return true;
    }
    struct btrfs_ioctl_get_subvol_info_args info = {};
    uint64_t group = group_of(wanted->session_id);
    int rc = btrfs_subvolume_info(trees, wanted->id, &info);
    if (!rc)
        rc = join(trees, info.treeid, group);
    atomic_fetch_add(&btrfs_of(trees)->joined, 1);
    /* Earlier versions had the limit on the subvolume itself. */
    return (rc == 0 || cay_store_fail(err, rc, "put subvolume into a group")) &&
           set_limit(trees, info.treeid, 0, err) && set_limit(trees, group, wanted->bytes_max, err);
}

/* What the tree of quotas says of the groups of sessions. */
struct groups {
    uint64_t only_of; /* the relations of this member alone; 0: of all */
    struct relation {
        uint64_t member; /* 0: the group itself */
        uint64_t group;
    } * items;
    size_t count, cap;
};

static void note_group(void *ctx, const struct btrfs_ioctl_search_header *header, const char *)
{
    struct groups *groups = ctx;
    bool is_relation = header->type == BTRFS_QGROUP_RELATION_KEY;
    uint64_t member = is_relation ? header->objectid : 0;
    if ((!is_relation && header->type != BTRFS_QGROUP_INFO_KEY) ||
        btrfs_qgroup_level(header->offset) != group_level ||
        (groups->only_of && member != groups->only_of))
        return;
    if (groups->count == groups->cap) {
        groups->cap = CAY_MAX(groups->cap * 2, (size_t)64);
        groups->items = cay_realloc_array(groups->items, groups->cap, sizeof(*groups->items));
    }
    groups->items[groups->count++] = (struct relation){member, header->offset};
}

static int read_groups(const struct cay_trees *trees, struct groups *groups)
{
    const struct btrfs_ioctl_search_key key = {
        .tree_id = BTRFS_QUOTA_TREE_OBJECTID,
        .max_objectid = UINT64_MAX,
        .max_type = UINT8_MAX,
        .max_offset = UINT64_MAX,
        .max_transid = UINT64_MAX,
    };
    return btrfs_search(trees->root_fd, &key, note_group, groups);
}

/* A group goes with its last member, and a member when nothing has its blocks any more. The kernel
 * keeps books of both and refuses to forget what still counts (btrfs_remove_qgroup() in
 * fs/btrfs/qgroup.c): everything is tried, members first (the tree has the groups before them). */
void btrfs_sweep_groups(struct cay_trees *trees)
{
    struct groups groups = {};
    char mode[FACT_SIZE];
    quota_mode(trees, mode);
    if (!strcmp(mode, "squota"))
        (void)read_groups(trees, &groups);
    for (size_t i = groups.count; i > 0; i--) {
        const struct relation *item = &groups.items[i - 1];
        (void)make_group(trees, item->member ? item->member : item->group, false);
    }
    free(groups.items);
}

bool btrfs_collect(struct cay_store *store, uint64_t entries_max, bool *out_more,
                   struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    struct btrfs *btrfs = btrfs_of(trees);
    if (!cay_trees_collect(store, entries_max, out_more, err))
        return false;
    if (!*out_more && atomic_load(&btrfs->joined) >= SWEEP_AFTER) {
        atomic_store(&btrfs->joined, 0);
        btrfs_sweep_groups(trees);
    }
    return true;
}

void btrfs_leave_groups(struct cay_trees *trees, const char *id)
{
    struct btrfs_ioctl_get_subvol_info_args info = {};
    struct groups groups = {};
    if (btrfs_subvolume_info(trees, id, &info) < 0)
        return;
    groups.only_of = info.treeid;
    (void)read_groups(trees, &groups);
    for (size_t i = 0; i < groups.count; i++)
        (void)assign(trees, info.treeid, groups.items[i].group, false);
    free(groups.items);
}

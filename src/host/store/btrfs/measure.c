/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What subvolumes have beyond their base, read from the leaves that are younger than it; of
 * several, each block and each inode once. All snapshots that were taken of one subvolume lie on
 * one line: of each but the first only what is younger than the one before it is read. Where lines
 * part (a rollback) the first of each is read from the base on, and what was seen before is known
 * by its place on the disk.
 *
 * What is written and not yet on its way to the disk is in no leaf.
 */

#include <endian.h>
#include <errno.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/stop.h"
#include "host/store/btrfs/btrfs_internal.h"

enum { ITEM_BYTES = 25 }; /* a leaf has a key and a place for each item */

struct counting {
    uint64_t since; /* the transaction */
    struct cay_ino_set extents;
    struct cay_ino_set inodes;
    uint64_t ino; /* whose items are counted; 0: of none */
    uint64_t bytes, entries;
};

/* An inode that was changed in another transaction has been written anew. */
static uint64_t inode_key(uint64_t ino, uint64_t transid)
{
    uint64_t key = (ino * 0x9E3779B97F4A7C15) ^ transid;
    return key ? key : 1;
}

/* Those without a name are found where they are open (sys/hidden_files). */
static void count_inode(struct counting *counting, const struct btrfs_ioctl_search_header *header,
                        const char *data)
{
    struct btrfs_inode_item inode;
    memcpy(&inode, data, sizeof(inode));
    uint64_t transid = le64toh(inode.transid);
    bool is_new = transid > counting->since && inode.nlink &&
                  cay_ino_set_add(&counting->inodes, inode_key(header->objectid, transid));
    counting->ino = is_new ? header->objectid : 0;
    counting->entries += is_new;
}

static void count_extent(struct counting *counting, const struct btrfs_ioctl_search_header *header,
                         const char *data)
{
    struct btrfs_file_extent_item extent = {};
    memcpy(&extent, data, CAY_MIN((size_t)header->len, sizeof(extent)));
    if (extent.type == BTRFS_FILE_EXTENT_INLINE || !extent.disk_bytenr ||
        le64toh(extent.generation) <= counting->since)
        return;
    if (cay_ino_set_add(&counting->extents, le64toh(extent.disk_bytenr)))
        counting->bytes += le64toh(extent.disk_num_bytes);
}

/* Attributes, names, targets of links and small files are items of their inode. */
static void count_item(void *ctx, const struct btrfs_ioctl_search_header *header, const char *data)
{
    struct counting *counting = ctx;
    if (header->type == BTRFS_INODE_ITEM_KEY && header->len >= sizeof(struct btrfs_inode_item))
        count_inode(counting, header, data);
    if (header->objectid == counting->ino)
        counting->bytes += header->len + ITEM_BYTES;
    if (header->type == BTRFS_EXTENT_DATA_KEY &&
        header->len >= offsetof(struct btrfs_file_extent_item, disk_bytenr))
        count_extent(counting, header, data);
}

static int count_tree(struct cay_trees *trees, const char *id, uint64_t since,
                      struct counting *counting)
{
    cay_autoclose int fd = cay_trees_open_tree(trees, id);
    const struct btrfs_ioctl_search_key key = {
        .min_objectid = BTRFS_FIRST_FREE_OBJECTID,
        .max_objectid = BTRFS_LAST_FREE_OBJECTID,
        .min_type = BTRFS_INODE_ITEM_KEY,
        .max_type = BTRFS_EXTENT_DATA_KEY,
        .max_offset = UINT64_MAX,
        .min_transid = since + 1,
        .max_transid = UINT64_MAX,
    };
    counting->since = since;
    counting->ino = 0;
    return fd < 0 ? fd : btrfs_search(fd, &key, count_item, counting);
}

/* A snapshot of a session, with what is read of it. */
struct member {
    const char *id;
    uint8_t source[BTRFS_UUID_SIZE]; /* the subvolume that it was taken of */
    uint64_t taken_in;               /* a transaction */
};

static int by_line(const void *left, const void *right)
{
    const struct member *a = left;
    const struct member *b = right;
    int order = memcmp(a->source, b->source, BTRFS_UUID_SIZE);
    return order ? order : a->taken_in < b->taken_in ? -1 : a->taken_in > b->taken_in;
}

static size_t read_members(struct cay_trees *trees, const struct cay_tree_group *group,
                           struct member *out)
{
    size_t count = 0;
    for (size_t i = 0; i < group->other_count; i++) {
        struct btrfs_ioctl_get_subvol_info_args info = {};
        if (btrfs_subvolume_info(trees, group->others[i], &info) < 0)
            continue;
        out[count] = (struct member){.id = group->others[i], .taken_in = info.otransid};
        memcpy(out[count++].source, info.parent_uuid, BTRFS_UUID_SIZE);
    }
    if (count)
        qsort(out, count, sizeof(*out), by_line);
    return count;
}

static int count_group(struct cay_trees *trees, const struct cay_tree_group *group,
                       struct counting *counting, struct cay_store_usage *out_usage)
{
    struct btrfs_ioctl_get_subvol_info_args base = {};
    int rc = btrfs_subvolume_info(trees, group->base, &base);
    uint64_t from = base.ctransid; /* see btrfs_changed */
    if (!rc)
        rc = count_tree(trees, group->id, from, counting);
    out_usage->own_bytes = counting->bytes;
    out_usage->entries = counting->entries;
    cay_autofree struct member *members = cay_alloc((group->other_count + 1) * sizeof(*members));
    size_t count = read_members(trees, group, members);
    for (size_t i = 0; i < count && !rc; i++) {
        bool goes_on = i && !memcmp(members[i].source, members[i - 1].source, BTRFS_UUID_SIZE);
        uint64_t since = goes_on ? members[i - 1].taken_in : from;
        rc = cay_stop_asked() ? -ECANCELED : count_tree(trees, members[i].id, since, counting);
    }
    out_usage->history_bytes = counting->bytes - out_usage->own_bytes;
    out_usage->history_entries = counting->entries - out_usage->entries;
    return rc;
}

bool btrfs_measure(struct cay_trees *trees, const struct cay_tree_group *group,
                   struct cay_store_usage *out_usage, struct cay_error *err)
{
    struct counting counting = {};
    out_usage->is_behind = !btrfs_stamps_tell(trees, group->id);
    int rc = count_group(trees, group, &counting, out_usage);
    cay_ino_set_finish(&counting.extents);
    cay_ino_set_finish(&counting.inodes);
    return rc == 0 || cay_store_fail(err, rc, "measure subvolume");
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What was changed in two subvolumes since they were one. Every snapshot knows the uuid of its
 * source and the transaction it was taken in; every inode the transaction of its last change. The
 * nearest subvolume that both descend from, and the earlier of the two transactions in which they
 * left it, is where they were one; the leaves that are younger are the change.
 */

#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "base/stop.h"
#include "host/store/btrfs/btrfs_internal.h"
#include "host/store/dir_list.h"

enum {
    SEARCH_BYTES = 64 * 1024,
    ANCESTORS_MAX = 512, /* ancestors looked at */
};

int btrfs_search(int fd, const struct btrfs_ioctl_search_key *wanted, btrfs_item_fn *visit,
                 void *ctx)
{
    cay_autofree struct btrfs_ioctl_search_args_v2 *args = cay_alloc(sizeof(*args) + SEARCH_BYTES);
    struct btrfs_ioctl_search_key key = *wanted;
    for (;;) {
        if (cay_stop_asked())
            return -ECANCELED;
        args->key = key;
        args->key.nr_items = UINT32_MAX;
        args->buf_size = SEARCH_BYTES;
        if (ioctl(fd, BTRFS_IOC_TREE_SEARCH_V2, args) < 0)
            return -errno;
        if (args->key.nr_items == 0)
            return 0;
        const char *at = (const char *)args->buf;
        struct btrfs_ioctl_search_header header = {};
        for (uint32_t i = 0; i < args->key.nr_items; i++) {
            memcpy(&header, at, sizeof(header));
            visit(ctx, &header, at + sizeof(header));
            at += sizeof(header) + header.len;
        }
        key.min_objectid = header.objectid;
        key.min_type = header.type;
        key.min_offset = header.offset + 1;
        if (key.min_offset == 0 && ++key.min_type > UINT8_MAX) {
            key.min_type = 0;
            key.min_objectid++;
        }
    }
}

/* One step of a line of descent: a subvolume, and the transaction after which the line is its own.
 */
struct step {
    uint8_t uuid[BTRFS_UUID_SIZE];
    uint64_t left_in;
};

struct line {
    struct step steps[ANCESTORS_MAX];
    size_t count;
};

/* All subvolumes of the store, for finding one by uuid. */
struct family {
    struct btrfs_ioctl_get_subvol_info_args *members;
    size_t count;
};

static int read_family(struct cay_trees *trees, struct family *family)
{
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    int rc = cay_dir_list_read(&names, trees->trees_fd);
    if (rc < 0)
        return rc;
    family->members = cay_alloc((names.count + 1) * sizeof(*family->members));
    for (size_t i = 0; i < names.count; i++) {
        /* One that is removed meanwhile is in nobody's line any more. */
        if (btrfs_subvolume_info(trees, cay_dir_list_name(&names, i),
                                 &family->members[family->count]) == 0)
            family->count++;
    }
    return 0;
}

static const struct btrfs_ioctl_get_subvol_info_args *find_member(const struct family *family,
                                                                  const uint8_t *uuid)
{
    for (size_t i = 0; i < family->count; i++) {
        if (!memcmp(family->members[i].uuid, uuid, BTRFS_UUID_SIZE))
            return &family->members[i];
    }
    return NULL;
}

static void follow_line(const struct family *family,
                        const struct btrfs_ioctl_get_subvol_info_args *info, struct line *line)
{
    static const uint8_t none[BTRFS_UUID_SIZE];
    line->steps[0].left_in = UINT64_MAX;
    memcpy(line->steps[0].uuid, info->uuid, BTRFS_UUID_SIZE);
    line->count = 1;
    while (info && line->count < ANCESTORS_MAX && memcmp(info->parent_uuid, none, sizeof(none))) {
        struct step *step = &line->steps[line->count++];
        memcpy(step->uuid, info->parent_uuid, BTRFS_UUID_SIZE);
        step->left_in = info->otransid;
        info = find_member(family, info->parent_uuid);
    }
}

/* The transaction up to which two subvolumes are one; 0 when they are not known to have been. */
static uint64_t shared_until(const struct line *a, const struct line *b)
{
    for (size_t i = 0; i < a->count; i++) {
        for (size_t j = 0; j < b->count; j++) {
            if (!memcmp(a->steps[i].uuid, b->steps[j].uuid, BTRFS_UUID_SIZE))
                return CAY_MIN(a->steps[i].left_in, b->steps[j].left_in);
        }
    }
    return 0;
}

static uint64_t find_shared(struct cay_trees *trees, const char *from, const char *to,
                            const char *base)
{
    struct btrfs_ioctl_get_subvol_info_args from_info = {};
    struct btrfs_ioctl_get_subvol_info_args to_info = {};
    struct btrfs_ioctl_get_subvol_info_args base_info = {};
    if (btrfs_subvolume_info(trees, from, &from_info) < 0 ||
        btrfs_subvolume_info(trees, to, &to_info) < 0 ||
        btrfs_subvolume_info(trees, base, &base_info) < 0)
        return 0;
    struct family family = {};
    cay_autofree struct line *lines = cay_alloc(2 * sizeof(*lines));
    uint64_t shared = 0;
    if (read_family(trees, &family) == 0) {
        follow_line(&family, &from_info, &lines[0]);
        follow_line(&family, &to_info, &lines[1]);
        shared = shared_until(&lines[0], &lines[1]);
    }
    free(family.members);
    /* A line may be broken where a subvolume is gone; both begin at the base, which is not. Its
     * generation would be too young: that changes whenever it is cloned. */
    return shared ? shared : base_info.ctransid;
}

struct scan {
    int fd;
    uint64_t shared;
    struct cay_diff_touched *touched;
    struct cay_ino_set *above; /* of this tree: whose parents are noted */
    uint64_t *todo;            /* inodes whose parents are to be noted */
    size_t count, cap;
    bool is_to;
};

static void touch(struct scan *scan, uint64_t ino)
{
    cay_ino_set_add(&scan->touched->inodes, ino);
    if (!cay_ino_set_add(scan->above, ino))
        return;
    if (scan->count == scan->cap) {
        scan->cap = CAY_MAX(scan->cap * 2, (size_t)64);
        scan->todo = cay_realloc_array(scan->todo, scan->cap, sizeof(*scan->todo));
    }
    scan->todo[scan->count++] = ino;
}

static void note_inode(void *ctx, const struct btrfs_ioctl_search_header *header, const char *data)
{
    struct scan *scan = ctx;
    struct btrfs_inode_item inode;
    if (header->type != BTRFS_INODE_ITEM_KEY || header->len < sizeof(inode))
        return;
    memcpy(&inode, data, sizeof(inode));
    if (le64toh(inode.transid) <= scan->shared)
        return;
    touch(scan, header->objectid);
    if (scan->is_to && le64toh(inode.generation) <= scan->shared)
        cay_ino_set_add(&scan->touched->moved, header->objectid);
}

static void note_parents(void *ctx, const struct btrfs_ioctl_search_header *header,
                         const char *data)
{
    struct scan *scan = ctx;
    if (header->type == BTRFS_INODE_REF_KEY)
        touch(scan, header->offset);
    for (size_t at = 0; header->type == BTRFS_INODE_EXTREF_KEY &&
                        at + sizeof(struct btrfs_inode_extref) <= header->len;) {
        struct btrfs_inode_extref ref;
        memcpy(&ref, data + at, sizeof(ref));
        touch(scan, le64toh(ref.parent_objectid));
        at += sizeof(ref) + le16toh(ref.name_len);
    }
}

static bool scan_tree(struct cay_trees *trees, const char *id, uint64_t shared, bool is_to,
                      struct cay_diff_touched *touched)
{
    struct cay_ino_set above = {};
    cay_autoclose int fd = cay_trees_open_tree(trees, id);
    struct scan scan = {
        .fd = fd, .shared = shared, .touched = touched, .above = &above, .is_to = is_to};
    struct btrfs_ioctl_search_key key = {
        .min_objectid = BTRFS_FIRST_FREE_OBJECTID,
        .max_objectid = BTRFS_LAST_FREE_OBJECTID,
        .max_type = BTRFS_INODE_ITEM_KEY,
        .min_type = BTRFS_INODE_ITEM_KEY,
        .max_offset = UINT64_MAX,
        .min_transid = shared + 1,
        .max_transid = UINT64_MAX,
    };
    int rc = fd < 0 ? fd : btrfs_search(fd, &key, note_inode, &scan);
    while (rc == 0 && scan.count) {
        uint64_t ino = scan.todo[--scan.count];
        struct btrfs_ioctl_search_key parents = {
            .min_objectid = ino,
            .max_objectid = ino,
            .min_type = BTRFS_INODE_REF_KEY,
            .max_type = BTRFS_INODE_EXTREF_KEY,
            .max_offset = UINT64_MAX,
            .max_transid = UINT64_MAX,
        };
        rc = btrfs_search(fd, &parents, note_parents, &scan);
    }
    free(scan.todo);
    cay_ino_set_finish(&above);
    return rc == 0;
}

static bool path_of(int from_fd, uint64_t ino, char *out_path)
{
    cay_autofree struct btrfs_ioctl_ino_lookup_args *args = cay_alloc(sizeof(*args));
    args->objectid = ino;
    if (ioctl(from_fd, BTRFS_IOC_INO_LOOKUP, args) < 0)
        return false;
    size_t len = strnlen(args->name, sizeof(args->name));
    if (len < 2 || len >= PATH_MAX)
        return false;
    snprintf(out_path, PATH_MAX, "%.*s", (int)(len - 1), args->name); /* it ends in a slash */
    return true;
}

bool btrfs_changed(struct cay_trees *trees, const char *from, const char *to, const char *base,
                   struct cay_diff_touched *out_touched)
{
    uint64_t shared = find_shared(trees, from, to, base);
    if (!shared)
        return false;
    out_touched->path_of = path_of;
    /* Up to now: nothing is younger. */
    return shared == UINT64_MAX || (scan_tree(trees, from, shared, false, out_touched) &&
                                    scan_tree(trees, to, shared, true, out_touched));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host/store/zfs/zfs_internal.h"

enum {
    BUSY_MS_MAX = 10'000, /* a dataset is busy for a moment after its last user is gone */
    BUSY_NS = 2'000'000,
};

struct names {
    char dataset[ZFS_NAME_SIZE];
    char mountpoint[PATH_MAX + 32]; /* as an option */
};

static struct zfs *zfs_of(const struct cay_trees *trees)
{
    return trees->own;
}

static void name_dataset(const struct zfs *zfs, const char *id, char out[static ZFS_NAME_SIZE])
{
    snprintf(out, ZFS_NAME_SIZE, "%s/%s", zfs->root, id);
}

static void name_tree(const struct zfs *zfs, const char *id, struct names *out)
{
    name_dataset(zfs, id, out->dataset);
    snprintf(out->mountpoint, sizeof(out->mountpoint), "mountpoint=%s/t/%s", zfs->directory, id);
}

bool zfs_make(struct cay_trees *trees, const char *id, struct cay_error *err)
{
    struct zfs *zfs = zfs_of(trees);
    struct names names;
    name_tree(zfs, id, &names);
    const struct zfs_args args = {{"zfs", "create", "-o", names.mountpoint, names.dataset}};
    if (!zfs_call(&args, NULL, err))
        return false;
    zfs_family_add(zfs, id);
    cay_autoclose int fd = cay_trees_open_tree(trees, id);
    return (fd >= 0 && fchmod(fd, 0755) == 0) ||
           cay_store_fail(err, fd < 0 ? fd : -errno, "open dataset to all");
}

static bool clone_image(struct zfs *zfs, const char *holder, const char *image, const char *id,
                        bool sealed, struct cay_error *err)
{
    struct names names;
    char snapshot[2 * ZFS_NAME_SIZE];
    name_tree(zfs, id, &names);
    snprintf(snapshot, sizeof(snapshot), "%s/%s@%s", zfs->root, holder, image);
    const struct zfs_args clone = {{"zfs", "clone", "-o", names.mountpoint, "-o",
                                    sealed && !zfs->is_fuse ? "readonly=on" : "readonly=off", "-o",
                                    sealed ? ZFS_SEALED "=on" : ZFS_SEALED "=off", snapshot,
                                    names.dataset}};
    return zfs_call(&clone, NULL, err);
}

/* The snapshot between the two is there as long as a clone needs it. */
static bool clone_anew(struct zfs *zfs, const char *from, const char *id, bool sealed,
                       struct cay_error *err)
{
    char snapshot[2 * ZFS_NAME_SIZE];
    snprintf(snapshot, sizeof(snapshot), "%s/%s@%s", zfs->root, from, id);
    if (!zfs_call(&(struct zfs_args){{"zfs", "snapshot", snapshot}}, NULL, err))
        return false;
    bool ok = clone_image(zfs, from, id, id, sealed, err);
    if (ok)
        zfs_family_add_clone(zfs, id, from, id, sealed);
    struct cay_error ignored;
    (void)zfs_call(&(struct zfs_args){{"zfs", "destroy", "-d", snapshot}}, NULL, &ignored);
    return ok;
}

bool zfs_clone(struct cay_trees *trees, const char *from, const char *id, bool sealed,
               struct cay_error *err)
{
    struct zfs *zfs = zfs_of(trees);
    char image[CAY_STORE_ID_SIZE];
    char holder[CAY_STORE_ID_SIZE];
    struct cay_error ignored;
    /* It may have gone with its last clone, or to another tree, this moment. */
    if (zfs_family_image(zfs, from, image, holder) &&
        clone_image(zfs, holder, image, id, sealed, &ignored)) {
        zfs_family_add_clone(zfs, id, from, image, sealed);
        return true;
    }
    /* Pages that are dirty in a mapping are known to the kernel alone. */
    cay_autoclose int fd = cay_trees_open_tree(trees, from);
    if (fd < 0 || syncfs(fd) < 0)
        return cay_store_fail(err, fd < 0 ? fd : -errno, "sync tree");
    return clone_anew(zfs, from, id, sealed, err);
}

bool zfs_seal(struct cay_trees *trees, const char *id, struct cay_error *err)
{
    struct zfs *zfs = zfs_of(trees);
    char dataset[ZFS_NAME_SIZE];
    name_dataset(zfs, id, dataset);
    const struct zfs_args set = {{"zfs", "set", "readonly=on", dataset}};
    if (!zfs->is_fuse && !zfs_call(&set, NULL, err))
        return false;
    zfs_family_seal(zfs, id);
    return true;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

/* What is not mounted is fine. */
static bool unmount(const struct zfs *zfs, const char *id, struct cay_error *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/t/%s", zfs->directory, id);
    return umount2(path, UMOUNT_NOFOLLOW) == 0 || errno == EINVAL || errno == ENOENT ||
           cay_store_fail(err, -errno, "unmount tree");
}

/* One that others were cloned from first hands its snapshots over to one of them. */
static bool remove_dataset(struct zfs *zfs, const char *id, struct cay_error *err)
{
    char dataset[ZFS_NAME_SIZE];
    char heir_id[CAY_STORE_ID_SIZE];
    if (!unmount(zfs, id, err))
        return false;
    if (zfs_family_heir(zfs, id, heir_id)) {
        name_dataset(zfs, heir_id, dataset);
        if (!zfs_call(&(struct zfs_args){{"zfs", "promote", dataset}}, NULL, err))
            return false;
        zfs_family_promoted(zfs, id, heir_id);
    }
    name_dataset(zfs, id, dataset);
    return zfs_call(&(struct zfs_args){{"zfs", "destroy", "-r", dataset}}, NULL, err);
}

/* One that somebody holds after all (-EBUSY) is tried again with the next collection. */
int zfs_remove(struct cay_trees *trees, const char *id, uint64_t *)
{
    struct zfs *zfs = zfs_of(trees);
    struct cay_error err = {};
    const struct timespec nap = {.tv_nsec = BUSY_NS};
    int64_t until_ms = now_ms() + BUSY_MS_MAX;
    while (!remove_dataset(zfs, id, &err)) {
        if (err.sys_errno != EBUSY && zfs_family_read(zfs, false, &err) && !zfs_family_has(zfs, id))
            break;
        if (now_ms() > until_ms)
            return -EBUSY;
        nanosleep(&nap, NULL);
    }
    zfs_family_remove(zfs, id);
    return unlinkat(trees->trees_fd, id, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -errno;
}

/* One answer a line, in the order of the question. */
static bool read_properties(const char *properties, const char *dataset, struct cay_buf *out,
                            struct cay_error *err)
{
    const struct zfs_args get = {{"zfs", "get", "-H", "-p", "-o", "value", properties, dataset}};
    if (!zfs_call(&get, out, err))
        return false;
    cay_buf_append_byte(out, '\0');
    return !out->failed || cay_fail(err, CAY_R_STORE_FAILED,
                                    "zfs printed more about '%s' than can be read", properties);
}

static bool parse_number(char **text, uint64_t *out_number)
{
    char *end = NULL;
    *out_number = strtoull(*text, &end, 10);
    if (end == *text || *end != '\n')
        return false;
    *text = end + 1;
    return true;
}

static bool read_numbers(const char *properties, const char *dataset, uint64_t *out_numbers,
                         size_t count, struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, 4096);
    if (!read_properties(properties, dataset, &text, err))
        return false;
    char *next = text.data;
    for (size_t i = 0; i < count; i++) {
        if (!parse_number(&next, &out_numbers[i]))
            return cay_fail(err, CAY_R_STORE_FAILED, "zfs does not say what '%s' is", properties);
    }
    return true;
}

/* Whether the tree was cloned from what `last` shows, has no snapshot of its own yet and was not
 * written to. */
static bool is_fresh_clone_of(struct zfs *zfs, const char *id, const char *last)
{
    char dataset[ZFS_NAME_SIZE];
    char wanted[CAY_STORE_ID_SIZE + 16];
    char image[CAY_STORE_ID_SIZE];
    struct cay_error ignored;
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, 4096);
    if (!zfs_family_common(zfs, id, last, image))
        return false;
    name_dataset(zfs, id, dataset);
    snprintf(wanted, sizeof(wanted), "@%s\n0\n0\n", image);
    if (!read_properties("origin,usedbysnapshots,written", dataset, &text, &ignored))
        return false;
    const char *at = strchr(text.data, '@');
    return at && !strcmp(at, wanted);
}

/* Nothing was written since the snapshot between the two was taken, whichever was cloned from the
 * other. What is not on the disk yet is not counted: it is brought there. */
bool zfs_is_same(struct cay_trees *trees, const char *id, const char *last)
{
    struct zfs *zfs = zfs_of(trees);
    char dataset[ZFS_NAME_SIZE];
    char property[64];
    uint64_t written = 1;
    struct cay_error ignored;
    if (!zfs->tells_written)
        return false;
    cay_autoclose int fd = cay_trees_open_tree(trees, id);
    if (fd < 0 || syncfs(fd) < 0)
        return false;
    name_dataset(zfs, id, dataset);
    snprintf(property, sizeof(property), "written@%s", last);
    if (read_numbers(property, dataset, &written, 1, &ignored))
        return written == 0;
    return is_fresh_clone_of(zfs, id, last);
}

/* What is seen in the dataset is limited, not what it keeps alive: one with a limit on that could
 * not take over the snapshots of a dataset that goes. */
bool zfs_limit(struct cay_trees *trees, const struct cay_tree_limit *wanted, struct cay_error *err)
{
    char dataset[ZFS_NAME_SIZE];
    char below[ZFS_NAME_SIZE];
    char quota[48] = "refquota=none";
    uint64_t base_bytes = 0;
    const struct zfs *zfs = zfs_of(trees);
    name_dataset(zfs, wanted->id, dataset);
    name_dataset(zfs, wanted->base, below);
    if (wanted->bytes_max) {
        if (!read_numbers("referenced", below, &base_bytes, 1, err))
            return false;
        snprintf(quota, sizeof(quota), "refquota=%" PRIu64, base_bytes + wanted->bytes_max);
    }
    return zfs_call(&(struct zfs_args){{"zfs", "set", quota, dataset}}, NULL, err);
}

/* What the datasets would free, with the snapshots that they have taken over. */
static bool add_used(const struct zfs *zfs, const char *const *ids, size_t count,
                     uint64_t *in_out_bytes, struct cay_error *err)
{
    enum { AT_ONCE = 32 };
    char names[AT_ONCE][ZFS_NAME_SIZE];
    for (size_t first = 0; first < count; first += AT_ONCE) {
        struct zfs_args get = {
            {"zfs", "get", "-H", "-p", "-o", "value", "usedbydataset,usedbysnapshots"}};
        size_t some = CAY_MIN(count - first, (size_t)AT_ONCE);
        static_assert(AT_ONCE + 8 <= ZFS_ARGS_MAX, "");
        for (size_t i = 0; i < some; i++) {
            name_dataset(zfs, ids[first + i], names[i]);
            get.argv[7 + i] = names[i];
        }
        cay_auto(cay_buf_finish) struct cay_buf text;
        cay_buf_init(&text, 4096);
        if (!zfs_call(&get, &text, err))
            return false;
        cay_buf_append_byte(&text, '\0');
        char *next = text.failed ? NULL : text.data;
        for (size_t i = 0; i < 2 * some; i++) {
            uint64_t bytes;
            if (!next || !parse_number(&next, &bytes))
                return cay_fail(err, CAY_R_STORE_FAILED, "zfs does not say how much is used");
            *in_out_bytes += bytes;
        }
    }
    return true;
}

/* What all of them would free, or what the first shows more than its base: a clone of a clone
 * shares what its origin wrote, and yet it is not the base's. */
bool zfs_measure(struct cay_trees *trees, const struct cay_tree_group *group,
                 struct cay_store_usage *out_usage, struct cay_error *err)
{
    enum { OWN, HISTORY, SEEN, PROPERTIES };
    const struct zfs *zfs = zfs_of(trees);
    char dataset[ZFS_NAME_SIZE];
    char below[ZFS_NAME_SIZE];
    uint64_t numbers[PROPERTIES];
    uint64_t seen_below = 0;
    name_dataset(zfs, group->id, dataset);
    name_dataset(zfs, group->base, below);
    if (!read_numbers("usedbydataset,usedbysnapshots,referenced", dataset, numbers, PROPERTIES,
                      err) ||
        !read_numbers("referenced", below, &seen_below, 1, err))
        return false;
    uint64_t seen = numbers[SEEN];
    uint64_t own = CAY_MAX(numbers[OWN], seen > seen_below ? seen - seen_below : 0);
    uint64_t all = numbers[OWN] + numbers[HISTORY];
    if (!add_used(zfs, group->others, group->other_count, &all, err))
        return false;
    out_usage->own_bytes = own;
    out_usage->history_bytes = all > own ? all - own : 0;
    return true;
}

/* Every dataset is a file system of its own, and zfs-fuse has no syncfs at all. But what is said to
 * the pool is answered when it is on the disk, and everything before it. */
bool zfs_sync(struct cay_trees *trees, struct cay_error *err)
{
    char property[48];
    char id[CAY_STORE_ID_SIZE];
    cay_store_new_id(id);
    snprintf(property, sizeof(property), "cay:synced=%s", id);
    return zfs_call(&(struct zfs_args){{"zfs", "set", property, zfs_of(trees)->root}}, NULL, err);
}

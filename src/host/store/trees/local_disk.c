/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Plain directories: a session is a copy of its base, by reference where the file system can. For
 * machines where nothing better works; there are no snapshots.
 */

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/quantity.h"
#include "host/store/copy.h"
#include "host/store/trees/trees.h"
#include "sys/pin.h"
#include "sys/remove.h"

static bool check(const char *directory, struct cay_error *err)
{
    if (geteuid() != 0)
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "the local-disk store needs root");
    return cay_trees_can_map_owners(AT_FDCWD, directory) ||
           cay_fail(err, CAY_R_NOT_SUPPORTED, "the file system of '%.80s' has no id-mapped mounts",
                    directory);
}

/* Whether files can share their data. */
static bool clones_here(const struct cay_trees *trees)
{
    cay_autoclose int fd = openat(trees->trees_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd >= 0 && write(fd, "x", 1) == 1 && cay_copy_clones(fd, trees->trees_fd);
}

static bool make(struct cay_trees *trees, const char *id, struct cay_error *err)
{
    int rc = cay_pin_make_dir(trees->trees_fd, id, 0755, 0, 0);
    return rc == 0 || cay_store_fail(err, rc, "make directory");
}

/* What does not fit is not begun: a tree that was half copied would take the room of others. */
static bool has_room(const struct cay_trees *trees, const struct cay_copy_request *request,
                     struct cay_error *err)
{
    struct cay_copy_stats cost = {};
    struct statvfs fs;
    int rc = cay_copy_measure(request, clones_here(trees), &cost);
    if (rc == -ECANCELED)
        return cay_fail(err, CAY_R_CANCELED, NULL);
    if (rc < 0 || fstatvfs(trees->trees_fd, &fs) < 0)
        return cay_store_fail(err, rc < 0 ? rc : -errno, "measure the base");
    uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
    char wanted[CAY_SIZE_BYTES];
    char left[CAY_SIZE_BYTES];
    cay_size_format(cost.bytes, wanted);
    cay_size_format(room, left);
    if (cost.bytes > room)
        return cay_fail(err, CAY_R_NO_SPACE,
                        "the store local-disk copies the whole base for each session, %s, and the "
                        "disk has %s left; use a smaller base, or a store that shares files "
                        "('cay doctor')",
                        wanted, left);
    return !fs.f_files || cost.entries <= fs.f_favail ||
           cay_fail(err, CAY_R_NO_SPACE,
                    "the store local-disk copies the whole base for each session, %llu files, and "
                    "the disk has room for %llu; use a smaller base",
                    (unsigned long long)cost.entries, (unsigned long long)fs.f_favail);
}

static bool copy(struct cay_trees *trees, const char *from, const char *id, bool,
                 struct cay_error *err)
{
    if (!make(trees, id, err))
        return false;
    cay_autoclose int from_fd = cay_trees_open_tree(trees, from);
    cay_autoclose int to_fd = cay_trees_open_tree(trees, id);
    if (from_fd < 0 || to_fd < 0)
        return cay_store_fail(err, CAY_MIN(from_fd, to_fd), "open tree");
    const struct cay_copy_request request = {
        .rule = CAY_COPY_LAYER, .from_fd = from_fd, .to_fd = to_fd, .previous_fd = -1};
    struct cay_copy_stats stats;
    return has_room(trees, &request, err) && cay_copy_tree(&request, &stats, err);
}

static int remove_tree(struct cay_trees *trees, const char *id, uint64_t *budget)
{
    return cay_remove_tree(trees->trees_fd, id, budget);
}

static const struct cay_tree_ops tree_ops = {
    .start = cay_trees_without_atime,
    .make = make,
    .clone = copy,
    .remove = remove_tree,
};

static bool open_store(const struct cay_store_config *config, struct cay_store **out_store,
                       struct cay_error *err)
{
    return cay_trees_open(config, &cay_store_local_disk, &tree_ops, "local-disk 1", out_store, err);
}

const struct cay_store_ops cay_store_local_disk = {
    .name = "local-disk",
    .caps = CAY_STORE_ID_MAPPED | CAY_STORE_PERSISTENT,
    .check = check,
    .open = open_store,
    .collect = cay_trees_collect,
    CAY_TREES_SLOTS,
};

/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "host/store/trees/trees_internal.h"
#include "sys/userns.h"

enum {
    PASS_NS_MAX = 100'000'000, /* no clock in use is so coarse: one set back is not waited for */
    TRY_UID = 0x40000000,      /* a range that nobody has: nothing is written with it */
};

int cay_trees_open_tree(const struct cay_trees *trees, const char *id)
{
    int fd = openat(trees->trees_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

bool cay_trees_can_map_owners(int dir_fd, const char *path)
{
    cay_autoclose int mount_fd = cay_mount_clone(dir_fd, path, false);
    cay_autoclose int userns_fd = cay_userns_open(TRY_UID, CAY_USERNS_COUNT);
    return mount_fd >= 0 && userns_fd >= 0 && cay_mount_set_idmap(mount_fd, userns_fd) == 0;
}

bool cay_trees_without_atime(struct cay_trees *trees, struct cay_error *err)
{
    cay_autoclose int clone_fd = cay_mount_clone(trees->mounts_fd, "", false);
    int rc = clone_fd < 0 ? clone_fd
                          : cay_mount_set(clone_fd, MOUNT_ATTR_NOATIME | MOUNT_ATTR_NODEV, false);
    if (rc < 0)
        return cay_store_fail(err, rc, "mount the trees without access times");
    int fd = openat(clone_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return cay_store_fail(err, -errno, "open the trees");
    close(trees->trees_fd);
    trees->trees_fd = fd;
    return true;
}

static int64_t coarse_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (int64_t)now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

void cay_trees_pass(int64_t ns)
{
    const struct timespec nap = {.tv_nsec = 500'000};
    while (coarse_ns() <= ns && ns - coarse_ns() < PASS_NS_MAX)
        nanosleep(&nap, NULL);
}

bool trees_mount_tree(struct cay_trees *trees, const char *id, const struct cay_store_owner *owner,
                      bool is_readonly, int *out_fd, struct cay_error *err)
{
    cay_autoclose int fd = cay_mount_clone(trees->mounts_fd, id, false);
    if (fd < 0)
        return cay_store_fail(err, fd, "clone the mount of a tree");
    uint64_t attr = MOUNT_ATTR_NOATIME | MOUNT_ATTR_NODEV;
    if (is_readonly)
        attr |= MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID;
    int rc = cay_mount_set(fd, attr, false);
    if (rc < 0)
        return cay_store_fail(err, rc, "dress the mount of a tree");
    if (owner && cay_trees_caps(&trees->store) & CAY_STORE_ID_MAPPED) {
        cay_autoclose int userns_fd = cay_owner_map_open(&trees->owners, owner);
        if (userns_fd < 0)
            return cay_fail_errno(err, CAY_R_NOT_SUPPORTED, userns_fd, "make user namespace");
        rc = cay_mount_set_idmap(fd, userns_fd);
        if (rc < 0)
            return cay_store_fail(err, rc, "map the owners of a tree");
    }
    *out_fd = cay_take_fd(fd);
    return true;
}

void cay_trees_forget_owner(struct cay_store *store, uint32_t id_base)
{
    cay_owner_map_forget(&cay_trees_of(store)->owners, id_base);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "host/store/overlay/overlay_internal.h"
#include "sys/layer_mount.h"
#include "sys/mount.h"
#include "sys/remove.h"

enum { PATH_SIZE = CAY_STORE_ID_SIZE + 2 };

/* A volatile mount marks its work directory as used up, because the kernel cannot know whether the
 * machine went down meanwhile (Documentation/filesystems/overlayfs.rst, "Volatile mount"). We say
 * what survives that; the directory is replaced. */
enum { WORK_ENTRIES_MAX = 64 }; /* of a used work directory that are removed on the way */

static int fresh_work(struct ov_store *ov, const char *layer)
{
    char work[PATH_SIZE];
    char used[PATH_SIZE + 8];
    snprintf(work, sizeof(work), "%s/w", layer);
    snprintf(used, sizeof(used), "%s/work", work);
    if (faccessat(ov->layers_fd, used, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno != ENOENT)
            return -errno;
        /* A daemon that died right below left none at all. */
        return mkdirat(ov->layers_fd, work, 0700) < 0 && errno != EEXIST ? -errno : 0;
    }
    char trash[CAY_STORE_ID_SIZE];
    uint64_t budget = WORK_ENTRIES_MAX;
    cay_store_new_id(trash);
    if (renameat(ov->layers_fd, work, ov->trash_fd, trash) < 0)
        return -errno;
    /* Before the new one is made: a full pool has no room for both. What is left of it goes with
     * the next collection. */
    (void)cay_remove_tree(ov->trash_fd, trash, &budget);
    return mkdirat(ov->layers_fd, work, 0700) < 0 ? -errno : 0;
}

/* The trees of `top` and of what it stands on, by name; both arrays have top->depth places. */
static void name_layers(const struct ov_layer *top, char (*paths)[PATH_SIZE], const char **names)
{
    size_t at = 0;
    for (const struct ov_layer *layer = top; layer; layer = layer->parent, at++) {
        assert(at < top->depth);
        snprintf(paths[at], PATH_SIZE, "%016" PRIx64 "/d", layer->node.id);
        names[at] = paths[at];
    }
}

bool ov_layer_mount(struct ov_store *ov, const struct ov_layer *upper,
                    const struct cay_store_owner *owner, int *out_fd, struct cay_error *err)
{
    assert(upper->parent && upper->depth > 1);
    size_t count = upper->depth - 1;
    cay_autofree char(*paths)[PATH_SIZE] = cay_alloc(count * sizeof(*paths));
    cay_autofree const char **lower = cay_alloc(count * sizeof(char *));
    name_layers(upper->parent, paths, lower);
    char name[CAY_STORE_ID_SIZE];
    char tree[PATH_SIZE];
    char work[PATH_SIZE];
    ov_id_text(upper->node.id, name);
    snprintf(tree, sizeof(tree), "%s/d", name);
    snprintf(work, sizeof(work), "%s/w", name);
    cay_autoclose int userns_fd = cay_owner_map_open(&ov->owners, owner);
    if (userns_fd < 0)
        return cay_fail_errno(err, CAY_R_NOT_SUPPORTED, userns_fd, "make user namespace");
    struct cay_layer_stack stack = {
        .layers_fd = ov->layers_fd,
        .lower = lower,
        .lower_count = count,
        .upper = tree,
        .work = work,
        .userns_fd = userns_fd,
        .root_uid = owner->id_base,
    };
    /* Overlayfs makes a few directories of its own, and one for which there is no room makes the
     * mount read-only, for good. */
    int fd;
    do {
        int rc = fresh_work(ov, name);
        fd = rc < 0 ? rc : cay_layer_mount(&stack, CAY_LAYER_AUTO);
        struct statvfs fs;
        if (fd >= 0 && fstatvfs(fd, &fs) == 0 && fs.f_flag & ST_RDONLY) {
            close(fd);
            fd = -ENOSPC;
        }
    } while (fd < 0 && ov_blank_spend(ov, fd));
    if (fd < 0)
        return cay_store_fail(err, fd, "mount overlay of %zu layers", count + 1);
    *out_fd = fd;
    return true;
}

/* Overlayfs wants two layers; one alone is shown as it is. */
static int mount_single(struct ov_store *ov, const char *path, int userns_fd)
{
    cay_autoclose int fd = cay_mount_clone(ov->layers_fd, path, false);
    if (fd < 0)
        return fd;
    int rc = userns_fd >= 0 ? cay_mount_set_idmap(fd, userns_fd) : 0;
    return rc < 0 ? rc : cay_take_fd(fd);
}

bool ov_layer_view(struct ov_store *ov, const struct ov_layer *top,
                   const struct cay_store_owner *owner, int *out_fd, struct cay_error *err)
{
    cay_autofree char(*paths)[PATH_SIZE] = cay_alloc(top->depth * sizeof(*paths));
    cay_autofree const char **names = cay_alloc(top->depth * sizeof(char *));
    name_layers(top, paths, names);
    cay_autoclose int userns_fd = owner ? cay_owner_map_open(&ov->owners, owner) : -1;
    if (owner && userns_fd < 0)
        return cay_fail_errno(err, CAY_R_NOT_SUPPORTED, userns_fd, "make user namespace");
    struct cay_layer_stack stack = {
        .layers_fd = ov->layers_fd,
        .lower = names,
        .lower_count = top->depth,
        .userns_fd = userns_fd,
        .root_uid = owner ? owner->id_base : 0,
    };
    cay_autoclose int fd = top->depth == 1 ? mount_single(ov, names[0], userns_fd)
                                           : cay_layer_mount(&stack, CAY_LAYER_AUTO);
    int rc =
        fd < 0 ? fd
               : cay_mount_set(fd, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID, false);
    if (rc < 0)
        return cay_store_fail(err, rc, "mount %u layers for reading", top->depth);
    *out_fd = cay_take_fd(fd);
    return true;
}

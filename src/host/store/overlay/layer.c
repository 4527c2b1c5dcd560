/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/crash.h"
#include "host/store/copy.h"
#include "host/store/dir_list.h"
#include "host/store/overlay/overlay_internal.h"

void ov_id_text(uint64_t id, char out[static CAY_STORE_ID_SIZE])
{
    snprintf(out, CAY_STORE_ID_SIZE, "%016" PRIx64, id);
}

int ov_layer_open(struct ov_store *ov, const struct ov_layer *layer)
{
    char path[CAY_STORE_ID_SIZE + 2];
    snprintf(path, sizeof(path), "%016" PRIx64 "/d", layer->node.id);
    int fd = openat(ov->layers_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* The directories, from scratch when there is no blank. */
static int make_dirs(struct ov_store *ov, const char *name, int *out_fd)
{
    int rc = ov_blank_take(ov, name);
    bool fresh = rc == -ENOENT;
    if (rc < 0 && !fresh)
        return rc;
    if (fresh && mkdirat(ov->layers_fd, name, 0700) < 0)
        return -errno;
    cay_autoclose int fd =
        openat(ov->layers_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || (fresh && (mkdirat(fd, "d", 0755) < 0 || mkdirat(fd, "w", 0700) < 0)))
        return -errno;
    *out_fd = cay_take_fd(fd);
    return 0;
}

bool ov_layer_dirs(struct ov_store *ov, uint64_t id, int *out_dir_fd, struct cay_error *err)
{
    char name[CAY_STORE_ID_SIZE];
    ov_id_text(id, name);
    int rc = make_dirs(ov, name, out_dir_fd);
    if (rc < 0)
        return cay_store_fail(err, rc, "make layer");
    CAY_CRASH_POINT("store.layer_dir");
    return true;
}

bool ov_layer_ready(struct ov_store *ov, uint64_t id, int dir_fd, struct ov_layer *parent,
                    struct ov_layer **out_layer, struct cay_error *err)
{
    char text[CAY_STORE_ID_SIZE];
    ov_id_text(parent ? parent->node.id : 0, text);
    if (fsetxattr(dir_fd, OV_PARENT_XATTR, text, strlen(text), 0) < 0) {
        int rc = -errno;
        ov_drop(ov, parent);
        return cay_store_fail(err, rc, "finish layer");
    }
    CAY_CRASH_POINT("store.layer_ready");
    struct ov_layer *layer = cay_new(struct ov_layer);
    *layer = (struct ov_layer){
        .node = {.id = id},
        .parent = parent,
        .refs = 1,
        .depth = parent ? parent->depth + 1 : 1,
    };
    pthread_mutex_lock(&ov->lock);
    ov_map_add(&ov->layers, &layer->node);
    pthread_mutex_unlock(&ov->lock);
    *out_layer = layer;
    return true;
}

/* What the root directory itself looks like is part of the tree, and comes from the topmost layer
 * alone. */
static int carry_root(struct ov_store *ov, const struct ov_layer *parent, int dir_fd)
{
    cay_autoclose int from = ov_layer_open(ov, parent);
    if (from < 0)
        return from;
    cay_autoclose int to = openat(dir_fd, "d", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (to < 0 || fstat(from, &st) < 0)
        return -errno;
    if ((st.st_uid || st.st_gid) && fchown(to, st.st_uid, st.st_gid) < 0)
        return -errno;
    if ((st.st_mode & 07777) != 0755 && fchmod(to, st.st_mode & 07777) < 0)
        return -errno;
    int rc = cay_copy_xattrs(CAY_COPY_IMPORT, from, to);
    struct timespec times[2] = {st.st_atim, st.st_mtim};
    if (!rc && futimens(to, times) < 0)
        rc = -errno;
    return rc;
}

bool ov_layer_new(struct ov_store *ov, struct ov_layer *parent, struct ov_layer **out_layer,
                  struct cay_error *err)
{
    assert(parent);
    char name[CAY_STORE_ID_SIZE];
    cay_store_new_id(name);
    uint64_t id = strtoull(name, NULL, 16);
    cay_autoclose int dir_fd = -1;
    bool ok = parent->depth < CAY_STORE_LAYERS_MAX ||
              cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "the tree has %d layers already",
                       CAY_STORE_LAYERS_MAX);
    ok = ok && ov_layer_dirs(ov, id, &dir_fd, err);
    if (ok) {
        int rc = carry_root(ov, parent, dir_fd);
        ok = rc == 0 || cay_store_fail(err, rc, "prepare layer");
    }
    if (!ok) {
        ov_drop(ov, parent);
    } else if (ov_layer_ready(ov, id, dir_fd, parent, out_layer, err)) {
        return true;
    }
    pthread_mutex_lock(&ov->lock);
    ov_bury(ov, id);
    pthread_mutex_unlock(&ov->lock);
    return false;
}

static bool same_root(const struct stat *a, const struct stat *b)
{
    return a->st_mode == b->st_mode && a->st_uid == b->st_uid && a->st_gid == b->st_gid &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

bool ov_layer_unchanged(struct ov_store *ov, const struct ov_layer *upper, bool *out_unchanged,
                        struct cay_error *err)
{
    cay_autoclose int upper_fd = ov_layer_open(ov, upper);
    cay_autoclose int parent_fd = ov_layer_open(ov, upper->parent);
    struct stat upper_st;
    struct stat parent_st;
    if (upper_fd < 0 || parent_fd < 0)
        return cay_store_fail(err, CAY_MIN(upper_fd, parent_fd), "open layer");
    if (fstat(upper_fd, &upper_st) < 0 || fstat(parent_fd, &parent_st) < 0)
        return cay_store_fail(err, -errno, "look at layer");
    *out_unchanged = false;
    if (!same_root(&upper_st, &parent_st))
        return true;
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    int rc = cay_dir_list_read(&names, upper_fd);
    if (rc == -E2BIG || names.count > 0)
        return true;
    if (!rc)
        rc = cay_copy_same_xattrs(CAY_COPY_IMPORT, upper_fd, parent_fd);
    if (rc < 0)
        return cay_store_fail(err, rc, "look at layer");
    *out_unchanged = rc == 1;
    return true;
}

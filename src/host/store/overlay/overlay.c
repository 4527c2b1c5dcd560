/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "host/store/home.h"
#include "host/store/overlay/overlay_internal.h"

static void forget_owner(struct cay_store *store, uint32_t id_base)
{
    cay_owner_map_forget(&ov_of(store)->owners, id_base);
}

static void close_store(struct cay_store *store)
{
    struct ov_store *ov = ov_of(store);
    const int fds[] = {ov->layers_fd, ov->sessions_fd, ov->snapshots_fd,
                       ov->bases_fd,  ov->aliases_fd,  ov->trash_fd,
                       ov->blanks_fd, ov->lock_fd,     ov->root_fd};
    for (size_t i = 0; i < CAY_COUNT(fds); i++)
        cay_cleanup_close(&fds[i]);
    cay_owner_map_finish(&ov->owners);
    while (ov->bases) {
        struct ov_base *base = ov->bases;
        ov->bases = base->next;
        free(base);
    }
    ov_map_finish(&ov->sessions);
    ov_map_finish(&ov->snapshots);
    ov_map_finish(&ov->layers);
    free(ov->dead);
    pthread_mutex_destroy(&ov->lock);
    pthread_mutex_destroy(&ov->collect_lock);
    free(ov);
}

/* Asks ext4 to give every layer a place of its own: one where nothing was deleted lately (see
 * blank.c), and where its files are near each other (chattr(1), T). Other file systems do not know
 * the flag. */
static void spread(int dir_fd)
{
    int flags = 0;
    if (ioctl(dir_fd, FS_IOC_GETFLAGS, &flags) == 0) {
        flags |= FS_TOPDIR_FL;
        (void)ioctl(dir_fd, FS_IOC_SETFLAGS, &flags);
    }
}

static bool open_dirs(struct ov_store *ov, const char *directory, struct cay_error *err)
{
    return cay_store_open_dir(AT_FDCWD, directory, &ov->root_fd, err) &&
           cay_store_claim(ov->root_fd, directory, "overlay 1", &ov->lock_fd, err) &&
           cay_store_open_dir(ov->root_fd, "l", &ov->layers_fd, err) &&
           cay_store_open_dir(ov->root_fd, "s", &ov->sessions_fd, err) &&
           cay_store_open_dir(ov->root_fd, "p", &ov->snapshots_fd, err) &&
           cay_store_open_dir(ov->root_fd, "b", &ov->bases_fd, err) &&
           cay_store_open_dir(ov->root_fd, "a", &ov->aliases_fd, err) &&
           cay_store_open_dir(ov->root_fd, "n", &ov->blanks_fd, err) &&
           cay_store_open_dir(ov->root_fd, "t", &ov->trash_fd, err);
}

static bool open_store(const struct cay_store_config *config, struct cay_store **out_store,
                       struct cay_error *err)
{
    if (geteuid() != 0)
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "the overlay store needs root");
    struct ov_store *ov = cay_new(struct ov_store);
    ov->store.ops = &cay_store_overlay;
    ov->root_fd = ov->lock_fd = ov->layers_fd = ov->sessions_fd = -1;
    ov->snapshots_fd = ov->bases_fd = ov->aliases_fd = ov->trash_fd = -1;
    ov->blanks_fd = -1;
    cay_owner_map_init(&ov->owners);
    pthread_mutex_init(&ov->lock, NULL);
    pthread_mutex_init(&ov->collect_lock, NULL);
    bool ok = open_dirs(ov, config->directory, err);
    if (ok) {
        spread(ov->layers_fd);
        spread(ov->blanks_fd);
        cay_record_clean_anchors(ov->root_fd);
        ok = ov_load(ov, err);
    }
    if (!ok) {
        close_store(&ov->store);
        return false;
    }
    *out_store = &ov->store;
    return true;
}

static bool sync_store(struct cay_store *store, struct cay_error *err)
{
    return syncfs(ov_of(store)->root_fd) == 0 || cay_store_fail(err, -errno, "syncfs");
}

const struct cay_store_ops cay_store_overlay = {
    .name = "overlay",
    .caps = CAY_STORE_SNAPSHOTS | CAY_STORE_SHARING | CAY_STORE_LIVE_COPY | CAY_STORE_ID_MAPPED |
            CAY_STORE_SWITCHES | CAY_STORE_PERSISTENT | CAY_STORE_FAST_DIFF |
            CAY_STORE_SEES_UNCHANGED,
    .check = ov_check,
    .open = open_store,
    .close = close_store,
    .create = ov_create,
    .mount = ov_mount,
    .snapshot = ov_snapshot,
    .rollback = ov_rollback,
    .fork = ov_fork,
    .destroy = ov_destroy,
    .forget_owner = forget_owner,
    .delete_snapshot = ov_delete_snapshot,
    .collect = ov_collect,
    .sync = sync_store,
    .diff = ov_diff,
    .view = ov_view,
    .usage = ov_usage,
    .usage_whole = ov_usage_whole,
    .list = ov_list,
    .base_begin = ov_base_begin,
    .base_begin_from = ov_base_begin_from,
    .base_commit = ov_base_commit,
    .base_abort = ov_base_abort,
    .base_remove = ov_base_remove,
    .base_alias = ov_base_alias,
    .base_resolve = ov_base_resolve,
    .base_id = ov_base_id,
    .base_is_used = ov_base_is_used,
};

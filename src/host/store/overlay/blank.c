/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Layers made ahead of need. A directory is the dearest thing to make on the way of a call: ext4
 * looks for a good place for it (find_group_orlov() in fs/ext4/ialloc.c), and for a minute after
 * many files were deleted it looks for long (recently_deleted() there; without a journal only).
 *
 * They are also the reserve of a full pool: what must go on there, to read, to roll back and to
 * remove, is a few directories, and gets them from here.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/store/dir_list.h"
#include "host/store/overlay/overlay_internal.h"
#include "sys/remove.h"

/* Nobody else has it from now on; false when there is none. */
static bool pick(struct ov_store *ov, char out_name[static CAY_STORE_ID_SIZE])
{
    pthread_mutex_lock(&ov->lock);
    uint64_t id = ov->blanks_count ? ov->blanks[--ov->blanks_count] : 0;
    pthread_mutex_unlock(&ov->lock);
    ov_id_text(id, out_name);
    return id != 0;
}

int ov_blank_take(struct ov_store *ov, const char *name)
{
    char blank[CAY_STORE_ID_SIZE];
    if (!pick(ov, blank))
        return -ENOENT;
    return renameat(ov->blanks_fd, blank, ov->layers_fd, name) < 0 ? -errno : 0;
}

bool ov_blank_spend(struct ov_store *ov, int rc)
{
    char blank[CAY_STORE_ID_SIZE];
    return cay_store_is_full(rc) && pick(ov, blank) &&
           cay_remove_tree(ov->blanks_fd, blank, NULL) == 0;
}

static int make(struct ov_store *ov, uint64_t *out_id)
{
    char name[CAY_STORE_ID_SIZE];
    cay_store_new_id(name);
    if (mkdirat(ov->blanks_fd, name, 0700) < 0)
        return -errno;
    cay_autoclose int fd =
        openat(ov->blanks_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || mkdirat(fd, "d", 0755) < 0 || mkdirat(fd, "w", 0700) < 0)
        return -errno;
    *out_id = strtoull(name, NULL, 16);
    return 0;
}

static bool keep(struct ov_store *ov, uint64_t id, size_t count)
{
    pthread_mutex_lock(&ov->lock);
    bool room = ov->blanks_count < CAY_MIN(count, (size_t)OV_BLANKS_MAX);
    if (room && id)
        ov->blanks[ov->blanks_count++] = id;
    pthread_mutex_unlock(&ov->lock);
    return room;
}

int ov_blank_fill(struct ov_store *ov, size_t count)
{
    while (keep(ov, 0, count)) {
        uint64_t id = 0;
        int rc = make(ov, &id);
        if (rc < 0)
            return rc; /* half a one is left for the next start, too */
        if (!keep(ov, id, OV_BLANKS_MAX))
            return 0; /* left for the next start */
    }
    return 0;
}

bool ov_blank_load(struct ov_store *ov, struct cay_error *err)
{
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    int rc = cay_dir_list_read(&names, ov->blanks_fd);
    if (rc < 0)
        return cay_store_fail(err, rc, "read the directory of blank layers");
    for (size_t i = 0; i < names.count; i++) {
        const char *name = cay_dir_list_name(&names, i);
        char path[CAY_STORE_ID_SIZE + 2];
        struct stat st;
        snprintf(path, sizeof(path), "%.16s/w", name);
        bool whole =
            cay_store_id_valid(name) && fstatat(ov->blanks_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
        if (whole && keep(ov, strtoull(name, NULL, 16), OV_BLANKS_MAX))
            continue;
        if (renameat(ov->blanks_fd, name, ov->trash_fd, name) < 0 && !cay_store_is_full(-errno))
            return cay_store_fail(err, -errno, "clear a blank layer away");
    }
    /* A full pool has to be opened, or nothing could be removed from it. */
    rc = ov_blank_fill(ov, OV_BLANKS_AT_OPEN);
    return rc == 0 || cay_store_is_full(rc) || cay_store_fail(err, rc, "make blank layers");
}

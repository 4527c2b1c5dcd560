/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/crash.h"
#include "host/store/dir_list.h"
#include "host/store/overlay/overlay_internal.h"
#include "sys/remove.h"

/* Moves every dead layer to the trash, where a restarted daemon finds it without asking. In the
 * order of their death, so that none is there before those that stand on it: a layer whose parent
 * is missing looks like damage, and stays. */
static int move_dead(struct ov_store *ov)
{
    for (;;) {
        pthread_mutex_lock(&ov->lock);
        bool any = ov->dead_count > 0;
        uint64_t id = any ? ov->dead[0] : 0;
        pthread_mutex_unlock(&ov->lock);
        if (!any)
            return 0;
        char name[CAY_STORE_ID_SIZE];
        ov_id_text(id, name);
        while (renameat(ov->layers_fd, name, ov->trash_fd, name) < 0 && errno != ENOENT) {
            int rc = -errno;
            if (!ov_blank_spend(ov, rc))
                return rc;
        }
        CAY_CRASH_POINT("store.collect_moved");
        pthread_mutex_lock(&ov->lock);
        memmove(ov->dead, ov->dead + 1, --ov->dead_count * sizeof(*ov->dead));
        pthread_mutex_unlock(&ov->lock);
    }
}

static int empty_trash(struct ov_store *ov, uint64_t budget)
{
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    int rc = cay_dir_list_read(&names, ov->trash_fd);
    for (size_t i = 0; !rc && i < names.count; i++) {
        rc = cay_remove_tree(ov->trash_fd, cay_dir_list_name(&names, i), &budget);
        CAY_CRASH_POINT("store.collect_half");
    }
    return rc;
}

bool ov_collect(struct cay_store *store, uint64_t entries_max, bool *out_more,
                struct cay_error *err)
{
    struct ov_store *ov = ov_of(store);
    *out_more = true;
    if (pthread_mutex_trylock(&ov->collect_lock) != 0)
        return true; /* somebody is at it */
    ov_flatten_some(ov);
    int moved = move_dead(ov);
    int rc = empty_trash(ov, entries_max); /* before anything is made: the pool may be full */
    rc = rc ? rc : moved;
    int filled = ov_blank_fill(ov, OV_BLANKS_MAX);
    if (!rc && !cay_store_is_full(filled))
        rc = filled;
    pthread_mutex_unlock(&ov->collect_lock);
    if (rc == -EAGAIN)
        return true;
    if (rc < 0)
        return cay_store_fail(err, rc, "empty the trash");
    *out_more = false;
    return true;
}

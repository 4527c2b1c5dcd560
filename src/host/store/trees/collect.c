/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/crash.h"
#include "host/store/trees/trees_internal.h"

/* One that died in the midst of this is found again: no record names it. */
static int remove_dead(struct cay_trees *trees, uint64_t budget)
{
    for (;;) {
        char id[CAY_STORE_ID_SIZE];
        pthread_mutex_lock(&trees->lock);
        bool any = trees->dead_count > 0;
        if (any)
            memcpy(id, trees->dead[trees->dead_count - 1], sizeof(id));
        pthread_mutex_unlock(&trees->lock);
        if (!any)
            return 0;
        if (budget == 0)
            return -EAGAIN;
        budget--;
        int rc = trees->ops->remove(trees, id, &budget);
        CAY_CRASH_POINT("trees.collect_half");
        if (rc < 0)
            return rc;
        pthread_mutex_lock(&trees->lock);
        for (size_t i = trees->dead_count; i-- > 0;) {
            if (!strcmp(trees->dead[i], id)) {
                memmove(trees->dead[i], trees->dead[--trees->dead_count], sizeof(id));
                break;
            }
        }
        pthread_mutex_unlock(&trees->lock);
    }
}

bool cay_trees_collect(struct cay_store *store, uint64_t entries_max, bool *out_more,
                       struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    *out_more = true;
    if (pthread_mutex_trylock(&trees->collect_lock) != 0)
        return true; /* somebody is at it */
    bool ok = trees_make_spares(trees, err);
    int rc = ok ? remove_dead(trees, entries_max) : 0;
    pthread_mutex_unlock(&trees->collect_lock);
    if (!ok || rc == -EAGAIN)
        return ok;
    if (rc < 0)
        return cay_store_fail(err, rc, "remove trees");
    *out_more = false;
    return true;
}

bool cay_trees_sync(struct cay_store *store, struct cay_error *err)
{
    return syncfs(cay_trees_of(store)->root_fd) == 0 || cay_store_fail(err, -errno, "syncfs");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/crash.h"
#include "host/store/trees/trees_internal.h"

/* Under the lock; it is there. */
static size_t find_dead(const struct cay_trees *trees, const char *id)
{
    size_t at = 0;
    while (strcmp(trees->dead[at], id)) {
        at++;
        assert(at < trees->dead_count);
    }
    return at;
}

static void swap_dead(struct cay_trees *trees, size_t a, size_t b)
{
    char id[CAY_STORE_ID_SIZE];
    memcpy(id, trees->dead[a], sizeof(id));
    memmove(trees->dead[a], trees->dead[b], sizeof(id));
    memcpy(trees->dead[b], id, sizeof(id));
}

/* One that died in the midst of this is found again: no record names it. Those that are busy stay
 * at the front, for the next collection. */
static int remove_dead(struct cay_trees *trees, uint64_t budget)
{
    for (size_t busy = 0;;) {
        char id[CAY_STORE_ID_SIZE];
        pthread_mutex_lock(&trees->lock);
        bool any = trees->dead_count > busy;
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
        if (rc < 0 && rc != -EBUSY)
            return rc;
        pthread_mutex_lock(&trees->lock);
        size_t at = find_dead(trees, id);
        if (rc == -EBUSY)
            swap_dead(trees, at, busy++);
        else
            swap_dead(trees, at, --trees->dead_count);
        pthread_mutex_unlock(&trees->lock);
    }
}

bool cay_trees_collect(struct cay_store *store, uint64_t entries_max, bool *out_more,
                       struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    *out_more = true;
    if (pthread_mutex_trylock(&trees->collect_lock) != 0)
        return true;                          /* somebody is at it */
    int rc = remove_dead(trees, entries_max); /* before anything is made: it may be full */
    bool ok = trees_make_spares(trees, err) || err->reason == CAY_R_NO_SPACE ||
              err->reason == CAY_R_QUOTA_EXCEEDED;
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
    struct cay_trees *trees = cay_trees_of(store);
    if (syncfs(trees->root_fd) < 0)
        return cay_store_fail(err, -errno, "syncfs");
    return !trees->ops->sync || trees->ops->sync(trees, err);
}

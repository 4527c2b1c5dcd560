/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writable clones made ahead of need, of the trees that somebody is likely to go on from: bases
 * that sessions were made of, and the last snapshot of each session. A start finds them as trees
 * that nobody names, and removes them.
 */

#include <stdio.h>

#include "base/crash.h"
#include "host/store/trees/trees_internal.h"

void trees_want_spare(struct cay_trees *trees, struct tree *tree)
{
    tree->spare_wanted = ++trees->spare_clock;
}

bool trees_clone(struct cay_trees *trees, struct tree *from, char out_id[static CAY_STORE_ID_SIZE],
                 struct cay_error *err)
{
    char id[CAY_STORE_ID_SIZE] = "";
    pthread_mutex_lock(&trees->lock);
    trees_want_spare(trees, from);
    if (from->spare[0]) {
        memcpy(id, from->spare, sizeof(id));
        from->spare[0] = '\0';
        trees->spare_count--;
    }
    pthread_mutex_unlock(&trees->lock);
    if (!id[0]) {
        cay_store_new_id(id);
        if (!trees->ops->clone(trees, from->id, id, false, err)) {
            trees_bury_unlocked(trees, id);
            return false;
        }
    }
    CAY_CRASH_POINT("trees.cloned");
    memcpy(out_id, id, sizeof(id));
    return true;
}

/* The tree that was asked for last and has none yet, referenced. */
static struct tree *most_wanted(struct cay_trees *trees)
{
    struct tree *best = NULL;
    size_t cursor = 0;
    for (struct tree *tree; (tree = cay_map_next(&trees->trees, &cursor));) {
        if (tree->spare_wanted && !tree->spare[0] &&
            (!best || tree->spare_wanted > best->spare_wanted))
            best = tree;
    }
    return best ? trees_ref(best) : NULL;
}

/* Room for one more: the spare that was not asked for the longest goes. */
static void make_room(struct cay_trees *trees)
{
    if (trees->spare_count < TREES_SPARES_MAX)
        return;
    struct tree *oldest = NULL;
    size_t cursor = 0;
    for (struct tree *tree; (tree = cay_map_next(&trees->trees, &cursor));) {
        if (tree->spare[0] && (!oldest || tree->spare_wanted < oldest->spare_wanted))
            oldest = tree;
    }
    trees_bury(trees, oldest->spare);
    oldest->spare[0] = '\0';
    oldest->spare_wanted = 0;
    trees->spare_count--;
}

bool trees_make_spares(struct cay_trees *trees, struct cay_error *err)
{
    for (int made = 0; trees->ops->keeps_spares && made < TREES_SPARES_MAX; made++) {
        char id[CAY_STORE_ID_SIZE];
        cay_store_new_id(id);
        pthread_mutex_lock(&trees->lock);
        struct tree *tree = most_wanted(trees);
        pthread_mutex_unlock(&trees->lock);
        if (!tree)
            break;
        bool ok = trees->ops->clone(trees, tree->id, id, false, err);
        CAY_CRASH_POINT("trees.spare_made");
        pthread_mutex_lock(&trees->lock);
        if (ok)
            make_room(trees);
        if (ok && !tree->spare[0]) {
            memcpy(tree->spare, id, sizeof(id));
            trees->spare_count++;
        } else {
            tree->spare_wanted = ok ? tree->spare_wanted : 0;
            trees_bury(trees, id);
        }
        trees_unref(trees, tree);
        pthread_mutex_unlock(&trees->lock);
        if (!ok)
            return false;
    }
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/store/trees/trees_internal.h"

struct tree *trees_enter(struct cay_trees *trees, const char *id)
{
    struct tree *tree = cay_map_get(&trees->trees, cay_str(id));
    if (tree)
        return trees_ref(tree);
    tree = cay_new(struct tree);
    snprintf(tree->id, sizeof(tree->id), "%s", id);
    tree->refs = 1;
    cay_map_put(&trees->trees, cay_str(tree->id), tree);
    return tree;
}

struct tree *trees_ref(struct tree *tree)
{
    assert(tree);
    tree->refs++;
    return tree;
}

void trees_bury(struct cay_trees *trees, const char *id)
{
    if (trees->dead_count == trees->dead_cap) {
        trees->dead_cap = CAY_MAX(trees->dead_cap * 2, (size_t)16);
        trees->dead = cay_realloc_array(trees->dead, trees->dead_cap, sizeof(*trees->dead));
    }
    snprintf(trees->dead[trees->dead_count++], CAY_STORE_ID_SIZE, "%s", id);
}

void trees_bury_unlocked(struct cay_trees *trees, const char *id)
{
    pthread_mutex_lock(&trees->lock);
    trees_bury(trees, id);
    pthread_mutex_unlock(&trees->lock);
}

void trees_unref(struct cay_trees *trees, struct tree *tree)
{
    if (!tree)
        return;
    assert(tree->refs > 0);
    if (--tree->refs > 0)
        return;
    if (tree->spare[0]) {
        trees_bury(trees, tree->spare);
        trees->spare_count--;
    }
    trees_bury(trees, tree->id);
    cay_map_remove(&trees->trees, cay_str(tree->id));
    free(tree);
}

void trees_drop(struct cay_trees *trees, struct tree *tree)
{
    pthread_mutex_lock(&trees->lock);
    trees_unref(trees, tree);
    pthread_mutex_unlock(&trees->lock);
}

struct session *trees_session(struct cay_trees *trees, const char *id)
{
    return cay_map_get(&trees->sessions, cay_str(id));
}

struct snapshot *trees_snapshot(struct cay_trees *trees, const char *id)
{
    return cay_map_get(&trees->snapshots, cay_str(id));
}

struct name *trees_name(struct cay_trees *trees, const char *name)
{
    return cay_map_get(&trees->names, cay_str(name));
}

struct name *trees_base(struct cay_trees *trees, const char *name, struct cay_error *err)
{
    struct name *base = trees_name(trees, name);
    if (base && !base->tree)
        base = trees_name(trees, base->target);
    if (base && base->tree)
        return base;
    cay_store_no_base(err, name);
    return NULL;
}

static void finish_map(struct cay_map *map)
{
    size_t cursor = 0;
    for (void *item; (item = cay_map_next(map, &cursor));)
        free(item);
    cay_map_finish(map);
}

void trees_finish_tables(struct cay_trees *trees)
{
    finish_map(&trees->sessions);
    finish_map(&trees->snapshots);
    finish_map(&trees->names);
    finish_map(&trees->trees);
    free(trees->dead);
}

static bool find_point(struct cay_trees *trees, const struct cay_store_ref *ref,
                       struct tree **out_tree, struct tree **out_base, struct cay_error *err)
{
    if (ref->session || ref->origin) {
        const struct session *session =
            trees_session(trees, ref->session ? ref->session : ref->origin);
        if (!session)
            return cay_fail(err, CAY_R_SESSION_NOT_FOUND, NULL);
        *out_tree = ref->session ? session->tree : session->base;
        *out_base = session->base;
    } else if (ref->snapshot) {
        const struct snapshot *snapshot = trees_snapshot(trees, ref->snapshot);
        if (!snapshot)
            return cay_fail(err, CAY_R_SNAPSHOT_NOT_FOUND, NULL);
        *out_tree = snapshot->tree;
        *out_base = snapshot->base;
    } else {
        const struct name *base = trees_base(trees, ref->base, err);
        if (!base)
            return false;
        *out_tree = *out_base = base->tree;
    }
    return true;
}

bool trees_hold(struct cay_trees *trees, const struct cay_store_ref *ref, struct tree **out_tree,
                struct tree **out_base, struct cay_error *err)
{
    struct tree *tree = NULL;
    struct tree *base = NULL;
    pthread_mutex_lock(&trees->lock);
    bool found = find_point(trees, ref, &tree, &base, err);
    if (found) {
        *out_tree = trees_ref(tree);
        *out_base = trees_ref(base);
    }
    pthread_mutex_unlock(&trees->lock);
    return found;
}

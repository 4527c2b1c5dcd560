/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/crash.h"
#include "host/store/trees/trees_internal.h"

/* Writes down and enters the snapshot; takes references of its own. */
static bool add_snapshot(struct cay_trees *trees, const char *id, struct tree *tree,
                         struct tree *base, bool changed, struct cay_error *err)
{
    struct snapshot *snapshot = cay_new(struct snapshot);
    *snapshot = (struct snapshot){
        .tree = tree,
        .base = base,
        .changed = changed,
        .created_ms = cay_record_now_ms(),
    };
    snprintf(snapshot->id, sizeof(snapshot->id), "%s", id);
    char name[CAY_RECORD_SIZE];
    trees_snapshot_name(snapshot, name);
    int rc = cay_record_link(trees->root_fd, trees->snapshots_fd, name);
    if (rc < 0) {
        free(snapshot);
        return cay_store_fail(err, rc, "write down snapshot");
    }
    CAY_CRASH_POINT("trees.snapshot_recorded");
    pthread_mutex_lock(&trees->lock);
    trees_ref(tree);
    trees_ref(base);
    cay_map_put(&trees->snapshots, cay_str(snapshot->id), snapshot);
    pthread_mutex_unlock(&trees->lock);
    return true;
}

/* Is this tree what the session's last snapshot, or its base, is? A session that was forked stands
 * on a snapshot that is not its own. */
static bool is_predecessor(struct cay_trees *trees, const struct session *session,
                           const char *previous_id, const struct tree *tree)
{
    if (!previous_id)
        return true;
    if (!*previous_id)
        return tree == session->base;
    pthread_mutex_lock(&trees->lock);
    const struct snapshot *previous = trees_snapshot(trees, previous_id);
    bool is_same = previous && previous->tree == tree;
    pthread_mutex_unlock(&trees->lock);
    return is_same;
}

static bool has_stamp_of_last(struct cay_trees *trees, const struct session *session)
{
    struct cay_tree_stamp now = {};
    struct cay_error ignored;
    return session->last && trees->ops->stamp &&
           trees->ops->stamp(trees, session->tree->id, false, &now, &ignored) &&
           memcmp(&now, &session->stamp, sizeof(now)) == 0;
}

bool trees_is_as_last(struct cay_trees *trees, const struct session *session)
{
    if (session->last && trees->ops->is_same)
        return trees->ops->is_same(trees, session->tree->id, session->last->id);
    bool is_told = session->last &&
                   (!trees->ops->stamps_tell || trees->ops->stamps_tell(trees, session->tree->id));
    return is_told && has_stamp_of_last(trees, session);
}

/* The session's tree is the same as `tree` from now on. Losing this costs a snapshot too many. */
static void keep_last(struct cay_trees *trees, struct session *session, struct tree *tree)
{
    struct session after = *session;
    struct tree *before = session->last;
    struct cay_error ignored;
    after.last = tree;
    if (!trees->ops->is_same &&
        (!trees->ops->stamp ||
         !trees->ops->stamp(trees, session->tree->id, true, &after.stamp, &ignored)))
        return;
    pthread_mutex_lock(&trees->lock);
    trees_ref(tree);
    trees_want_spare(trees, tree);
    pthread_mutex_unlock(&trees->lock);
    if (trees_session_change(trees, session, &after) < 0)
        before = tree;
    else
        CAY_CRASH_POINT("trees.stamp_recorded");
    trees_drop(trees, before);
}

static bool take_last(struct cay_trees *trees, struct session *session,
                      const struct cay_store_snapshot_request *request, bool *out_changed,
                      struct cay_error *err)
{
    *out_changed = !is_predecessor(trees, session, request->previous_id, session->last);
    return add_snapshot(trees, request->snapshot_id, session->last, session->base, *out_changed,
                        err);
}

static bool take(struct cay_trees *trees, struct session *session,
                 const struct cay_store_snapshot_request *request, bool *out_changed,
                 struct cay_error *err)
{
    if (trees_is_as_last(trees, session))
        return take_last(trees, session, request, out_changed, err);
    char id[CAY_STORE_ID_SIZE];
    cay_store_new_id(id);
    if (!trees->ops->clone(trees, session->tree->id, id, true, err)) {
        trees_bury_unlocked(trees, id);
        return false;
    }
    CAY_CRASH_POINT("trees.snapshot_cloned");
    /* Now that everything is written out: was there anything? */
    if (has_stamp_of_last(trees, session)) {
        trees_bury_unlocked(trees, id);
        return take_last(trees, session, request, out_changed, err);
    }
    pthread_mutex_lock(&trees->lock);
    struct tree *tree = trees_enter(trees, id);
    pthread_mutex_unlock(&trees->lock);
    bool ok = add_snapshot(trees, request->snapshot_id, tree, session->base, true, err);
    if (ok)
        keep_last(trees, session, tree);
    trees_drop(trees, tree);
    *out_changed = true;
    return ok;
}

bool cay_trees_snapshot(struct cay_store *store, const struct cay_store_snapshot_request *request,
                        struct cay_store_point *out_point, struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    pthread_mutex_lock(&trees->lock);
    struct session *session = trees_session(trees, request->session_id);
    const struct snapshot *existing = trees_snapshot(trees, request->snapshot_id);
    bool changed = existing && existing->changed;
    pthread_mutex_unlock(&trees->lock);
    if (!session)
        return cay_fail(err, CAY_R_SESSION_NOT_FOUND, "the store has no tree of that session");
    if (!existing && !take(trees, session, request, &changed, err))
        return false;
    if (request->durable && !cay_trees_sync(store, err))
        return false;
    *out_point = (struct cay_store_point){changed, -1, session->generation};
    return true;
}

bool cay_trees_delete_snapshot(struct cay_store *store, const char *id, struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    char name[CAY_RECORD_SIZE];
    pthread_mutex_lock(&trees->lock);
    struct snapshot *snapshot = trees_snapshot(trees, id);
    if (snapshot)
        trees_snapshot_name(snapshot, name);
    pthread_mutex_unlock(&trees->lock);
    if (!snapshot)
        return true;
    int rc = cay_record_remove(trees->snapshots_fd, name);
    if (rc < 0)
        return cay_store_fail(err, rc, "remove snapshot");
    CAY_CRASH_POINT("trees.snapshot_removed");
    pthread_mutex_lock(&trees->lock);
    cay_map_remove(&trees->snapshots, cay_str(snapshot->id));
    trees_unref(trees, snapshot->tree);
    trees_unref(trees, snapshot->base);
    pthread_mutex_unlock(&trees->lock);
    free(snapshot);
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/crash.h"
#include "host/store/trees/trees_internal.h"

/* The session, or a failure. What it points to stays while the caller's call on it runs. */
static struct session *need_session(struct cay_trees *trees, const char *id, struct cay_error *err)
{
    pthread_mutex_lock(&trees->lock);
    struct session *session = trees_session(trees, id);
    pthread_mutex_unlock(&trees->lock);
    if (!session)
        cay_fail(err, CAY_R_SESSION_NOT_FOUND, "the store has no tree of that session");
    return session;
}

/* A tree that has just been cloned from `last` is what that is, until it is changed. */
static bool stamp_clone(struct cay_trees *trees, struct session *session, struct tree *last,
                        struct cay_error *err)
{
    session->last = NULL;
    session->stamp = (struct cay_tree_stamp){};
    if (!last || (!trees->ops->stamp && !trees->ops->is_same))
        return true;
    if (!trees->ops->is_same &&
        !trees->ops->stamp(trees, session->tree->id, true, &session->stamp, err))
        return false;
    pthread_mutex_lock(&trees->lock);
    session->last = trees_ref(last);
    pthread_mutex_unlock(&trees->lock);
    return true;
}

/* Writes down and enters a new session that has the tree `id`. References on base and last are
 * taken here. `last` NULL: it is not the same as any tree that stays. */
static bool add_session(struct cay_trees *trees, const char *session_id, const char *id,
                        struct tree *base, struct tree *last, struct cay_error *err)
{
    struct session *session = cay_new(struct session);
    *session = (struct session){
        .generation = CAY_STORE_GENERATION_FIRST,
        .created_ms = cay_record_now_ms(),
    };
    snprintf(session->id, sizeof(session->id), "%s", session_id);
    pthread_mutex_lock(&trees->lock);
    session->tree = trees_enter(trees, id);
    session->base = trees_ref(base);
    pthread_mutex_unlock(&trees->lock);
    bool ok = stamp_clone(trees, session, last, err);
    if (ok) {
        char name[CAY_RECORD_SIZE];
        trees_session_name(session, name);
        int rc = cay_record_link(trees->root_fd, trees->sessions_fd, name);
        ok = rc == 0 || cay_store_fail(err, rc, "write down session");
    }
    if (ok)
        CAY_CRASH_POINT("trees.session_recorded");
    pthread_mutex_lock(&trees->lock);
    if (ok) {
        cay_map_put(&trees->sessions, cay_str(session->id), session);
    } else {
        trees_unref(trees, session->tree);
        trees_unref(trees, session->base);
        trees_unref(trees, session->last);
    }
    pthread_mutex_unlock(&trees->lock);
    if (!ok)
        free(session);
    return ok;
}

bool cay_trees_create(struct cay_store *store, const char *id,
                      const struct cay_store_source *source, struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    pthread_mutex_lock(&trees->lock);
    bool exists = trees_session(trees, id) != NULL;
    pthread_mutex_unlock(&trees->lock);
    if (exists)
        return true;
    struct tree *from = NULL;
    struct tree *base = NULL;
    char tree[CAY_STORE_ID_SIZE];
    const struct cay_store_ref ref = {.base = source->base, .snapshot = source->snapshot};
    if (!trees_hold(trees, &ref, &from, &base, err))
        return false;
    bool ok = trees_clone(trees, from, tree, err) && add_session(trees, id, tree, base, from, err);
    trees_drop(trees, from);
    trees_drop(trees, base);
    return ok;
}

bool cay_trees_mount(struct cay_store *store, const char *id, const struct cay_store_owner *owner,
                     int *out_root_fd, struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    const struct session *session = need_session(trees, id, err);
    return session && trees_mount_tree(trees, session->tree->id, owner, false, out_root_fd, err);
}

static bool set_limit(struct cay_trees *trees, const struct session *session, uint64_t bytes_max,
                      struct cay_error *err)
{
    const struct cay_tree_limit limit = {
        .session_id = session->id,
        .id = session->tree->id,
        .base = session->base->id,
        .bytes_max = bytes_max,
    };
    return trees->ops->limit(trees, &limit, err);
}

/* The session as it will be on the tree `after->tree`, with everything prepared that may fail. */
static bool prepare(struct cay_trees *trees, struct session *after, struct tree *last,
                    const struct cay_store_owner *owner, int *out_root_fd, struct cay_error *err)
{
    const char *id = after->tree->id;
    if (after->quota_bytes && trees->ops->limit &&
        !set_limit(trees, after, after->quota_bytes, err))
        return false;
    if (!stamp_clone(trees, after, last, err))
        return false;
    if (owner && !trees_mount_tree(trees, id, owner, false, out_root_fd, err))
        return false;
    CAY_CRASH_POINT("trees.switch_mounted");
    return true;
}

/* Gives the session the tree `id`, a clone of `last`; takes references of its own. */
static bool switch_tree(struct cay_trees *trees, struct session *session, const char *id,
                        struct tree *base, struct tree *last, const struct cay_store_owner *owner,
                        int *out_root_fd, struct cay_error *err)
{
    struct session after = *session;
    cay_autoclose int root_fd = -1;
    after.generation++;
    after.last = NULL;
    pthread_mutex_lock(&trees->lock);
    after.tree = trees_enter(trees, id);
    after.base = trees_ref(base);
    pthread_mutex_unlock(&trees->lock);
    struct session before = *session;
    bool ok = prepare(trees, &after, last, owner, &root_fd, err);
    if (ok) {
        int rc = trees_session_change(trees, session, &after);
        ok = rc == 0 || cay_store_fail(err, rc, "write down session");
    }
    if (ok)
        CAY_CRASH_POINT("trees.switch_recorded");
    const struct session *gone = ok ? &before : &after;
    pthread_mutex_lock(&trees->lock);
    trees_unref(trees, gone->tree);
    trees_unref(trees, gone->base);
    trees_unref(trees, gone->last);
    pthread_mutex_unlock(&trees->lock);
    if (ok)
        *out_root_fd = cay_take_fd(root_fd);
    return ok;
}

bool cay_trees_rollback(struct cay_store *store, const char *id, const char *snapshot_id,
                        const struct cay_store_owner *owner, struct cay_store_point *out_point,
                        struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    struct session *session = need_session(trees, id, err);
    if (!session)
        return false;
    struct tree *from = NULL;
    struct tree *base = NULL;
    char tree[CAY_STORE_ID_SIZE];
    int root_fd = -1;
    const struct cay_store_ref ref = {.snapshot = snapshot_id};
    if (!trees_hold(trees, &ref, &from, &base, err))
        return false;
    bool ok = trees_clone(trees, from, tree, err) &&
              switch_tree(trees, session, tree, base, from, owner, &root_fd, err);
    trees_drop(trees, from);
    trees_drop(trees, base);
    if (ok)
        *out_point = (struct cay_store_point){true, root_fd, session->generation};
    return ok;
}

bool cay_trees_fork(struct cay_store *store, const struct cay_store_fork_request *request,
                    struct cay_store_point *out_point, struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    struct session *session = need_session(trees, request->session_id, err);
    if (!session)
        return false;
    pthread_mutex_lock(&trees->lock);
    bool exists = trees_session(trees, request->new_session_id) != NULL;
    pthread_mutex_unlock(&trees->lock);
    *out_point = (struct cay_store_point){false, -1, session->generation};
    if (exists)
        return true;
    char tree[CAY_STORE_ID_SIZE];
    struct tree *last = trees_is_as_last(trees, session) ? session->last : NULL;
    if (last) {
        if (!trees_clone(trees, last, tree, err))
            return false;
    } else {
        cay_store_new_id(tree);
        if (!trees->ops->clone(trees, session->tree->id, tree, false, err)) {
            trees_bury_unlocked(trees, tree);
            return false;
        }
        CAY_CRASH_POINT("trees.fork_cloned");
    }
    out_point->changed = last == NULL;
    return add_session(trees, request->new_session_id, tree, session->base, last, err);
}

bool cay_trees_destroy(struct cay_store *store, const char *id, struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    char name[CAY_RECORD_SIZE];
    pthread_mutex_lock(&trees->lock);
    struct session *session = trees_session(trees, id);
    if (session)
        trees_session_name(session, name);
    pthread_mutex_unlock(&trees->lock);
    int rc = session ? cay_record_remove(trees->sessions_fd, name)
                     : cay_record_remove_of(trees->sessions_fd, id);
    if (rc < 0)
        return cay_store_fail(err, rc, "remove session");
    if (!session)
        return true;
    CAY_CRASH_POINT("trees.session_removed");
    pthread_mutex_lock(&trees->lock);
    cay_map_remove(&trees->sessions, cay_str(session->id));
    trees_unref(trees, session->tree);
    trees_unref(trees, session->base);
    trees_unref(trees, session->last);
    pthread_mutex_unlock(&trees->lock);
    free(session);
    return true;
}

bool cay_trees_set_quota(struct cay_store *store, const char *id, uint64_t bytes_max,
                         struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    struct session *session = need_session(trees, id, err);
    if (!session)
        return false;
    if (session->quota_bytes == bytes_max)
        return true;
    if (!set_limit(trees, session, bytes_max, err))
        return false;
    CAY_CRASH_POINT("trees.quota_set");
    struct session after = *session;
    after.quota_bytes = bytes_max;
    int rc = trees_session_change(trees, session, &after);
    return rc == 0 || cay_store_fail(err, rc, "write down quota");
}

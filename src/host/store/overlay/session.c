/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/crash.h"
#include "host/store/overlay/overlay_internal.h"

/* A reference to the layer to start from. Under the lock. */
static struct ov_layer *source_layer(struct ov_store *ov, const struct cay_store_source *source,
                                     struct cay_error *err)
{
    if (source->snapshot) {
        const struct ov_snapshot *snapshot = ov_find_snapshot(ov, source->snapshot);
        if (snapshot)
            return ov_layer_ref(snapshot->top);
        cay_fail(err, CAY_R_SNAPSHOT_NOT_FOUND, NULL);
        return NULL;
    }
    const struct ov_base *base = ov_find_base(ov, source->base);
    if (base && !base->layer)
        base = ov_find_base(ov, base->target);
    if (base && base->layer)
        return ov_layer_ref(base->layer);
    cay_store_no_base(err, source->base);
    return NULL;
}

/* Writes down and enters a session whose upper is `upper`, taking over the reference. */
static bool add_session(struct ov_store *ov, const char *id, struct ov_layer *upper,
                        struct cay_error *err)
{
    struct ov_session *session = cay_new(struct ov_session);
    *session = (struct ov_session){
        .node = {.id = strtoull(id, NULL, 16)},
        .upper = upper,
        .generation = CAY_STORE_GENERATION_FIRST,
        .created_ms = cay_record_now_ms(),
    };
    char name[CAY_RECORD_SIZE];
    ov_session_name(session, name);
    if (!ov_write_down(ov, ov->sessions_fd, name, &session->node, upper, err))
        return false;
    CAY_CRASH_POINT("store.session_added");
    pthread_mutex_lock(&ov->lock);
    upper->is_upper = true;
    ov_map_add(&ov->sessions, &session->node);
    pthread_mutex_unlock(&ov->lock);
    return true;
}

bool ov_create(struct cay_store *store, const char *id, const struct cay_store_source *source,
               struct cay_error *err)
{
    struct ov_store *ov = ov_of(store);
    pthread_mutex_lock(&ov->lock);
    bool exists = ov_find_session(ov, id) != NULL;
    struct ov_layer *parent = exists ? NULL : source_layer(ov, source, err);
    pthread_mutex_unlock(&ov->lock);
    if (exists || !parent)
        return exists;
    struct ov_layer *upper = NULL;
    return ov_layer_new(ov, parent, &upper, err) && add_session(ov, id, upper, err);
}

/* The session, or a failure. What it points to stays while the caller's call on it runs. */
static struct ov_session *need_session(struct ov_store *ov, const char *id, struct cay_error *err)
{
    pthread_mutex_lock(&ov->lock);
    struct ov_session *session = ov_find_session(ov, id);
    pthread_mutex_unlock(&ov->lock);
    if (!session)
        cay_fail(err, CAY_R_SESSION_NOT_FOUND, "the store has no tree of that session");
    return session;
}

bool ov_mount(struct cay_store *store, const char *id, const struct cay_store_owner *owner,
              int *out_root_fd, struct cay_error *err)
{
    struct ov_store *ov = ov_of(store);
    const struct ov_session *session = need_session(ov, id, err);
    return session && ov_layer_mount(ov, session->upper, owner, out_root_fd, err);
}

bool ov_session_switch(struct ov_store *ov, struct ov_session *session, struct ov_layer *upper,
                       struct cay_error *err)
{
    struct ov_session changed = *session;
    changed.upper = upper;
    changed.copy = NULL;
    changed.generation++;
    int rc = ov_session_change(ov, session, &changed);
    if (rc < 0) {
        ov_drop(ov, upper);
        return cay_store_fail(err, rc, "write down session");
    }
    CAY_CRASH_POINT("store.switch_recorded");
    pthread_mutex_lock(&ov->lock);
    struct ov_layer *old = session->upper;
    struct ov_layer *copy = session->copy;
    old->is_upper = false;
    upper->is_upper = true;
    session->upper = upper;
    session->copy = NULL;
    session->generation = changed.generation;
    ov_layer_unref(ov, old);
    ov_layer_unref(ov, copy);
    pthread_mutex_unlock(&ov->lock);
    return true;
}

/* A new upper on `parent` (whose reference passes over), mounted when an owner is given. */
static bool prepare_upper(struct ov_store *ov, struct ov_layer *parent,
                          const struct cay_store_owner *owner, struct ov_layer **out_upper,
                          int *out_root_fd, struct cay_error *err)
{
    struct ov_layer *upper = NULL;
    if (!ov_layer_new(ov, parent, &upper, err))
        return false;
    *out_root_fd = -1;
    if (owner && !ov_layer_mount(ov, upper, owner, out_root_fd, err)) {
        ov_drop(ov, upper);
        return false;
    }
    CAY_CRASH_POINT("store.switch_mounted");
    *out_upper = upper;
    return true;
}

bool ov_upper_freeze(struct ov_store *ov, const struct ov_session *session,
                     const struct cay_store_owner *owner, struct ov_layer **out_frozen,
                     struct ov_layer **out_upper, int *out_root_fd, struct cay_error *err)
{
    pthread_mutex_lock(&ov->lock);
    struct ov_layer *frozen = ov_layer_ref(session->upper);
    ov_layer_ref(frozen); /* for the new upper, which stands on it */
    pthread_mutex_unlock(&ov->lock);
    if (!prepare_upper(ov, ov_flat_form(ov, frozen), owner, out_upper, out_root_fd, err)) {
        ov_drop(ov, frozen);
        return false;
    }
    *out_frozen = frozen;
    return true;
}

bool ov_rollback(struct cay_store *store, const char *id, const char *snapshot_id,
                 const struct cay_store_owner *owner, struct cay_store_point *out_point,
                 struct cay_error *err)
{
    struct ov_store *ov = ov_of(store);
    struct ov_session *session = need_session(ov, id, err);
    if (!session)
        return false;
    struct cay_store_source source = {.snapshot = snapshot_id};
    pthread_mutex_lock(&ov->lock);
    struct ov_layer *parent = source_layer(ov, &source, err);
    pthread_mutex_unlock(&ov->lock);
    struct ov_layer *upper = NULL;
    cay_autoclose int root_fd = -1;
    if (!parent || !prepare_upper(ov, parent, owner, &upper, &root_fd, err) ||
        !ov_session_switch(ov, session, upper, err))
        return false;
    *out_point = (struct cay_store_point){true, cay_take_fd(root_fd), session->generation};
    return true;
}

/* The new session is written down before the old one is switched: until then it stands on a layer
 * that is still an upper, which recovery takes for "not done" and removes. */
static bool fork_quiet(struct ov_store *ov, struct ov_session *session,
                       const struct cay_store_fork_request *request,
                       struct cay_store_point *out_point, struct cay_error *err)
{
    struct ov_layer *frozen = NULL;
    struct ov_layer *upper = NULL;
    cay_autoclose int root_fd = -1;
    if (!ov_upper_freeze(ov, session, request->owner, &frozen, &upper, &root_fd, err))
        return false;
    struct ov_layer *forked = NULL;
    if (!ov_layer_new(ov, frozen, &forked, err) ||
        !add_session(ov, request->new_session_id, forked, err)) {
        ov_drop(ov, upper);
        return false;
    }
    if (!ov_session_switch(ov, session, upper, err)) {
        struct cay_error ignored;
        (void)ov_destroy(&ov->store, request->new_session_id, &ignored);
        return false;
    }
    *out_point = (struct cay_store_point){true, cay_take_fd(root_fd), session->generation};
    return true;
}

bool ov_fork(struct cay_store *store, const struct cay_store_fork_request *request,
             struct cay_store_point *out_point, struct cay_error *err)
{
    struct ov_store *ov = ov_of(store);
    struct ov_session *session = need_session(ov, request->session_id, err);
    if (!session)
        return false;
    pthread_mutex_lock(&ov->lock);
    bool exists = ov_find_session(ov, request->new_session_id) != NULL;
    pthread_mutex_unlock(&ov->lock);
    *out_point = (struct cay_store_point){false, -1, session->generation};
    if (exists)
        return true;
    /* A point that needs no switch, when there is one; else the upper is frozen or copied. */
    struct ov_layer *top = NULL;
    bool changed = false;
    if (!ov_point_of(ov, session, request->activity == CAY_STORE_FROZEN, &top, &changed, err))
        return false;
    if (!top)
        return fork_quiet(ov, session, request, out_point, err);
    struct ov_layer *upper = NULL;
    return ov_layer_new(ov, top, &upper, err) &&
           add_session(ov, request->new_session_id, upper, err);
}

bool ov_destroy(struct cay_store *store, const char *id, struct cay_error *err)
{
    struct ov_store *ov = ov_of(store);
    char name[CAY_RECORD_SIZE];
    pthread_mutex_lock(&ov->lock);
    struct ov_session *session = ov_find_session(ov, id);
    if (session)
        ov_session_name(session, name);
    pthread_mutex_unlock(&ov->lock);
    int rc = session ? cay_record_remove(ov->sessions_fd, name)
                     : cay_record_remove_of(ov->sessions_fd, id);
    if (rc < 0)
        return cay_store_fail(err, rc, "remove session");
    if (!session)
        return true;
    CAY_CRASH_POINT("store.session_removed");
    pthread_mutex_lock(&ov->lock);
    session->upper->is_upper = false;
    ov_layer_unref(ov, session->upper);
    ov_layer_unref(ov, session->copy);
    ov_map_remove(&ov->sessions, &session->node);
    pthread_mutex_unlock(&ov->lock);
    free(session);
    return true;
}

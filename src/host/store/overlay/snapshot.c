/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/crash.h"
#include "host/store/copy.h"
#include "host/store/copy_index.h"
#include "host/store/overlay/overlay_internal.h"

static int open_layer_dir(struct ov_store *ov, const struct ov_layer *layer)
{
    char name[CAY_STORE_ID_SIZE];
    ov_id_text(layer->node.id, name);
    int fd = openat(ov->layers_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* The index of the session's last copy; false when there is none that can be used. */
static bool load_previous(struct ov_store *ov, const struct ov_session *session,
                          struct cay_copy_index *out_index, int *out_dir_fd)
{
    if (!session->copy)
        return false;
    cay_autoclose int dir_fd = open_layer_dir(ov, session->copy);
    if (dir_fd < 0 || cay_copy_index_load(out_index, dir_fd, "i") < 0)
        return false;
    *out_dir_fd = cay_take_fd(dir_fd);
    return true;
}

/* The upper as it is now, copied into a layer of its own. It stands on what the upper stands on:
 * marks of renamed directories name what lies below the upper. */
static bool copy_upper(struct ov_store *ov, struct ov_session *session, int upper_fd,
                       const struct cay_copy_index *previous, int previous_fd,
                       struct ov_layer **out_layer, struct cay_error *err)
{
    char name[CAY_STORE_ID_SIZE];
    cay_store_new_id(name);
    uint64_t id = strtoull(name, NULL, 16);
    cay_autoclose int dir_fd = -1;
    bool ok = ov_layer_dirs(ov, id, &dir_fd, err);
    cay_auto(cay_copy_index_finish) struct cay_copy_index index;
    cay_copy_index_init(&index);
    if (ok) {
        cay_autoclose int to_fd =
            openat(dir_fd, "d", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct cay_copy_request request = {
            .rule = CAY_COPY_LAYER,
            .from_fd = upper_fd,
            .to_fd = to_fd,
            .previous_fd = previous_fd,
            .previous = previous,
            .index = &index,
        };
        struct cay_copy_stats stats;
        ok = to_fd < 0 ? cay_store_fail(err, -errno, "open layer")
                       : cay_copy_tree(&request, &stats, err);
    }
    if (ok) {
        int rc = cay_copy_index_save(&index, dir_fd, "i");
        ok = rc == 0 || cay_store_fail(err, rc, "write index");
    }
    CAY_CRASH_POINT("store.copy_done");
    if (ok) {
        pthread_mutex_lock(&ov->lock);
        struct ov_layer *parent = ov_layer_ref(session->upper->parent);
        pthread_mutex_unlock(&ov->lock);
        if (ov_layer_ready(ov, id, dir_fd, parent, out_layer, err))
            return true;
    }
    pthread_mutex_lock(&ov->lock);
    ov_bury(ov, id);
    pthread_mutex_unlock(&ov->lock);
    return false;
}

/* Remembers the copy for the next one to build upon. Losing this costs time, nothing else. */
static bool keep_copy(struct ov_store *ov, struct ov_session *session, struct ov_layer *layer,
                      struct cay_error *err)
{
    struct ov_session changed = *session;
    changed.copy = layer;
    int rc = ov_session_change(ov, session, &changed);
    if (rc < 0)
        return cay_store_fail(err, rc, "write down session");
    CAY_CRASH_POINT("store.copy_recorded");
    pthread_mutex_lock(&ov->lock);
    ov_layer_unref(ov, session->copy);
    session->copy = ov_layer_ref(layer);
    pthread_mutex_unlock(&ov->lock);
    return true;
}

bool ov_point_of(struct ov_store *ov, struct ov_session *session, bool may_copy,
                 struct ov_layer **out_top, bool *out_changed, struct cay_error *err)
{
    bool unchanged = false;
    *out_top = NULL;
    *out_changed = false;
    if (!ov_layer_unchanged(ov, session->upper, &unchanged, err))
        return false;
    struct ov_layer *shared = unchanged ? session->upper->parent : NULL;
    cay_auto(cay_copy_index_finish) struct cay_copy_index previous = {};
    cay_autoclose int previous_dir = -1;
    cay_autoclose int upper_fd = -1;
    bool have_previous = !unchanged && load_previous(ov, session, &previous, &previous_dir);
    if (!unchanged && (have_previous || may_copy)) {
        upper_fd = ov_layer_open(ov, session->upper);
        if (upper_fd < 0)
            return cay_store_fail(err, upper_fd, "open layer");
    }
    if (have_previous && !previous.racy) {
        cay_auto(cay_copy_index_finish) struct cay_copy_index now;
        cay_copy_index_init(&now);
        if (cay_copy_index_scan(&now, upper_fd) == 0 && cay_copy_index_same(&previous, &now))
            shared = session->copy;
    }
    if (shared) {
        pthread_mutex_lock(&ov->lock);
        *out_top = ov_layer_ref(shared);
        pthread_mutex_unlock(&ov->lock);
        return true;
    }
    *out_changed = true;
    if (!may_copy)
        return true;
    cay_autoclose int previous_fd =
        have_previous ? openat(previous_dir, "d", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                      : -1;
    struct ov_layer *copied = NULL;
    if (!copy_upper(ov, session, upper_fd, previous_fd >= 0 ? &previous : NULL, previous_fd,
                    &copied, err))
        return false;
    *out_top = copied;
    return true;
}

/* Writes down and enters the snapshot; takes over the reference. */
static bool add_snapshot(struct ov_store *ov, const char *id, struct ov_layer *top, bool changed,
                         struct cay_error *err)
{
    struct ov_snapshot *snapshot = cay_new(struct ov_snapshot);
    *snapshot = (struct ov_snapshot){
        .node = {.id = strtoull(id, NULL, 16)},
        .top = top,
        .changed = changed,
        .created_ms = cay_record_now_ms(),
    };
    char name[CAY_RECORD_SIZE];
    ov_snapshot_name(snapshot, name);
    if (!ov_write_down(ov, ov->snapshots_fd, name, &snapshot->node, top, err))
        return false;
    CAY_CRASH_POINT("store.snapshot_added");
    pthread_mutex_lock(&ov->lock);
    ov_map_add(&ov->snapshots, &snapshot->node);
    pthread_mutex_unlock(&ov->lock);
    return true;
}

/* The upper becomes the snapshot and the session goes on with a new one. Until the session's record
 * says so the snapshot names a layer that is still an upper: recovery takes that for "not done". */
static bool freeze_upper(struct ov_store *ov, struct ov_session *session,
                         const struct cay_store_snapshot_request *request,
                         struct cay_store_point *out_point, struct cay_error *err)
{
    struct ov_layer *frozen = NULL;
    struct ov_layer *upper = NULL;
    cay_autoclose int root_fd = -1;
    if (!ov_upper_freeze(ov, session, request->owner, &frozen, &upper, &root_fd, err))
        return false;
    if (!add_snapshot(ov, request->snapshot_id, frozen, true, err)) {
        ov_drop(ov, upper);
        return false;
    }
    if (!ov_session_switch(ov, session, upper, err)) {
        struct cay_error ignored;
        (void)ov_delete_snapshot(&ov->store, request->snapshot_id, &ignored);
        return false;
    }
    *out_point = (struct cay_store_point){true, cay_take_fd(root_fd), session->generation};
    return true;
}

/* Is this layer what the session's last snapshot, or its base, is? A fork freezes the upper, too:
 * then nothing was written since, and yet no snapshot has what lies below. */
static bool is_predecessor(struct ov_store *ov, const char *previous_id,
                           const struct ov_layer *layer)
{
    if (!previous_id || !*previous_id)
        return !previous_id || !layer->parent;
    pthread_mutex_lock(&ov->lock);
    const struct ov_snapshot *previous = ov_find_snapshot(ov, previous_id);
    bool is_same = previous && (previous->top == layer ||
                                (layer->same_as && previous->top->node.id == layer->same_as));
    pthread_mutex_unlock(&ov->lock);
    return is_same;
}

static bool take(struct ov_store *ov, struct ov_session *session,
                 const struct cay_store_snapshot_request *request,
                 struct cay_store_point *out_point, struct cay_error *err)
{
    bool frozen = request->activity == CAY_STORE_FROZEN;
    struct ov_layer *top = NULL;
    bool is_copied = false;
    if (!ov_point_of(ov, session, frozen, &top, &is_copied, err))
        return false;
    if (!top)
        return freeze_upper(ov, session, request, out_point, err);
    bool changed = is_copied || !is_predecessor(ov, request->previous_id, top);
    if (!add_snapshot(ov, request->snapshot_id, top, changed, err))
        return false;
    if (is_copied) {
        struct cay_error ignored;
        (void)keep_copy(ov, session, top, &ignored);
    }
    *out_point = (struct cay_store_point){changed, -1, session->generation};
    return true;
}

bool ov_snapshot(struct cay_store *store, const struct cay_store_snapshot_request *request,
                 struct cay_store_point *out_point, struct cay_error *err)
{
    struct ov_store *ov = ov_of(store);
    struct cay_store_point point = {.root_fd = -1};
    pthread_mutex_lock(&ov->lock);
    struct ov_session *session = ov_find_session(ov, request->session_id);
    const struct ov_snapshot *existing = ov_find_snapshot(ov, request->snapshot_id);
    if (existing)
        point.changed = existing->changed;
    if (session)
        point.generation = session->generation;
    pthread_mutex_unlock(&ov->lock);
    if (!session)
        return cay_fail(err, CAY_R_SESSION_NOT_FOUND, "the store has no tree of that session");
    if (!existing && !take(ov, session, request, &point, err))
        return false;
    *out_point = point; /* the session has gone on, whatever comes of the sync */
    return !request->durable || syncfs(ov->root_fd) == 0 || cay_store_fail(err, -errno, "sync");
}

bool ov_delete_snapshot(struct cay_store *store, const char *id, struct cay_error *err)
{
    struct ov_store *ov = ov_of(store);
    char name[CAY_RECORD_SIZE];
    pthread_mutex_lock(&ov->lock);
    struct ov_snapshot *snapshot = ov_find_snapshot(ov, id);
    if (snapshot)
        ov_snapshot_name(snapshot, name);
    pthread_mutex_unlock(&ov->lock);
    if (!snapshot)
        return true;
    int rc = cay_record_remove(ov->snapshots_fd, name);
    if (rc < 0)
        return cay_store_fail(err, rc, "remove snapshot");
    CAY_CRASH_POINT("store.snapshot_removed");
    pthread_mutex_lock(&ov->lock);
    ov_layer_unref(ov, snapshot->top);
    ov_map_remove(&ov->snapshots, &snapshot->node);
    pthread_mutex_unlock(&ov->lock);
    free(snapshot);
    return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/past/restore.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/crash.h"
#include "base/stop.h"
#include "host/past/change.h"
#include "host/store/diff.h"
#include "host/store/links.h"
#include "sys/fsid.h"

enum {
    PATHS_MAX = 4'000'000,
    ENTRIES_MAX = 1000, /* in the answer */
};

void cay_restoring_init(struct cay_restoring *restoring)
{
    *restoring = (struct cay_restoring){.root_fd = -1, .view_fd = -1};
}

void cay_restoring_finish(struct cay_restoring *restoring)
{
    for (size_t i = 0; i < restoring->path_count; i++)
        free(restoring->paths[i]);
    free(restoring->paths);
    cay_cleanup_close(&restoring->view_fd);
}

/* Seen from the live files: what the snapshot has and they have not will be added. */
static void count(struct cay_restoring *restoring, enum cay_diff_kind kind)
{
    struct cay_v1_change_counts *counts = &restoring->counts;
    if (kind == CAY_DIFF_DELETED)
        counts->added++;
    else if (kind == CAY_DIFF_ADDED)
        counts->deleted++;
    else
        counts->modified++;
}

static bool on_change(void *context, const struct cay_diff_entry *change)
{
    struct cay_restoring *restoring = context;
    if (!cay_change_is_wanted(restoring->request->paths, cay_str(change->path)) ||
        (restoring->request->keep_extra && change->kind == CAY_DIFF_ADDED))
        return true;
    restoring->is_too_deep = restoring->is_too_deep || change->is_too_deep;
    if (restoring->path_count == PATHS_MAX) {
        restoring->is_full = true;
        return false;
    }
    size_t at = restoring->path_count;
    if (at % 1024 == 0)
        restoring->paths =
            cay_realloc_array(restoring->paths, at + 1024, sizeof(*restoring->paths));
    restoring->paths[restoring->path_count++] = cay_strdup(change->path);
    if (change->before.dir_fd >= 0 && S_ISREG(change->before.st.st_mode) &&
        change->before.st.st_nlink > 1)
        restoring->has_links = true;
    count(restoring, change->kind);
    if (!restoring->arena || restoring->entries.count == ENTRIES_MAX)
        return true;
    if (!restoring->entries.items)
        restoring->entries.items =
            cay_arena_array(restoring->arena, ENTRIES_MAX, sizeof(*restoring->entries.items));
    if (restoring->entries.items &&
        cay_change_message(change, restoring->arena,
                           &restoring->entries.items[restoring->entries.count]))
        restoring->entries.count++;
    return true;
}

/* Directories above a path are made if they are missing, but nothing is taken away for them. */
static bool check_above(const struct cay_restoring *restoring, const char *path,
                        struct cay_error *err)
{
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        cay_autofree char *above = cay_strndup(path, (size_t)(slash - path));
        if (cay_restore_is_dir(restoring->root_fd, above) != 0)
            continue;
        return cay_change_is_wanted(restoring->request->paths, cay_str(above)) ||
               cay_fail(err, CAY_R_INVALID_STATE,
                        "'/%.100s': '/%.100s' is something else now; restore that one", path,
                        above);
    }
    return true;
}

static bool check_paths(const struct cay_restoring *restoring, struct cay_error *err)
{
    const struct cay_pb_strs paths = restoring->request->paths;
    for (size_t i = 0; i < paths.count; i++) {
        cay_autofree char *path = cay_strndup(paths.items[i].ptr + 1, paths.items[i].len - 1);
        bool is_in_view = cay_restore_has(restoring->view_fd, path) == 0;
        if (!is_in_view && cay_restore_has(restoring->root_fd, path) < 0)
            return cay_fail(err, CAY_R_FILE_NOT_FOUND,
                            "'/%.200s' is neither in the snapshot nor in the session now", path);
        if (is_in_view && !check_above(restoring, path, err))
            return false;
    }
    return true;
}

static bool has_changed_name(const struct cay_link_group *group, const struct cay_map *changed)
{
    for (const struct cay_link_name *name = group->first; name; name = name->next) {
        if (cay_map_get(changed, cay_str(name->path)))
            return true;
    }
    return false;
}

/* A file with several names comes back under all of them that were asked for, so that they are one
 * file again. Those that do not differ come first: while the others still do, a daemon that was
 * killed begins anew with all of them. */
static bool add_linked(struct cay_restoring *restoring, struct cay_error *err)
{
    const struct cay_pb_strs wanted = restoring->request->paths;
    cay_auto(cay_links_finish) struct cay_links links;
    cay_auto(cay_map_finish) struct cay_map changed;
    cay_links_init(&links);
    cay_map_init(&changed);
    for (size_t i = 0; i < wanted.count; i++) {
        cay_autofree char *path = cay_strndup(wanted.items[i].ptr + 1, wanted.items[i].len - 1);
        if (!cay_links_read_path(&links, restoring->view_fd, path, err))
            return false;
    }
    for (size_t i = 0; i < restoring->path_count; i++)
        cay_map_put(&changed, cay_str(restoring->paths[i]), restoring->paths[i]);
    char **paths = NULL;
    size_t count = 0;
    for (const struct cay_link_group *group = links.groups; group; group = group->next) {
        if (group->count < 2 || !has_changed_name(group, &changed))
            continue;
        paths = cay_realloc_array(paths, count + group->count, sizeof(*paths));
        for (const struct cay_link_name *name = group->first; name; name = name->next) {
            if (!cay_map_get(&changed, cay_str(name->path)))
                paths[count++] = cay_strdup(name->path);
        }
    }
    paths = cay_realloc_array(paths, count + restoring->path_count, sizeof(*paths));
    memcpy(paths + count, restoring->paths, restoring->path_count * sizeof(*paths));
    free(restoring->paths);
    restoring->paths = paths;
    restoring->path_count += count;
    return true;
}

bool cay_restoring_find(struct cay_restoring *restoring, struct cay_error *err)
{
    const struct cay_store_ref snapshot = {.snapshot = restoring->snapshot_id};
    const struct cay_diff_request request = {
        .from = snapshot,
        .to.session = restoring->session_id,
        .expand_deleted = true,
        .visit = on_change,
        .ctx = restoring,
    };
    struct cay_diff_stats stats = {};
    if (!cay_store_view(restoring->store, &snapshot, &restoring->owner, &restoring->view_fd, err) ||
        !check_paths(restoring, err) || !cay_store_diff(restoring->store, &request, &stats, err))
        return false;
    if (restoring->is_too_deep)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "directories in it are nested more than 400 deep; restore other paths, or "
                        "roll back");
    if (restoring->is_full)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "more than %d paths differ; restore fewer at a time, or roll back",
                        PATHS_MAX);
    return !restoring->has_links || add_linked(restoring, err);
}

static bool apply(struct cay_restoring *restoring, struct cay_error *err)
{
    cay_auto(cay_restore_finish) struct cay_restore restore;
    cay_restore_init(&restore, restoring->view_fd, restoring->root_fd, restoring->snapshot_id);
    for (size_t i = 0; i < restoring->path_count; i++) {
        if (cay_stop_asked())
            return cay_fail(err, CAY_R_CANCELED, NULL);
        if (!cay_restore_path(&restore, restoring->paths[i], err))
            return false;
        CAY_CRASH_POINT("restore.path");
    }
    return cay_restore_settle(&restore, err);
}

bool cay_restoring_apply(struct cay_restoring *restoring, struct cay_error *err)
{
    struct cay_fsid fsid;
    int rc = cay_fsid_enter(&fsid, restoring->owner.id_base);
    if (rc < 0)
        return cay_fail_errno(err, CAY_R_INTERNAL, rc, "act as the session's root");
    bool is_done = apply(restoring, err);
    cay_fsid_leave(&fsid);
    return is_done;
}

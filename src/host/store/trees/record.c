/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/store/dir_list.h"
#include "host/store/trees/trees_internal.h"

static const char no_id[] = "0000000000000000";

void trees_session_name(const struct session *session, char out[static CAY_RECORD_SIZE])
{
    snprintf(out, CAY_RECORD_SIZE,
             "%s,%s,%s,%s,%" PRIx64 ",%" PRIx64 ",%" PRIu64 ",%" PRId64 ",%" PRIu64, session->id,
             session->tree->id, session->base->id, session->last ? session->last->id : no_id,
             session->stamp.words[0], session->stamp.words[1], session->generation,
             session->created_ms, session->quota_bytes);
}

void trees_snapshot_name(const struct snapshot *snapshot, char out[static CAY_RECORD_SIZE])
{
    snprintf(out, CAY_RECORD_SIZE, "%s,%s,%s,%" PRId64 ",%d", snapshot->id, snapshot->tree->id,
             snapshot->base->id, snapshot->created_ms, snapshot->changed);
}

int trees_session_change(struct cay_trees *trees, struct session *session,
                         const struct session *after)
{
    char old_name[CAY_RECORD_SIZE];
    char new_name[CAY_RECORD_SIZE];
    trees_session_name(session, old_name);
    trees_session_name(after, new_name);
    if (renameat(trees->sessions_fd, old_name, trees->sessions_fd, new_name) < 0)
        return -errno;
    pthread_mutex_lock(&trees->lock);
    *session = *after;
    pthread_mutex_unlock(&trees->lock);
    return 0;
}

/* --- reading them; nobody else is here yet, so nothing is locked --- */

/* A tree that a record names, referenced; NULL when it is not there. */
static struct tree *named(struct cay_trees *trees, const char *id)
{
    struct tree *tree = cay_map_get(&trees->trees, cay_str(id));
    return tree ? trees_ref(tree) : NULL;
}

/* Every tree on disk is entered; what no record takes up is unreferenced at the end. */
static bool load_trees(struct cay_trees *trees, struct cay_error *err)
{
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    int rc = cay_dir_list_read(&names, trees->trees_fd);
    if (rc < 0)
        return cay_store_fail(err, rc, "read the directory of trees");
    for (size_t i = 0; i < names.count; i++) {
        const char *name = cay_dir_list_name(&names, i);
        if (cay_store_id_valid(name))
            (void)trees_enter(trees, name);
    }
    return true;
}

static void load_session(struct cay_trees *trees, const char *name)
{
    struct session found = {};
    char tree[CAY_STORE_ID_SIZE];
    char base[CAY_STORE_ID_SIZE];
    char last[CAY_STORE_ID_SIZE];
    if (sscanf(name,
               "%16[0-9a-f],%16[0-9a-f],%16[0-9a-f],%16[0-9a-f],%" SCNx64 ",%" SCNx64 ",%" SCNu64
               ",%" SCNd64 ",%" SCNu64,
               found.id, tree, base, last, &found.stamp.words[0], &found.stamp.words[1],
               &found.generation, &found.created_ms, &found.quota_bytes) != 9 ||
        !cay_store_id_valid(found.id) || trees_session(trees, found.id))
        return;
    found.tree = named(trees, tree);
    found.base = named(trees, base);
    found.last = named(trees, last);
    if (!found.tree || !found.base) {
        trees_unref(trees, found.tree);
        trees_unref(trees, found.base);
        trees_unref(trees, found.last);
        return; /* damage: the record stays for a human */
    }
    struct session *session = cay_new(struct session);
    *session = found;
    cay_map_put(&trees->sessions, cay_str(session->id), session);
}

static void load_snapshot(struct cay_trees *trees, const char *name)
{
    struct snapshot found = {};
    char tree[CAY_STORE_ID_SIZE];
    char base[CAY_STORE_ID_SIZE];
    int changed = 0;
    if (sscanf(name, "%16[0-9a-f],%16[0-9a-f],%16[0-9a-f],%" SCNd64 ",%d", found.id, tree, base,
               &found.created_ms, &changed) != 5 ||
        !cay_store_id_valid(found.id) || trees_snapshot(trees, found.id))
        return;
    found.changed = changed != 0;
    found.tree = named(trees, tree);
    found.base = named(trees, base);
    if (!found.tree || !found.base) {
        trees_unref(trees, found.tree);
        trees_unref(trees, found.base);
        return;
    }
    struct snapshot *snapshot = cay_new(struct snapshot);
    *snapshot = found;
    cay_map_put(&trees->snapshots, cay_str(snapshot->id), snapshot);
}

static void load_name(struct cay_trees *trees, int dir_fd, const char *name)
{
    char text[CAY_STORE_NAME_SIZE + 1];
    char tree[CAY_STORE_ID_SIZE];
    struct name found = {};
    bool is_alias = dir_fd == trees->aliases_fd;
    if (cay_record_is_leftover(dir_fd, name) || !cay_store_base_name_valid(name) ||
        cay_record_read(dir_fd, name, text, sizeof(text)) < 0)
        return;
    if (trees_name(trees, name)) { /* a base has taken the place of the alias */
        (void)cay_record_remove(dir_fd, name);
        return;
    }
    if (is_alias && !cay_store_base_name_valid(text))
        return;
    if (!is_alias && sscanf(text, "1 %16[0-9a-f] %" SCNd64, tree, &found.created_ms) != 2)
        return;
    found.tree = is_alias ? NULL : named(trees, tree);
    if (!is_alias && !found.tree)
        return;
    snprintf(found.name, sizeof(found.name), "%s", name);
    if (is_alias)
        snprintf(found.target, sizeof(found.target), "%.128s", text);
    struct name *kept = cay_new(struct name);
    *kept = found;
    cay_map_put(&trees->names, cay_str(kept->name), kept);
}

static bool load_records(struct cay_trees *trees, int dir_fd, struct cay_error *err)
{
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    int rc = cay_dir_list_read(&names, dir_fd);
    if (rc < 0)
        return cay_store_fail(err, rc, "read records");
    for (size_t i = 0; i < names.count; i++) {
        const char *name = cay_dir_list_name(&names, i);
        if (dir_fd == trees->sessions_fd)
            load_session(trees, name);
        else if (dir_fd == trees->snapshots_fd)
            load_snapshot(trees, name);
        else
            load_name(trees, dir_fd, name);
    }
    return true;
}

/* Gives back the reference that each tree was entered with. */
static void release_all(struct cay_trees *trees)
{
    size_t count = 0;
    size_t cursor = 0;
    cay_autofree struct tree **all =
        cay_alloc((cay_map_count(&trees->trees) + 1) * sizeof(struct tree *));
    for (struct tree *tree; (tree = cay_map_next(&trees->trees, &cursor));)
        all[count++] = tree;
    for (size_t i = 0; i < count; i++)
        trees_unref(trees, all[i]);
}

bool trees_load(struct cay_trees *trees, struct cay_error *err)
{
    if (!load_trees(trees, err) || !load_records(trees, trees->sessions_fd, err) ||
        !load_records(trees, trees->snapshots_fd, err) ||
        !load_records(trees, trees->bases_fd, err) || !load_records(trees, trees->aliases_fd, err))
        return false;
    release_all(trees);
    return true;
}

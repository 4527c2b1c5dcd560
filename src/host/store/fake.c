/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A store in memory, for the tests of the rooms above: every session, snapshot and base is a whole
 * tree in a tmpfs that is mounted nowhere and vanishes with the store (without the right to mount,
 * in the configured directory). Nothing is mapped or shared below the level of whole trees, nothing
 * survives close; what the verbs promise otherwise holds, and the conformance suite says so.
 */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "host/store/copy.h"
#include "host/store/copy_index.h"
#include "host/store/diff_walk.h"
#include "host/store/store_ops.h"
#include "sys/mount.h"
#include "sys/remove.h"

struct tree {
    char name[CAY_STORE_ID_SIZE]; /* its directory */
    uint64_t number;
    uint32_t refs;
};

struct item {
    struct item *next;
    enum cay_store_item_kind kind;
    char name[CAY_STORE_NAME_SIZE];
    char target[CAY_STORE_NAME_SIZE];
    struct tree *tree;
    struct tree *origin;        /* of a session or snapshot: the base's tree */
    struct tree *last;          /* of a session: the tree its last snapshot got, */
    struct cay_copy_index seen; /* and what its own looked like then */
    uint64_t generation;
    bool changed;
};

struct fake {
    struct cay_store store; /* first */
    int root_fd;
    pthread_mutex_t lock;
    struct item *items;
    uint64_t last_number;
};

static struct fake *fake_of(struct cay_store *store)
{
    return (struct fake *)store;
}

static struct item *find(struct fake *fake, enum cay_store_item_kind kind, const char *name)
{
    struct item *item = fake->items;
    while (item && (item->kind != kind || strcmp(item->name, name)))
        item = item->next;
    return item;
}

static struct item *add(struct fake *fake, enum cay_store_item_kind kind, const char *name,
                        struct tree *tree)
{
    struct item *item = cay_new(struct item);
    item->next = fake->items;
    item->kind = kind;
    item->tree = tree;
    item->generation = 1;
    snprintf(item->name, sizeof(item->name), "%s", name);
    fake->items = item;
    return item;
}

static void tree_unref(struct fake *fake, struct tree *tree)
{
    if (!tree || --tree->refs > 0)
        return;
    (void)cay_remove_tree(fake->root_fd, tree->name, NULL);
    free(tree);
}

static void forget(struct fake *fake, struct item *item)
{
    struct item **slot = &fake->items;
    while (*slot != item)
        slot = &(*slot)->next;
    *slot = item->next;
    tree_unref(fake, item->tree);
    tree_unref(fake, item->last);
    tree_unref(fake, item->origin);
    cay_copy_index_finish(&item->seen);
    free(item);
}

static int tree_open(struct fake *fake, const struct tree *tree)
{
    int fd = openat(fake->root_fd, tree->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static struct tree *tree_new(struct fake *fake, struct cay_error *err)
{
    struct tree *tree = cay_new(struct tree);
    cay_store_new_id(tree->name);
    tree->refs = 1;
    tree->number = ++fake->last_number;
    if (mkdirat(fake->root_fd, tree->name, 0755) == 0)
        return tree;
    cay_store_fail(err, -errno, "make tree");
    free(tree);
    return NULL;
}

static bool fill(struct fake *fake, const struct tree *from, int to_fd, struct cay_error *err)
{
    cay_autoclose int from_fd = tree_open(fake, from);
    struct cay_copy_request request = {
        .rule = CAY_COPY_LAYER, .from_fd = from_fd, .to_fd = to_fd, .previous_fd = -1};
    struct cay_copy_stats stats;
    return cay_copy_tree(&request, &stats, err);
}

static struct tree *tree_copy(struct fake *fake, const struct tree *from, struct cay_error *err)
{
    struct tree *tree = tree_new(fake, err);
    if (!tree)
        return NULL;
    cay_autoclose int to_fd = tree_open(fake, tree);
    if (fill(fake, from, to_fd, err))
        return tree;
    tree_unref(fake, tree);
    return NULL;
}

static struct tree *source_tree(struct fake *fake, const struct cay_store_ref *ref,
                                struct cay_error *err)
{
    const struct item *item = NULL;
    if (ref->session || ref->origin) {
        item = find(fake, CAY_STORE_ITEM_SESSION, ref->session ? ref->session : ref->origin);
        if (!item)
            cay_fail(err, CAY_R_SESSION_NOT_FOUND, NULL);
        else if (ref->origin)
            return item->origin;
    } else if (ref->snapshot) {
        item = find(fake, CAY_STORE_ITEM_SNAPSHOT, ref->snapshot);
        if (!item)
            cay_fail(err, CAY_R_SNAPSHOT_NOT_FOUND, NULL);
    } else {
        const struct item *alias = find(fake, CAY_STORE_ITEM_ALIAS, ref->base);
        item = find(fake, CAY_STORE_ITEM_BASE, alias ? alias->target : ref->base);
        if (!item)
            cay_store_no_base(err, ref->base);
    }
    return item ? item->tree : NULL;
}

/* The session has just become a copy of `from`: its next snapshot may share that. */
static void set_last(struct fake *fake, struct item *session, struct tree *from)
{
    from->refs++;
    tree_unref(fake, session->last);
    session->last = from;
    cay_copy_index_finish(&session->seen);
    cay_copy_index_init(&session->seen);
    cay_autoclose int fd = tree_open(fake, session->tree);
    if (fd >= 0)
        (void)cay_copy_index_scan(&session->seen, fd);
}

static bool create_locked(struct fake *fake, const char *id, const struct cay_store_ref *ref,
                          struct cay_error *err)
{
    if (find(fake, CAY_STORE_ITEM_SESSION, id))
        return true;
    struct tree *from = source_tree(fake, ref, err);
    struct tree *tree = from ? tree_copy(fake, from, err) : NULL;
    if (!tree)
        return false;
    const struct item *parent = ref->base      ? NULL
                                : ref->session ? find(fake, CAY_STORE_ITEM_SESSION, ref->session)
                                               : find(fake, CAY_STORE_ITEM_SNAPSHOT, ref->snapshot);
    struct tree *origin = parent ? parent->origin : from;
    struct item *session = add(fake, CAY_STORE_ITEM_SESSION, id, tree);
    session->origin = origin;
    origin->refs++;
    if (!ref->session)
        set_last(fake, session, from);
    return true;
}

static bool create(struct cay_store *store, const char *id, const struct cay_store_source *source,
                   struct cay_error *err)
{
    struct fake *fake = fake_of(store);
    struct cay_store_ref ref = {.base = source->base, .snapshot = source->snapshot};
    pthread_mutex_lock(&fake->lock);
    bool ok = create_locked(fake, id, &ref, err);
    pthread_mutex_unlock(&fake->lock);
    return ok;
}

static bool mount_session(struct cay_store *store, const char *id, const struct cay_store_owner *,
                          int *out_root_fd, struct cay_error *err)
{
    struct fake *fake = fake_of(store);
    pthread_mutex_lock(&fake->lock);
    const struct item *session = find(fake, CAY_STORE_ITEM_SESSION, id);
    int fd = session ? tree_open(fake, session->tree) : -ENOENT;
    pthread_mutex_unlock(&fake->lock);
    if (!session)
        return cay_fail(err, CAY_R_SESSION_NOT_FOUND, NULL);
    if (fd < 0)
        return cay_store_fail(err, fd, "open tree");
    *out_root_fd = fd;
    return true;
}

static bool ignore_entry(void *, const struct cay_diff_entry *)
{
    return true;
}

static bool diff_trees(struct fake *fake, const struct tree *from, const struct tree *to,
                       const struct cay_diff_request *request, struct cay_diff_stats *out_stats,
                       struct cay_error *err)
{
    cay_autoclose int from_fd = tree_open(fake, from);
    cay_autoclose int to_fd = tree_open(fake, to);
    if (from_fd < 0 || to_fd < 0)
        return cay_store_fail(err, CAY_MIN(from_fd, to_fd), "open tree");
    struct cay_diff_layer from_layer = {from->number, from_fd};
    struct cay_diff_layer to_layer = {to->number, to_fd};
    struct cay_diff_stack from_stack = {&from_layer, 1};
    struct cay_diff_stack to_stack = {&to_layer, 1};
    return cay_diff_walk(&from_stack, &to_stack, request, out_stats, err);
}

/* Same content by comparison, same times by fingerprint. */
static bool is_unchanged(struct fake *fake, const struct item *session,
                         const struct cay_copy_index *now)
{
    if (!session->last || session->seen.entries != now->entries ||
        memcmp(session->seen.fingerprint, now->fingerprint, sizeof(now->fingerprint)))
        return false;
    struct cay_diff_request request = {.visit = ignore_entry};
    struct cay_diff_stats stats;
    struct cay_error err;
    return diff_trees(fake, session->last, session->tree, &request, &stats, &err) &&
           stats.changes == 0;
}

static bool snapshot_locked(struct fake *fake, const struct cay_store_snapshot_request *request,
                            struct cay_store_point *out_point, struct cay_error *err)
{
    struct item *session = find(fake, CAY_STORE_ITEM_SESSION, request->session_id);
    if (!session)
        return cay_fail(err, CAY_R_SESSION_NOT_FOUND, NULL);
    struct item *snapshot = find(fake, CAY_STORE_ITEM_SNAPSHOT, request->snapshot_id);
    if (!snapshot) {
        struct cay_copy_index now;
        cay_copy_index_init(&now);
        cay_autoclose int fd = tree_open(fake, session->tree);
        int rc = fd < 0 ? fd : cay_copy_index_scan(&now, fd);
        if (rc < 0)
            return cay_store_fail(err, rc, "scan tree");
        bool changed = !is_unchanged(fake, session, &now);
        struct tree *tree = changed ? tree_copy(fake, session->tree, err) : session->last;
        if (!tree)
            return false;
        tree->refs += changed ? 0 : 1;
        snapshot = add(fake, CAY_STORE_ITEM_SNAPSHOT, request->snapshot_id, tree);
        snapshot->changed = changed;
        snapshot->origin = session->origin;
        snapshot->origin->refs++;
        tree->refs++;
        tree_unref(fake, session->last);
        session->last = tree;
        session->seen = now;
    }
    *out_point = (struct cay_store_point){snapshot->changed, -1, session->generation};
    return true;
}

static bool snapshot(struct cay_store *store, const struct cay_store_snapshot_request *request,
                     struct cay_store_point *out_point, struct cay_error *err)
{
    struct fake *fake = fake_of(store);
    pthread_mutex_lock(&fake->lock);
    bool ok = snapshot_locked(fake, request, out_point, err);
    pthread_mutex_unlock(&fake->lock);
    return ok;
}

static bool rollback_locked(struct fake *fake, const char *id, const char *snapshot_id,
                            struct cay_store_point *out_point, struct cay_error *err)
{
    struct item *session = find(fake, CAY_STORE_ITEM_SESSION, id);
    if (!session)
        return cay_fail(err, CAY_R_SESSION_NOT_FOUND, NULL);
    struct cay_store_ref ref = {.snapshot = snapshot_id};
    struct tree *from = source_tree(fake, &ref, err);
    struct tree *tree = from ? tree_copy(fake, from, err) : NULL;
    int fd = tree ? tree_open(fake, tree) : -ENOENT;
    if (fd < 0) {
        tree_unref(fake, tree);
        return from ? cay_store_fail(err, fd, "open tree") : false;
    }
    tree_unref(fake, session->tree);
    session->tree = tree;
    set_last(fake, session, from);
    session->generation++;
    *out_point = (struct cay_store_point){true, fd, session->generation};
    return true;
}

static bool rollback(struct cay_store *store, const char *id, const char *snapshot_id,
                     const struct cay_store_owner *owner, struct cay_store_point *out_point,
                     struct cay_error *err)
{
    struct fake *fake = fake_of(store);
    pthread_mutex_lock(&fake->lock);
    bool ok = rollback_locked(fake, id, snapshot_id, out_point, err);
    pthread_mutex_unlock(&fake->lock);
    if (ok && !owner)
        close(cay_take_fd(out_point->root_fd));
    return ok;
}

static bool fork_session(struct cay_store *store, const struct cay_store_fork_request *request,
                         struct cay_store_point *out_point, struct cay_error *err)
{
    struct fake *fake = fake_of(store);
    struct cay_store_ref ref = {.session = request->session_id};
    pthread_mutex_lock(&fake->lock);
    bool ok = create_locked(fake, request->new_session_id, &ref, err);
    const struct item *session = find(fake, CAY_STORE_ITEM_SESSION, request->session_id);
    *out_point = (struct cay_store_point){true, -1, session ? session->generation : 0};
    pthread_mutex_unlock(&fake->lock);
    return ok;
}

static bool remove_item(struct cay_store *store, enum cay_store_item_kind kind, const char *name)
{
    struct fake *fake = fake_of(store);
    pthread_mutex_lock(&fake->lock);
    struct item *item = find(fake, kind, name);
    if (item)
        forget(fake, item);
    pthread_mutex_unlock(&fake->lock);
    return item != NULL;
}

static bool destroy(struct cay_store *store, const char *id, struct cay_error *)
{
    (void)remove_item(store, CAY_STORE_ITEM_SESSION, id);
    return true;
}

static bool delete_snapshot(struct cay_store *store, const char *id, struct cay_error *)
{
    (void)remove_item(store, CAY_STORE_ITEM_SNAPSHOT, id);
    return true;
}

static bool collect(struct cay_store *, uint64_t, bool *out_more, struct cay_error *)
{
    *out_more = false;
    return true;
}

static bool sync_store(struct cay_store *, struct cay_error *)
{
    return true;
}

static bool diff(struct cay_store *store, const struct cay_diff_request *request,
                 struct cay_diff_stats *out_stats, struct cay_error *err)
{
    struct fake *fake = fake_of(store);
    pthread_mutex_lock(&fake->lock);
    struct tree *from = source_tree(fake, &request->from, err);
    struct tree *to = from ? source_tree(fake, &request->to, err) : NULL;
    if (to) {
        from->refs++;
        to->refs++;
    }
    pthread_mutex_unlock(&fake->lock);
    if (!to)
        return false;
    bool ok = diff_trees(fake, from, to, request, out_stats, err);
    pthread_mutex_lock(&fake->lock);
    tree_unref(fake, from);
    tree_unref(fake, to);
    pthread_mutex_unlock(&fake->lock);
    return ok;
}

static bool view(struct cay_store *store, const struct cay_store_ref *ref,
                 const struct cay_store_owner *, int *out_root_fd, struct cay_error *err)
{
    struct fake *fake = fake_of(store);
    pthread_mutex_lock(&fake->lock);
    const struct tree *tree = source_tree(fake, ref, err);
    int fd = tree ? cay_mount_clone(fake->root_fd, tree->name, false) : -1;
    pthread_mutex_unlock(&fake->lock);
    if (!tree)
        return false;
    int rc = fd < 0 ? fd : cay_mount_set(fd, MOUNT_ATTR_RDONLY, false);
    if (rc < 0) {
        cay_cleanup_close(&fd);
        return cay_store_fail(err, rc, "clone tree");
    }
    *out_root_fd = fd;
    return true;
}

static bool count_entry(void *ctx, const struct cay_diff_entry *entry)
{
    struct cay_store_usage *usage = ctx;
    usage->entries++;
    usage->own_bytes += (uint64_t)entry->before.st.st_blocks * 512;
    return true;
}

/* All of a tree is what an empty one lacks. */
static bool usage(struct cay_store *store, const struct cay_store_ref *ref,
                  struct cay_store_usage *out_usage, struct cay_error *err)
{
    struct fake *fake = fake_of(store);
    struct cay_store_usage result = {.layers = 1};
    struct cay_diff_request request = {
        .expand_deleted = true, .visit = count_entry, .ctx = &result};
    struct cay_diff_stats stats;
    pthread_mutex_lock(&fake->lock);
    const struct tree *tree = source_tree(fake, ref, err);
    struct tree *empty = tree ? tree_new(fake, err) : NULL;
    bool ok = empty && diff_trees(fake, tree, empty, &request, &stats, err);
    tree_unref(fake, empty);
    pthread_mutex_unlock(&fake->lock);
    struct statvfs fs;
    if (ok && fstatvfs(fake->root_fd, &fs) == 0) {
        result.fs_total_bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
        result.fs_free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    }
    if (ok)
        *out_usage = result;
    return ok;
}

static bool list(struct cay_store *store, cay_store_item_fn *visit, void *ctx, struct cay_error *)
{
    struct fake *fake = fake_of(store);
    pthread_mutex_lock(&fake->lock);
    for (const struct item *item = fake->items; item; item = item->next) {
        struct cay_store_item seen = {.kind = item->kind,
                                      .name = item->name,
                                      .target = item->target[0] ? item->target : NULL,
                                      .generation = item->generation};
        if (!visit(ctx, &seen))
            break;
    }
    pthread_mutex_unlock(&fake->lock);
    return true;
}

static bool base_begin(struct cay_store *store, struct cay_store_base_draft *draft,
                       struct cay_error *err)
{
    struct fake *fake = fake_of(store);
    if (mkdirat(fake->root_fd, draft->id, 0755) < 0)
        return cay_store_fail(err, -errno, "make tree");
    draft->root_fd =
        openat(fake->root_fd, draft->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return draft->root_fd >= 0 || cay_store_fail(err, -errno, "open tree");
}

static void base_abort(struct cay_store *store, struct cay_store_base_draft *draft)
{
    (void)cay_remove_tree(fake_of(store)->root_fd, draft->id, NULL);
}

static bool base_begin_from(struct cay_store *store, const struct cay_store_ref *ref,
                            struct cay_store_base_draft *draft, struct cay_error *err)
{
    struct fake *fake = fake_of(store);
    if (!base_begin(store, draft, err))
        return false;
    pthread_mutex_lock(&fake->lock);
    const struct tree *from = source_tree(fake, ref, err);
    bool ok = from && fill(fake, from, draft->root_fd, err);
    pthread_mutex_unlock(&fake->lock);
    if (!ok)
        cay_store_base_abort(store, draft);
    return ok;
}

static bool base_commit(struct cay_store *store, struct cay_store_base_draft *draft,
                        const char *name, bool replaces, struct cay_error *err)
{
    struct fake *fake = fake_of(store);
    pthread_mutex_lock(&fake->lock);
    struct item *base = find(fake, CAY_STORE_ITEM_BASE, name);
    struct item *alias = find(fake, CAY_STORE_ITEM_ALIAS, name);
    bool taken = (base || alias) && !replaces;
    if (!taken) {
        struct tree *tree = cay_new(struct tree);
        memcpy(tree->name, draft->id, sizeof(tree->name));
        tree->refs = 1;
        tree->number = ++fake->last_number;
        if (base)
            forget(fake, base);
        if (alias)
            forget(fake, alias);
        add(fake, CAY_STORE_ITEM_BASE, name, tree);
    }
    pthread_mutex_unlock(&fake->lock);
    return !taken || cay_store_base_taken(err, name);
}

static bool base_remove(struct cay_store *store, const char *name, struct cay_error *err)
{
    struct fake *fake = fake_of(store);
    if (remove_item(store, CAY_STORE_ITEM_ALIAS, name))
        return true;
    if (!remove_item(store, CAY_STORE_ITEM_BASE, name))
        return cay_store_no_base(err, name);
    pthread_mutex_lock(&fake->lock);
    for (struct item *item = fake->items, *next = NULL; item; item = next) {
        next = item->next;
        if (item->kind == CAY_STORE_ITEM_ALIAS && !strcmp(item->target, name))
            forget(fake, item);
    }
    pthread_mutex_unlock(&fake->lock);
    return true;
}

static bool base_alias(struct cay_store *store, const char *alias, const char *name,
                       struct cay_error *err)
{
    struct fake *fake = fake_of(store);
    pthread_mutex_lock(&fake->lock);
    bool known = find(fake, CAY_STORE_ITEM_BASE, name) != NULL;
    bool taken = find(fake, CAY_STORE_ITEM_BASE, alias) != NULL;
    struct item *item = find(fake, CAY_STORE_ITEM_ALIAS, alias);
    if (known && !taken) {
        if (!item)
            item = add(fake, CAY_STORE_ITEM_ALIAS, alias, NULL);
        snprintf(item->target, sizeof(item->target), "%s", name);
    }
    pthread_mutex_unlock(&fake->lock);
    if (!known)
        return cay_store_no_base(err, name);
    return !taken || cay_store_base_taken(err, alias);
}

static bool base_resolve(struct cay_store *store, const char *name, char *out_name,
                         struct cay_error *err)
{
    struct fake *fake = fake_of(store);
    pthread_mutex_lock(&fake->lock);
    const struct item *alias = find(fake, CAY_STORE_ITEM_ALIAS, name);
    const struct item *base = find(fake, CAY_STORE_ITEM_BASE, alias ? alias->target : name);
    if (base)
        snprintf(out_name, CAY_STORE_NAME_SIZE, "%s", base->name);
    pthread_mutex_unlock(&fake->lock);
    return base || cay_store_no_base(err, name);
}

static bool base_id(struct cay_store *store, const char *name, char *out_id, struct cay_error *err)
{
    struct fake *fake = fake_of(store);
    pthread_mutex_lock(&fake->lock);
    const struct item *base = find(fake, CAY_STORE_ITEM_BASE, name);
    if (base)
        snprintf(out_id, CAY_STORE_ID_SIZE, "%s", base->tree->name);
    pthread_mutex_unlock(&fake->lock);
    return base || cay_store_no_base(err, name);
}

static bool base_is_used(struct cay_store *store, const char *name)
{
    struct fake *fake = fake_of(store);
    pthread_mutex_lock(&fake->lock);
    const struct item *base = find(fake, CAY_STORE_ITEM_BASE, name);
    bool is_used = base && base->tree->refs > 1;
    pthread_mutex_unlock(&fake->lock);
    return is_used;
}

static void close_store(struct cay_store *store)
{
    struct fake *fake = fake_of(store);
    while (fake->items)
        forget(fake, fake->items);
    cay_cleanup_close(&fake->root_fd);
    pthread_mutex_destroy(&fake->lock);
    free(fake);
}

static int open_tmpfs(void)
{
    cay_autoclose int fs_fd = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (fs_fd < 0 || fsconfig(fs_fd, FSCONFIG_SET_STRING, "mode", "0700", 0) < 0 ||
        fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    int fd = fsmount(fs_fd, FSMOUNT_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

static bool open_store(const struct cay_store_config *config, struct cay_store **out_store,
                       struct cay_error *err)
{
    struct fake *fake = cay_new(struct fake);
    fake->store.ops = &cay_store_fake;
    pthread_mutex_init(&fake->lock, NULL);
    fake->root_fd = open_tmpfs();
    if (fake->root_fd < 0) {
        if (mkdir(config->directory, 0700) < 0 && errno != EEXIST)
            fake->root_fd = -errno;
        else
            fake->root_fd = open(config->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (fake->root_fd < 0) {
        cay_store_fail(err, -errno, "open '%s'", config->directory);
        close_store(&fake->store);
        return false;
    }
    *out_store = &fake->store;
    return true;
}

const struct cay_store_ops cay_store_fake = {
    .name = "fake",
    .caps = CAY_STORE_SNAPSHOTS | CAY_STORE_LIVE_COPY | CAY_STORE_SEES_UNCHANGED,
    .open = open_store,
    .close = close_store,
    .create = create,
    .mount = mount_session,
    .snapshot = snapshot,
    .rollback = rollback,
    .fork = fork_session,
    .destroy = destroy,
    .delete_snapshot = delete_snapshot,
    .collect = collect,
    .sync = sync_store,
    .diff = diff,
    .view = view,
    .usage = usage,
    .list = list,
    .base_begin = base_begin,
    .base_begin_from = base_begin_from,
    .base_commit = base_commit,
    .base_abort = base_abort,
    .base_remove = base_remove,
    .base_alias = base_alias,
    .base_resolve = base_resolve,
    .base_id = base_id,
    .base_is_used = base_is_used,
};

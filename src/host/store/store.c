/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/store.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "host/store/store_ops.h"

const struct cay_store_ops *const cay_store_registry[] = {
    &cay_store_btrfs,      &cay_store_zfs,  &cay_store_overlay,
    &cay_store_local_disk, &cay_store_fake, NULL,
};

#define NEED(store, slot, err)                                                        \
    do {                                                                              \
        assert((store) && (err));                                                     \
        if (!(store)->ops->slot)                                                      \
            return cay_fail((err), CAY_R_NOT_SUPPORTED, "the %s store cannot " #slot, \
                            (store)->ops->name);                                      \
    } while (0)

static enum cay_reason reason_of(int neg_errno)
{
    if (neg_errno == -EDQUOT)
        return CAY_R_QUOTA_EXCEEDED;
    if (neg_errno == -ENOSPC)
        return CAY_R_NO_SPACE;
    return neg_errno == -EIO || neg_errno == -EROFS ? CAY_R_DISK_FAILED : CAY_R_STORE_FAILED;
}

bool cay_store_fail(struct cay_error *err, int neg_errno, const char *fmt, ...)
{
    char text[sizeof(err->text)];
    va_list args;
    if (neg_errno == -ECANCELED)
        return cay_fail(err, CAY_R_CANCELED, NULL);
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return cay_fail_errno(err, reason_of(neg_errno), neg_errno, "%s", text);
}

bool cay_store_refuse_owners(struct cay_error *err)
{
    return cay_fail(err, CAY_R_NOT_SUPPORTED,
                    "the file system has no id-mapped mounts, which sessions need: put the data "
                    "directory on ext4, xfs, btrfs or OpenZFS 2.2 or later (zfs-fuse has none)");
}

bool cay_store_open(const struct cay_store_config *config, struct cay_store **out_store,
                    struct cay_error *err)
{
    assert(config && config->directory && out_store && err);
    const char *kind = config->kind;
    if (!kind || !strcmp(kind, "auto"))
        kind = cay_store_pick(config->directory);
    for (const struct cay_store_ops *const *ops = cay_store_registry; *ops; ops++) {
        if (strcmp((*ops)->name, kind))
            continue;
        if (!(*ops)->open(config, out_store, err))
            return cay_wrap(err, "open %s store '%s'", kind, config->directory);
        assert((*out_store)->ops == *ops);
        if (!config->needs_owner_map || cay_store_caps(*out_store) & CAY_STORE_ID_MAPPED)
            return true;
        cay_store_close(cay_take_ptr(*out_store));
        return cay_store_refuse_owners(err);
    }
    return cay_fail(err, CAY_R_INVALID_ARGUMENT, "there is no store of kind '%.32s'", kind);
}

void cay_store_close(struct cay_store *store)
{
    if (store)
        store->ops->close(store);
}

const char *cay_store_kind(const struct cay_store *store)
{
    return store->ops->name;
}

unsigned cay_store_caps(const struct cay_store *store)
{
    return store->ops->caps_here ? store->ops->caps_here(store) : store->ops->caps;
}

void cay_store_new_id(char out_id[static CAY_STORE_ID_SIZE])
{
    uint64_t bits = 0;
    while (bits == 0) {
        if (getrandom(&bits, sizeof(bits), 0) != sizeof(bits))
            abort(); /* only before the kernel's generator is ready, or a kernel without it */
    }
    snprintf(out_id, CAY_STORE_ID_SIZE, "%016llx", (unsigned long long)bits);
}

bool cay_store_id_valid(const char *id)
{
    return id && strlen(id) == CAY_STORE_ID_SIZE - 1 &&
           strspn(id, "0123456789abcdef") == CAY_STORE_ID_SIZE - 1 &&
           strspn(id, "0") != CAY_STORE_ID_SIZE - 1;
}

bool cay_store_base_name_valid(const char *name)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    size_t len = name ? strlen(name) : 0;
    return len > 0 && len < CAY_STORE_NAME_SIZE && strspn(name, allowed) == len &&
           strchr("._-", name[0]) == NULL && strstr(name, "..") == NULL;
}

static bool need_id(const char *id, const char *what, struct cay_error *err)
{
    if (cay_store_id_valid(id))
        return true;
    return cay_fail(err, CAY_R_INVALID_ARGUMENT, "'%.32s' is not the id of a %s in a store",
                    id ? id : "", what);
}

static bool need_name(const char *name, struct cay_error *err)
{
    if (cay_store_base_name_valid(name))
        return true;
    return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "'%.64s' is not a name for a base: 1-128 of A-Z a-z 0-9 . _ -, first a letter "
                    "or a digit",
                    name ? name : "");
}

static bool need_ref(const struct cay_store_ref *ref, struct cay_error *err)
{
    assert(!!ref->base + !!ref->snapshot + !!ref->session + !!ref->origin == 1);
    if (ref->base)
        return need_name(ref->base, err);
    return ref->snapshot ? need_id(ref->snapshot, "snapshot", err)
                         : need_id(ref->session ? ref->session : ref->origin, "session", err);
}

bool cay_store_create(struct cay_store *store, const char *session_id,
                      const struct cay_store_source *source, struct cay_error *err)
{
    NEED(store, create, err);
    assert(!!source->base + !!source->snapshot == 1);
    if (!need_id(session_id, "session", err))
        return false;
    if (source->base ? !need_name(source->base, err) : !need_id(source->snapshot, "snapshot", err))
        return false;
    if (source->snapshot && !store->ops->snapshot)
        return cay_fail(err, CAY_R_SNAPSHOTS_NOT_AVAILABLE, NULL);
    if (!store->ops->create(store, session_id, source, err))
        return cay_wrap(err, "create session tree");
    return true;
}

bool cay_store_mount(struct cay_store *store, const char *session_id,
                     const struct cay_store_owner *owner, int *out_root_fd, struct cay_error *err)
{
    NEED(store, mount, err);
    assert(owner && out_root_fd);
    if (!need_id(session_id, "session", err))
        return false;
    if (!store->ops->mount(store, session_id, owner, out_root_fd, err))
        return cay_wrap(err, "mount session tree");
    return true;
}

bool cay_store_snapshot(struct cay_store *store, const struct cay_store_snapshot_request *request,
                        struct cay_store_point *out_point, struct cay_error *err)
{
    assert(request && out_point);
    if (!store->ops->snapshot)
        return cay_fail(err, CAY_R_SNAPSHOTS_NOT_AVAILABLE, NULL);
    assert(request->activity == CAY_STORE_QUIET || request->activity == CAY_STORE_FROZEN);
    if (!need_id(request->session_id, "session", err) ||
        !need_id(request->snapshot_id, "snapshot", err))
        return false;
    if (!store->ops->snapshot(store, request, out_point, err))
        return cay_wrap(err, "take snapshot");
    return true;
}

bool cay_store_rollback(struct cay_store *store, const char *session_id, const char *snapshot_id,
                        const struct cay_store_owner *owner, struct cay_store_point *out_point,
                        struct cay_error *err)
{
    assert(out_point);
    if (!store->ops->rollback)
        return cay_fail(err, CAY_R_SNAPSHOTS_NOT_AVAILABLE, NULL);
    if (!need_id(session_id, "session", err) || !need_id(snapshot_id, "snapshot", err))
        return false;
    if (!store->ops->rollback(store, session_id, snapshot_id, owner, out_point, err))
        return cay_wrap(err, "roll back");
    return true;
}

bool cay_store_fork(struct cay_store *store, const struct cay_store_fork_request *request,
                    struct cay_store_point *out_point, struct cay_error *err)
{
    assert(request && out_point);
    if (!store->ops->fork)
        return cay_fail(err, CAY_R_SNAPSHOTS_NOT_AVAILABLE, NULL);
    if (!need_id(request->session_id, "session", err) ||
        !need_id(request->new_session_id, "session", err))
        return false;
    if (!store->ops->fork(store, request, out_point, err))
        return cay_wrap(err, "fork session tree");
    return true;
}

bool cay_store_set_quota(struct cay_store *store, const char *session_id, uint64_t bytes_max,
                         struct cay_error *err)
{
    NEED(store, set_quota, err);
    if (!need_id(session_id, "session", err))
        return false;
    return store->ops->set_quota(store, session_id, bytes_max, err) || cay_wrap(err, "set quota");
}

bool cay_store_destroy(struct cay_store *store, const char *session_id, struct cay_error *err)
{
    NEED(store, destroy, err);
    if (!need_id(session_id, "session", err))
        return false;
    return store->ops->destroy(store, session_id, err) || cay_wrap(err, "destroy session tree");
}

void cay_store_forget_owner(struct cay_store *store, uint32_t id_base)
{
    if (store->ops->forget_owner)
        store->ops->forget_owner(store, id_base);
}

bool cay_store_delete_snapshot(struct cay_store *store, const char *snapshot_id,
                               struct cay_error *err)
{
    NEED(store, delete_snapshot, err);
    if (!need_id(snapshot_id, "snapshot", err))
        return false;
    return store->ops->delete_snapshot(store, snapshot_id, err) || cay_wrap(err, "delete snapshot");
}

bool cay_store_health(struct cay_store *store, enum cay_store_health *out_health,
                      struct cay_error *err)
{
    *out_health = CAY_STORE_ONLINE;
    return !store->ops->health || store->ops->health(store, out_health, err) ||
           cay_wrap(err, "look at the devices");
}

bool cay_store_collect(struct cay_store *store, uint64_t entries_max, bool *out_more,
                       struct cay_error *err)
{
    NEED(store, collect, err);
    assert(entries_max > 0 && out_more);
    return store->ops->collect(store, entries_max, out_more, err) || cay_wrap(err, "free space");
}

bool cay_store_is_freed(struct cay_store *store, uint64_t *in_out_mark, bool *out_freed,
                        struct cay_error *err)
{
    assert(in_out_mark && out_freed);
    *out_freed = true;
    return !store->ops->is_freed || store->ops->is_freed(store, in_out_mark, out_freed, err) ||
           cay_wrap(err, "wait for free space");
}

bool cay_store_sync(struct cay_store *store, struct cay_error *err)
{
    NEED(store, sync, err);
    return store->ops->sync(store, err) || cay_wrap(err, "sync store");
}

bool cay_store_diff(struct cay_store *store, const struct cay_diff_request *request,
                    struct cay_diff_stats *out_stats, struct cay_error *err)
{
    NEED(store, diff, err);
    assert(request && request->visit && out_stats);
    if (!need_ref(&request->from, err) || !need_ref(&request->to, err))
        return false;
    return store->ops->diff(store, request, out_stats, err) || cay_wrap(err, "compare trees");
}

bool cay_store_view(struct cay_store *store, const struct cay_store_ref *ref,
                    const struct cay_store_owner *owner, int *out_root_fd, struct cay_error *err)
{
    NEED(store, view, err);
    assert(ref && !ref->session && out_root_fd);
    *out_root_fd = -1;
    if (!need_ref(ref, err))
        return false;
    return store->ops->view(store, ref, owner, out_root_fd, err) || cay_wrap(err, "show tree");
}

bool cay_store_usage(struct cay_store *store, const struct cay_store_ref *ref,
                     struct cay_store_usage *out_usage, struct cay_error *err)
{
    NEED(store, usage, err);
    assert(ref && out_usage);
    if (!need_ref(ref, err))
        return false;
    return store->ops->usage(store, ref, out_usage, err) || cay_wrap(err, "measure tree");
}

bool cay_store_usage_whole(struct cay_store *store, const char *session_id,
                           const char (*snapshots)[CAY_STORE_ID_SIZE], size_t count,
                           struct cay_store_usage *out_usage, struct cay_error *err)
{
    const struct cay_store_ref ref = {.session = session_id};
    if (!store->ops->usage_whole)
        return cay_store_usage(store, &ref, out_usage, err);
    assert(out_usage);
    return store->ops->usage_whole(store, session_id, snapshots, count, out_usage, err) ||
           cay_wrap(err, "measure session");
}

bool cay_store_list(struct cay_store *store, cay_store_item_fn *visit, void *ctx,
                    struct cay_error *err)
{
    NEED(store, list, err);
    assert(visit);
    return store->ops->list(store, visit, ctx, err) || cay_wrap(err, "list store");
}

bool cay_store_base_begin(struct cay_store *store, struct cay_store_base_draft *out_draft,
                          struct cay_error *err)
{
    NEED(store, base_begin, err);
    assert(out_draft);
    *out_draft = (struct cay_store_base_draft){.root_fd = -1};
    cay_store_new_id(out_draft->id);
    return store->ops->base_begin(store, out_draft, err) || cay_wrap(err, "begin base");
}

bool cay_store_base_begin_from(struct cay_store *store, const struct cay_store_ref *ref,
                               struct cay_store_base_draft *out_draft, struct cay_error *err)
{
    NEED(store, base_begin_from, err);
    assert(out_draft && !ref->base && !ref->origin);
    *out_draft = (struct cay_store_base_draft){.root_fd = -1};
    cay_store_new_id(out_draft->id);
    return need_ref(ref, err) &&
           (store->ops->base_begin_from(store, ref, out_draft, err) || cay_wrap(err, "begin base"));
}

void cay_store_base_abort(struct cay_store *store, struct cay_store_base_draft *draft)
{
    if (draft->root_fd < 0)
        return;
    close(cay_take_fd(draft->root_fd));
    store->ops->base_abort(store, draft);
}

static bool keep_base(struct cay_store *store, struct cay_store_base_draft *draft, const char *name,
                      bool replaces, struct cay_error *err)
{
    NEED(store, base_commit, err);
    assert(draft->root_fd >= 0);
    if (!need_name(name, err) || !store->ops->base_commit(store, draft, name, replaces, err)) {
        cay_store_base_abort(store, draft);
        char shown[CAY_STORE_NAME_SIZE];
        cay_store_base_shown(name, shown);
        return cay_wrap(err, "keep base '%.64s'", shown);
    }
    close(cay_take_fd(draft->root_fd));
    return true;
}

bool cay_store_base_commit(struct cay_store *store, struct cay_store_base_draft *draft,
                           const char *name, struct cay_error *err)
{
    return keep_base(store, draft, name, false, err);
}

bool cay_store_base_replace(struct cay_store *store, struct cay_store_base_draft *draft,
                            const char *name, struct cay_error *err)
{
    return keep_base(store, draft, name, true, err);
}

bool cay_store_base_id(struct cay_store *store, const char *name,
                       char out_id[static CAY_STORE_ID_SIZE], struct cay_error *err)
{
    NEED(store, base_id, err);
    return need_name(name, err) && store->ops->base_id(store, name, out_id, err);
}

bool cay_store_base_is_used(struct cay_store *store, const char *name)
{
    assert(store->ops->base_is_used);
    return store->ops->base_is_used(store, name);
}

bool cay_store_base_remove(struct cay_store *store, const char *name, struct cay_error *err)
{
    NEED(store, base_remove, err);
    return need_name(name, err) && store->ops->base_remove(store, name, err);
}

bool cay_store_base_alias(struct cay_store *store, const char *alias, const char *name,
                          struct cay_error *err)
{
    NEED(store, base_alias, err);
    return need_name(alias, err) && need_name(name, err) &&
           store->ops->base_alias(store, alias, name, err);
}

bool cay_store_base_resolve(struct cay_store *store, const char *name,
                            char out_name[static CAY_STORE_NAME_SIZE], struct cay_error *err)
{
    NEED(store, base_resolve, err);
    return need_name(name, err) && store->ops->base_resolve(store, name, out_name, err);
}

void cay_store_base_shown(const char *name, char out[static CAY_STORE_NAME_SIZE])
{
    static const struct {
        const char *kept;
        char shown;
    } escapes[] = {{CAY_STORE_FOR_SLASH, '/'}, {CAY_STORE_FOR_COLON, ':'}};
    size_t len = 0;
    for (const char *at = name; *at && len + 1 < CAY_STORE_NAME_SIZE;) {
        char c = *at;
        size_t step = 1;
        for (size_t i = 0; i < CAY_COUNT(escapes); i++) {
            if (!strncmp(at, escapes[i].kept, strlen(escapes[i].kept))) {
                c = escapes[i].shown;
                step = strlen(escapes[i].kept);
            }
        }
        out[len++] = c;
        at += step;
    }
    out[len] = '\0';
}

bool cay_store_no_base(struct cay_error *err, const char *name)
{
    char shown[CAY_STORE_NAME_SIZE];
    cay_store_base_shown(name, shown);
    return cay_fail(err, CAY_R_BASE_NOT_FOUND,
                    "there is no base '%s'; 'cay base ls' lists the bases", shown);
}

bool cay_store_base_taken(struct cay_error *err, const char *name)
{
    char shown[CAY_STORE_NAME_SIZE];
    cay_store_base_shown(name, shown);
    return cay_fail(err, CAY_R_BASE_EXISTS, "there is a base '%s' already; choose another name",
                    shown);
}

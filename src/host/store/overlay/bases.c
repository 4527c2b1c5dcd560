/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/crash.h"
#include "host/store/overlay/overlay_internal.h"

bool ov_base_begin(struct cay_store *store, struct cay_store_base_draft *draft,
                   struct cay_error *err)
{
    struct ov_store *ov = ov_of(store);
    cay_autoclose int dir_fd = -1;
    uint64_t id = strtoull(draft->id, NULL, 16);
    if (ov_layer_dirs(ov, id, &dir_fd, err)) {
        draft->root_fd = openat(dir_fd, "d", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (draft->root_fd >= 0)
            return true;
        cay_store_fail(err, -errno, "open draft");
    }
    ov_base_abort(store, draft);
    return false;
}

bool ov_base_begin_from(struct cay_store *store, const struct cay_store_ref *ref,
                        struct cay_store_base_draft *draft, struct cay_error *err)
{
    struct ov_store *ov = ov_of(store);
    struct ov_layer *top = ov_hold(ov, ref, err);
    bool is_begun = top && ov_base_begin(store, draft, err);
    if (is_begun) {
        int rc = ov_flatten_whole(ov, top, draft->root_fd);
        is_begun = rc == 0;
        if (rc == -ENAMETOOLONG || rc == -EMLINK)
            cay_fail_errno(err, CAY_R_RESOURCE_EXHAUSTED, rc,
                           "its directories lie too deep, or its files have too many links");
        else if (rc < 0)
            cay_store_fail(err, rc, "link the files");
        if (!is_begun)
            cay_store_base_abort(store, draft);
    }
    if (top)
        ov_drop(ov, top);
    CAY_CRASH_POINT("store.base_begun");
    return is_begun;
}

void ov_base_abort(struct cay_store *store, struct cay_store_base_draft *draft)
{
    struct ov_store *ov = ov_of(store);
    pthread_mutex_lock(&ov->lock);
    ov_bury(ov, strtoull(draft->id, NULL, 16));
    pthread_mutex_unlock(&ov->lock);
}

static void enter(struct ov_store *ov, const char *name, struct ov_layer *layer, const char *target)
{
    struct ov_base *base = cay_new(struct ov_base);
    base->next = ov->bases;
    base->layer = layer;
    base->created_ms = cay_record_now_ms();
    snprintf(base->name, sizeof(base->name), "%s", name);
    snprintf(base->target, sizeof(base->target), "%s", target);
    ov->bases = base;
}

/* Under the lock, when the record says so already: the name stands for the layer from now on. */
static void give_name(struct ov_store *ov, const char *name, struct ov_layer *layer)
{
    struct ov_base *old = ov_find_base(ov, name);
    if (!old) {
        enter(ov, name, layer, "");
        return;
    }
    if (old->layer)
        ov_layer_unref(ov, old->layer);
    else
        (void)cay_record_remove(ov->aliases_fd, name); /* one that stays is dropped by load */
    old->layer = layer;
    old->target[0] = '\0';
    old->created_ms = cay_record_now_ms();
}

bool ov_base_commit(struct cay_store *store, struct cay_store_base_draft *draft, const char *name,
                    bool replaces, struct cay_error *err)
{
    struct ov_store *ov = ov_of(store);
    CAY_CRASH_POINT("store.base_filled");
    cay_autoclose int dir_fd =
        openat(ov->layers_fd, draft->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir_fd < 0)
        return cay_store_fail(err, -errno, "open draft");
    struct ov_layer *layer = NULL;
    pthread_mutex_lock(&ov->lock);
    bool taken = ov_find_base(ov, name) != NULL;
    pthread_mutex_unlock(&ov->lock);
    if (taken && !replaces)
        return cay_store_base_taken(err, name);
    if (!ov_layer_ready(ov, strtoull(draft->id, NULL, 16), dir_fd, NULL, &layer, err))
        return false;
    CAY_CRASH_POINT("store.base_ready");
    char text[64];
    snprintf(text, sizeof(text), "1 %016" PRIx64 " %" PRId64, layer->node.id, cay_record_now_ms());
    pthread_mutex_lock(&ov->lock);
    int rc = replaces ? cay_record_replace(ov->bases_fd, name, text)
                      : cay_record_add(ov->bases_fd, name, text);
    if (rc < 0) {
        /* Out of the table, but not buried: the wrapper's abort does that. */
        ov_map_remove(&ov->layers, &layer->node);
        free(layer);
    } else {
        CAY_CRASH_POINT("store.base_named");
        give_name(ov, name, layer);
    }
    pthread_mutex_unlock(&ov->lock);
    if (rc == -EEXIST)
        return cay_store_base_taken(err, name);
    return rc == 0 || cay_store_fail(err, rc, "write down base");
}

static void forget(struct ov_store *ov, struct ov_base *base)
{
    struct ov_base **slot = &ov->bases;
    while (*slot != base)
        slot = &(*slot)->next;
    *slot = base->next;
    ov_layer_unref(ov, base->layer);
    free(base);
}

/* Under the lock. Aliases of a base go first: none is ever left without its base. */
static bool remove_locked(struct ov_store *ov, struct ov_base *base, struct cay_error *err)
{
    for (struct ov_base *other = ov->bases, *next = NULL; base->layer && other; other = next) {
        next = other->next;
        if (other->layer || strcmp(other->target, base->name))
            continue;
        int rc = cay_record_remove(ov->aliases_fd, other->name);
        if (rc < 0)
            return cay_store_fail(err, rc, "remove alias '%s'", other->name);
        forget(ov, other);
    }
    int rc = cay_record_remove(base->layer ? ov->bases_fd : ov->aliases_fd, base->name);
    if (rc < 0)
        return cay_store_fail(err, rc, "remove the base");
    CAY_CRASH_POINT("store.base_removed");
    forget(ov, base);
    return true;
}

bool ov_base_remove(struct cay_store *store, const char *name, struct cay_error *err)
{
    struct ov_store *ov = ov_of(store);
    pthread_mutex_lock(&ov->lock);
    struct ov_base *base = ov_find_base(ov, name);
    bool ok = base ? remove_locked(ov, base, err) : cay_store_no_base(err, name);
    pthread_mutex_unlock(&ov->lock);
    return ok;
}

static bool alias_locked(struct ov_store *ov, const char *alias, const char *name,
                         struct cay_error *err)
{
    struct ov_base *old = ov_find_base(ov, alias);
    const struct ov_base *base = ov_find_base(ov, name);
    if (!base || !base->layer)
        return cay_store_no_base(err, name);
    if (old && old->layer)
        return cay_store_base_taken(err, alias);
    int rc = cay_record_replace(ov->aliases_fd, alias, name);
    if (rc < 0)
        return cay_store_fail(err, rc, "write down the alias");
    if (old)
        snprintf(old->target, sizeof(old->target), "%s", name);
    else
        enter(ov, alias, NULL, name);
    return true;
}

bool ov_base_alias(struct cay_store *store, const char *alias, const char *name,
                   struct cay_error *err)
{
    struct ov_store *ov = ov_of(store);
    pthread_mutex_lock(&ov->lock);
    bool ok = alias_locked(ov, alias, name, err);
    pthread_mutex_unlock(&ov->lock);
    return ok;
}

bool ov_base_resolve(struct cay_store *store, const char *name, char *out_name,
                     struct cay_error *err)
{
    struct ov_store *ov = ov_of(store);
    pthread_mutex_lock(&ov->lock);
    const struct ov_base *base = ov_find_base(ov, name);
    if (base && !base->layer)
        base = ov_find_base(ov, base->target);
    if (base)
        snprintf(out_name, CAY_STORE_NAME_SIZE, "%s", base->name);
    pthread_mutex_unlock(&ov->lock);
    return base || cay_store_no_base(err, name);
}

bool ov_base_id(struct cay_store *store, const char *name, char *out_id, struct cay_error *err)
{
    struct ov_store *ov = ov_of(store);
    pthread_mutex_lock(&ov->lock);
    const struct ov_base *base = ov_find_base(ov, name);
    bool is_there = base && base->layer;
    if (is_there)
        snprintf(out_id, CAY_STORE_ID_SIZE, "%016" PRIx64, base->layer->node.id);
    pthread_mutex_unlock(&ov->lock);
    return is_there || cay_store_no_base(err, name);
}

bool ov_base_is_used(struct cay_store *store, const char *name)
{
    struct ov_store *ov = ov_of(store);
    pthread_mutex_lock(&ov->lock);
    const struct ov_base *base = ov_find_base(ov, name);
    bool is_used = base && base->layer && base->layer->refs > 1;
    pthread_mutex_unlock(&ov->lock);
    return is_used;
}

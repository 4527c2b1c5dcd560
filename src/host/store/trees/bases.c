/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/crash.h"
#include "host/store/trees/trees_internal.h"

/* Opens a tree that was made, or not, for it. */
static bool open_draft(struct cay_trees *trees, struct cay_store_base_draft *draft, bool is_made,
                       struct cay_error *err)
{
    int fd = is_made ? cay_trees_open_tree(trees, draft->id) : -1;
    if (is_made)
        CAY_CRASH_POINT("trees.made");
    if (fd >= 0) {
        draft->root_fd = fd;
        return true;
    }
    if (is_made)
        cay_store_fail(err, fd, "open draft");
    cay_trees_base_abort(&trees->store, draft);
    return false;
}

bool cay_trees_base_begin(struct cay_store *store, struct cay_store_base_draft *draft,
                          struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    return open_draft(trees, draft, trees->ops->make(trees, draft->id, err), err);
}

bool cay_trees_base_begin_from(struct cay_store *store, const struct cay_store_ref *ref,
                               struct cay_store_base_draft *draft, struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    struct tree *tree = NULL;
    struct tree *base = NULL;
    if (!trees_hold(trees, ref, &tree, &base, err))
        return false;
    bool is_made = trees->ops->clone(trees, tree->id, draft->id, false, err);
    trees_drop(trees, tree);
    trees_drop(trees, base);
    return open_draft(trees, draft, is_made, err);
}

void cay_trees_base_abort(struct cay_store *store, struct cay_store_base_draft *draft)
{
    trees_bury_unlocked(cay_trees_of(store), draft->id);
}

/* Under the lock; takes over the reference. */
static void enter(struct cay_trees *trees, const char *text, struct tree *tree, const char *target,
                  int64_t created_ms)
{
    struct name *name = cay_new(struct name);
    snprintf(name->name, sizeof(name->name), "%s", text);
    snprintf(name->target, sizeof(name->target), "%s", target);
    name->tree = tree;
    name->created_ms = created_ms;
    cay_map_put(&trees->names, cay_str(name->name), name);
}

/* Under the lock, when the record says so already: the name stands for the tree from now on. */
static void give_name(struct cay_trees *trees, const char *text, const char *id, int64_t created_ms)
{
    struct name *old = trees_name(trees, text);
    struct tree *tree = trees_enter(trees, id);
    if (!old) {
        enter(trees, text, tree, "", created_ms);
        return;
    }
    if (!old->tree)
        (void)cay_record_remove(trees->aliases_fd, text); /* one that stays is dropped by load */
    trees_unref(trees, old->tree);
    old->tree = tree;
    old->target[0] = '\0';
    old->created_ms = created_ms;
}

bool cay_trees_base_commit(struct cay_store *store, struct cay_store_base_draft *draft,
                           const char *name, bool replaces, struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    CAY_CRASH_POINT("trees.base_filled");
    pthread_mutex_lock(&trees->lock);
    bool taken = trees_name(trees, name) != NULL;
    pthread_mutex_unlock(&trees->lock);
    if (taken && !replaces)
        return cay_store_base_taken(err, name);
    if (trees->ops->seal && !trees->ops->seal(trees, draft->id, err))
        return false;
    CAY_CRASH_POINT("trees.base_sealed");
    /* Whatever is changed in a clone gets a later change time: comparing counts on it. */
    int64_t created_ms = cay_record_now_ms() + 1;
    cay_trees_pass(created_ms * 1'000'000);
    char text[64];
    snprintf(text, sizeof(text), "1 %s %" PRId64, draft->id, created_ms);
    pthread_mutex_lock(&trees->lock);
    int rc = replaces ? cay_record_replace(trees->bases_fd, name, text)
                      : cay_record_add(trees->bases_fd, name, text);
    if (rc == 0) {
        CAY_CRASH_POINT("trees.base_named");
        give_name(trees, name, draft->id, created_ms);
    }
    pthread_mutex_unlock(&trees->lock);
    if (rc == -EEXIST)
        return cay_store_base_taken(err, name);
    return rc == 0 || cay_store_fail(err, rc, "write down base");
}

static void forget(struct cay_trees *trees, struct name *name)
{
    cay_map_remove(&trees->names, cay_str(name->name));
    trees_unref(trees, name->tree);
    free(name);
}

static struct name *alias_of(struct cay_trees *trees, const char *base)
{
    size_t cursor = 0;
    for (struct name *name; (name = cay_map_next(&trees->names, &cursor));) {
        if (!name->tree && !strcmp(name->target, base))
            return name;
    }
    return NULL;
}

/* Under the lock. Aliases of a base go first: none is ever left without its base. */
static bool remove_locked(struct cay_trees *trees, struct name *base, struct cay_error *err)
{
    struct name *alias = NULL;
    while (base->tree && (alias = alias_of(trees, base->name))) {
        int rc = cay_record_remove(trees->aliases_fd, alias->name);
        if (rc < 0)
            return cay_store_fail(err, rc, "remove alias '%s'", alias->name);
        forget(trees, alias);
    }
    int rc = cay_record_remove(base->tree ? trees->bases_fd : trees->aliases_fd, base->name);
    if (rc < 0)
        return cay_store_fail(err, rc, "remove the base");
    forget(trees, base);
    return true;
}

bool cay_trees_base_remove(struct cay_store *store, const char *name, struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    pthread_mutex_lock(&trees->lock);
    struct name *base = trees_name(trees, name);
    bool ok = base ? remove_locked(trees, base, err) : cay_store_no_base(err, name);
    pthread_mutex_unlock(&trees->lock);
    return ok;
}

static bool alias_locked(struct cay_trees *trees, const char *alias, const char *name,
                         struct cay_error *err)
{
    struct name *old = trees_name(trees, alias);
    const struct name *base = trees_name(trees, name);
    if (!base || !base->tree)
        return cay_store_no_base(err, name);
    if (old && old->tree)
        return cay_store_base_taken(err, alias);
    int rc = cay_record_replace(trees->aliases_fd, alias, name);
    if (rc < 0)
        return cay_store_fail(err, rc, "write down the alias");
    if (old)
        snprintf(old->target, sizeof(old->target), "%s", name);
    else
        enter(trees, alias, NULL, name, cay_record_now_ms());
    return true;
}

bool cay_trees_base_alias(struct cay_store *store, const char *alias, const char *name,
                          struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    pthread_mutex_lock(&trees->lock);
    bool ok = alias_locked(trees, alias, name, err);
    pthread_mutex_unlock(&trees->lock);
    return ok;
}

bool cay_trees_base_resolve(struct cay_store *store, const char *name, char *out_name,
                            struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    pthread_mutex_lock(&trees->lock);
    const struct name *base = trees_base(trees, name, err);
    if (base)
        snprintf(out_name, CAY_STORE_NAME_SIZE, "%s", base->name);
    pthread_mutex_unlock(&trees->lock);
    return base != NULL;
}

bool cay_trees_base_id(struct cay_store *store, const char *name, char *out_id,
                       struct cay_error *err)
{
    struct cay_trees *trees = cay_trees_of(store);
    pthread_mutex_lock(&trees->lock);
    const struct name *base = trees_name(trees, name);
    bool is_there = base && base->tree;
    if (is_there)
        snprintf(out_id, CAY_STORE_ID_SIZE, "%s", base->tree->id);
    pthread_mutex_unlock(&trees->lock);
    return is_there || cay_store_no_base(err, name);
}

bool cay_trees_base_is_used(struct cay_store *store, const char *name)
{
    struct cay_trees *trees = cay_trees_of(store);
    pthread_mutex_lock(&trees->lock);
    const struct name *base = trees_name(trees, name);
    bool is_used = base && base->tree && base->tree->refs > 1;
    pthread_mutex_unlock(&trees->lock);
    return is_used;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/store/home.h"
#include "host/store/trees/trees_internal.h"

unsigned cay_trees_caps(const struct cay_store *store)
{
    return store->ops->caps & ~((const struct cay_trees *)store)->missing_caps;
}

void cay_trees_close(struct cay_store *store)
{
    struct cay_trees *trees = cay_trees_of(store);
    const int fds[] = {trees->trees_fd, trees->mounts_fd,  trees->sessions_fd, trees->snapshots_fd,
                       trees->bases_fd, trees->aliases_fd, trees->lock_fd,     trees->root_fd};
    if (trees->ops->stop)
        trees->ops->stop(trees);
    for (size_t i = 0; i < CAY_COUNT(fds); i++)
        cay_cleanup_close(&fds[i]);
    trees_finish_tables(trees);
    cay_owner_map_finish(&trees->owners);
    pthread_mutex_destroy(&trees->lock);
    pthread_mutex_destroy(&trees->collect_lock);
    free(trees);
}

static bool open_root(struct cay_trees *trees, const char *format, bool needs_owner_map,
                      struct cay_error *err)
{
    if (!cay_store_open_dir(AT_FDCWD, trees->directory, &trees->root_fd, err))
        return false;
    if (!cay_trees_can_map_owners(trees->root_fd, "")) {
        trees->missing_caps |= CAY_STORE_ID_MAPPED;
        if (needs_owner_map)
            return cay_store_refuse_owners(err);
    }
    return cay_store_claim(trees->root_fd, trees->directory, format, &trees->lock_fd, err);
}

static bool open_dirs(struct cay_trees *trees, struct cay_error *err)
{
    return cay_store_open_dir(trees->root_fd, "t", &trees->trees_fd, err) &&
           cay_store_open_dir(trees->root_fd, "t", &trees->mounts_fd, err) &&
           cay_store_open_dir(trees->root_fd, "s", &trees->sessions_fd, err) &&
           cay_store_open_dir(trees->root_fd, "p", &trees->snapshots_fd, err) &&
           cay_store_open_dir(trees->root_fd, "b", &trees->bases_fd, err) &&
           cay_store_open_dir(trees->root_fd, "a", &trees->aliases_fd, err);
}

bool cay_trees_open(const struct cay_store_config *config, const struct cay_store_ops *store_ops,
                    const struct cay_tree_ops *ops, const char *format,
                    struct cay_store **out_store, struct cay_error *err)
{
    if (geteuid() != 0)
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "the %s store needs root", store_ops->name);
    struct cay_trees *trees = cay_new(struct cay_trees);
    trees->store.ops = store_ops;
    trees->ops = ops;
    trees->directory = config->directory;
    trees->root_fd = trees->lock_fd = trees->trees_fd = trees->mounts_fd = -1;
    trees->sessions_fd = trees->snapshots_fd = trees->bases_fd = trees->aliases_fd = -1;
    pthread_mutex_init(&trees->lock, NULL);
    pthread_mutex_init(&trees->collect_lock, NULL);
    cay_owner_map_init(&trees->owners);
    cay_map_init(&trees->trees);
    cay_map_init(&trees->sessions);
    cay_map_init(&trees->snapshots);
    cay_map_init(&trees->names);
    bool ok = open_root(trees, format, config->needs_owner_map, err) && open_dirs(trees, err) &&
              (!ops->start || ops->start(trees, err));
    if (ok) {
        cay_record_clean_anchors(trees->root_fd);
        ok = trees_load(trees, err);
    }
    trees->directory = NULL; /* the caller's; only good while opening */
    if (!ok) {
        cay_trees_close(&trees->store);
        return false;
    }
    *out_store = &trees->store;
    return true;
}

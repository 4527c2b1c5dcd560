/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What layers take up. A file that several layers link to (flatten.c, copies of an upper) counts in
 * each for its share, so that all of them together count it once; such a layer is walked again
 * whenever the set of layers has changed, others once.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/stop.h"
#include "host/store/dir_list.h"
#include "host/store/overlay/overlay_internal.h"

enum { DEPTH_MAX = 400 }; /* a descriptor each */

struct shared_file {
    ino_t ino;
    uint64_t bytes;
};

/* Files with several names, in whatever layers those are. */
struct shared_files {
    struct shared_file *items;
    size_t count, cap;
};

struct measured {
    double bytes;
    double entries;
    bool has_links;
    bool is_too_deep;
    double single_bytes;         /* of what has one name only */
    struct shared_files *shared; /* NULL: nobody asks */
};

static void note_shared(struct shared_files *shared, const struct stat *st)
{
    if (shared->count == shared->cap) {
        shared->cap = shared->cap ? 2 * shared->cap : 64;
        shared->items = cay_realloc_array(shared->items, shared->cap, sizeof(*shared->items));
    }
    shared->items[shared->count++] =
        (struct shared_file){st->st_ino, (uint64_t)st->st_blocks * 512};
}

static int by_ino(const void *left, const void *right)
{
    ino_t a = ((const struct shared_file *)left)->ino;
    ino_t b = ((const struct shared_file *)right)->ino;
    return a < b ? -1 : a > b;
}

/* Each once. */
static uint64_t sum_shared(struct shared_files *shared)
{
    uint64_t bytes = 0;
    if (shared->count)
        qsort(shared->items, shared->count, sizeof(*shared->items), by_ino);
    for (size_t i = 0; i < shared->count; i++)
        bytes +=
            i && !by_ino(&shared->items[i - 1], &shared->items[i]) ? 0 : shared->items[i].bytes;
    return bytes;
}

static int measure_dir(int dir_fd, int depth, struct measured *measured)
{
    if (depth > DEPTH_MAX) {
        measured->is_too_deep = true;
        return 0;
    }
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    int rc = cay_dir_list_read(&names, dir_fd);
    for (size_t i = 0; !rc && i < names.count; i++) {
        const char *name = cay_dir_list_name(&names, i);
        struct stat st;
        if (cay_stop_asked())
            return -ECANCELED;
        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            if (errno == ENOENT)
                continue; /* a live upper */
            return -errno;
        }
        bool is_shared = !S_ISDIR(st.st_mode) && st.st_nlink > 1;
        double share = is_shared ? 1 / (double)st.st_nlink : 1;
        measured->has_links = measured->has_links || is_shared;
        measured->bytes += (double)st.st_blocks * 512 * share;
        if (is_shared && measured->shared)
            note_shared(measured->shared, &st);
        else
            measured->single_bytes += (double)st.st_blocks * 512;
        measured->entries += share;
        if (!S_ISDIR(st.st_mode))
            continue;
        cay_autoclose int fd = openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            rc = measure_dir(fd, depth + 1, measured);
        else if (errno != ENOENT)
            rc = -errno;
    }
    return rc;
}

/* A copy of an upper has an index, and later copies link to it. */
static bool is_copy(struct ov_store *ov, const struct ov_layer *layer)
{
    char path[CAY_STORE_ID_SIZE + 2];
    ov_id_text(layer->node.id, path);
    memcpy(path + CAY_STORE_ID_SIZE - 1, "/i", 3);
    return faccessat(ov->layers_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* out->shared is given. */
static bool measure_layer(struct ov_store *ov, struct ov_layer *layer, struct measured *out,
                          struct cay_error *err)
{
    pthread_mutex_lock(&ov->lock);
    bool is_known = layer->measured && !layer->is_upper;
    struct shared_files *shared = out->shared;
    *out = (struct measured){.bytes = (double)layer->bytes,
                             .single_bytes = (double)layer->bytes,
                             .entries = (double)layer->entries,
                             .is_too_deep = layer->is_too_deep};
    pthread_mutex_unlock(&ov->lock);
    if (is_known)
        return true;
    cay_autoclose int fd = ov_layer_open(ov, layer);
    if (fd < 0)
        return cay_store_fail(err, fd, "open layer");
    *out = (struct measured){.shared = shared};
    int rc = measure_dir(fd, 0, out);
    if (rc < 0)
        return cay_store_fail(err, rc, "measure layer");
    pthread_mutex_lock(&ov->lock);
    layer->bytes = (uint64_t)out->bytes;
    layer->entries = (uint64_t)out->entries;
    layer->is_too_deep = out->is_too_deep;
    layer->measured = !layer->is_upper && !out->has_links && !is_copy(ov, layer);
    pthread_mutex_unlock(&ov->lock);
    return true;
}

static bool ask_file_system(struct ov_store *ov, struct cay_store_usage *usage,
                            struct cay_error *err)
{
    struct statvfs fs;
    if (fstatvfs(ov->root_fd, &fs) < 0)
        return cay_store_fail(err, -errno, "ask the file system");
    usage->fs_total_bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
    usage->fs_free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    return true;
}

/* The layers below `top` and above its base, once each, are added to the list; referenced by what
 * `top` is referenced by. */
struct layer_set {
    struct ov_layer **items;
    size_t count, cap;
};

static void add_chain(struct layer_set *set, struct ov_layer *layer)
{
    for (; layer && layer->parent; layer = layer->parent) {
        if (set->count == set->cap) {
            set->cap = set->cap ? 2 * set->cap : 64;
            set->items = cay_realloc_array(set->items, set->cap, sizeof(struct ov_layer *));
        }
        set->items[set->count++] = layer;
    }
}

static int by_id(const void *left, const void *right)
{
    uint64_t a = (*(struct ov_layer *const *)left)->node.id;
    uint64_t b = (*(struct ov_layer *const *)right)->node.id;
    return a < b ? -1 : a > b;
}

/* Sorts, and leaves each once; the result tells this set from others. */
static uint64_t tidy(struct layer_set *set)
{
    uint64_t key = 0x9E3779B97F4A7C15;
    size_t kept = 0;
    if (set->count)
        qsort(set->items, set->count, sizeof(struct ov_layer *), by_id);
    for (size_t i = 0; i < set->count; i++) {
        if (kept && set->items[kept - 1] == set->items[i])
            continue;
        set->items[kept++] = set->items[i];
        key = (key ^ set->items[i]->node.id) * 0x100000001B3;
    }
    set->count = kept;
    return key ? key : 1;
}

static bool measure_set(struct ov_store *ov, const struct layer_set *set, struct measured *out,
                        struct cay_error *err)
{
    struct shared_files *shared = out->shared;
    *out = (struct measured){};
    for (size_t i = 0; i < set->count; i++) {
        struct measured one = {.shared = shared};
        if (!measure_layer(ov, set->items[i], &one, err))
            return false;
        out->bytes += one.bytes;
        out->single_bytes += one.single_bytes;
        out->entries += one.entries;
        out->is_too_deep = out->is_too_deep || one.is_too_deep;
    }
    return true;
}

/* What was found of the same layers before is kept with the session. */
static bool measure_history(struct ov_store *ov, const char *session_id, struct layer_set *set,
                            struct measured *out, struct cay_error *err)
{
    uint64_t key = tidy(set);
    pthread_mutex_lock(&ov->lock);
    const struct ov_session *known = session_id ? ov_find_session(ov, session_id) : NULL;
    bool is_known = known && known->history_key == key;
    if (is_known)
        *out = (struct measured){.bytes = (double)known->history_bytes,
                                 .entries = (double)known->history_entries,
                                 .is_too_deep = known->is_history_too_deep};
    pthread_mutex_unlock(&ov->lock);
    if (is_known)
        return true;
    if (!measure_set(ov, set, out, err))
        return false;
    pthread_mutex_lock(&ov->lock);
    struct ov_session *session = session_id ? ov_find_session(ov, session_id) : NULL;
    if (session) {
        session->history_key = key;
        session->history_bytes = (uint64_t)out->bytes;
        session->history_entries = (uint64_t)out->entries;
        session->is_history_too_deep = out->is_too_deep;
    }
    pthread_mutex_unlock(&ov->lock);
    return true;
}

static bool measure_whole(struct ov_store *ov, struct ov_layer *top, struct layer_set *set,
                          const char *session_id, struct cay_store_usage *out_usage,
                          struct cay_error *err)
{
    struct shared_files shared = {};
    struct measured own = {.shared = session_id ? NULL : &shared};
    struct measured history = own;
    bool ok =
        measure_layer(ov, top, &own, err) && measure_history(ov, session_id, set, &history, err);
    uint64_t shared_bytes = sum_shared(&shared);
    free(shared.items);
    if (!ok)
        return false;
    struct cay_store_usage usage = {
        .own_bytes = (uint64_t)own.bytes,
        .history_bytes = (uint64_t)history.bytes,
        .whole_bytes = (uint64_t)(own.single_bytes + history.single_bytes) + shared_bytes,
        .entries = (uint64_t)own.entries,
        .history_entries = (uint64_t)history.entries,
        .is_too_deep = own.is_too_deep || history.is_too_deep,
        .layers = top->depth,
    };
    if (!ask_file_system(ov, &usage, err))
        return false;
    *out_usage = usage;
    return true;
}

bool ov_usage(struct cay_store *store, const struct cay_store_ref *ref,
              struct cay_store_usage *out_usage, struct cay_error *err)
{
    struct ov_store *ov = ov_of(store);
    struct ov_layer *top = ov_hold(ov, ref, err);
    if (!top)
        return false;
    struct layer_set set = {};
    bool ok;
    if (!ref->base && !top->parent) { /* a tree that is as its base is adds nothing to it */
        *out_usage = (struct cay_store_usage){.layers = top->depth};
        ok = ask_file_system(ov, out_usage, err);
    } else {
        add_chain(&set, top->parent);
        ok = measure_whole(ov, top, &set, NULL, out_usage, err);
    }
    free(set.items);
    ov_drop(ov, top);
    return ok;
}

bool ov_usage_whole(struct cay_store *store, const char *session_id,
                    const char (*snapshots)[CAY_STORE_ID_SIZE], size_t count,
                    struct cay_store_usage *out_usage, struct cay_error *err)
{
    struct ov_store *ov = ov_of(store);
    const struct cay_store_ref ref = {.session = session_id};
    struct ov_layer *upper = ov_hold(ov, &ref, err);
    if (!upper)
        return false;
    struct layer_set set = {};
    size_t held_count = 0;
    cay_autofree struct ov_layer **held = cay_alloc((count + 1) * sizeof(struct ov_layer *));
    pthread_mutex_lock(&ov->lock);
    add_chain(&set, upper->parent);
    for (size_t i = 0; i < count; i++) {
        const struct ov_snapshot *snapshot = ov_find_snapshot(ov, snapshots[i]);
        if (!snapshot || snapshot->top == upper)
            continue;
        held[held_count++] = ov_layer_ref(snapshot->top);
        add_chain(&set, snapshot->top);
    }
    pthread_mutex_unlock(&ov->lock);
    bool ok = measure_whole(ov, upper, &set, session_id, out_usage, err);
    for (size_t i = 0; i < held_count; i++)
        ov_drop(ov, held[i]);
    ov_drop(ov, upper);
    free(set.items);
    return ok;
}

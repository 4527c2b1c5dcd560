/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "host/store/dir_list.h"
#include "host/store/overlay/overlay_internal.h"

/* A layer found on disk whose parent is not known yet. */
struct found_layer {
    uint64_t id;
    uint64_t parent;
    uint64_t same_as;
};

struct found_layers {
    struct found_layer *items;
    size_t count;
};

static bool read_names(int dir_fd, const char *what, struct cay_dir_list *names,
                       struct cay_error *err)
{
    int rc = cay_dir_list_read(names, dir_fd);
    return rc == 0 || cay_store_fail(err, rc, "read the directory of %s", what);
}

static bool read_parent(struct ov_store *ov, const char *layer, uint64_t *out_parent,
                        uint64_t *out_same_as)
{
    char text[CAY_STORE_ID_SIZE] = "";
    cay_autoclose int fd =
        openat(ov->layers_fd, layer, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fgetxattr(fd, OV_PARENT_XATTR, text, sizeof(text) - 1) != sizeof(text) - 1)
        return false;
    char same[CAY_STORE_ID_SIZE] = "";
    if (fgetxattr(fd, OV_SAME_XATTR, same, sizeof(same) - 1) == sizeof(same) - 1)
        (void)sscanf(same, "%16" SCNx64, out_same_as);
    return sscanf(text, "%16" SCNx64, out_parent) == 1;
}

static bool find_layers(struct ov_store *ov, struct found_layers *out, struct cay_error *err)
{
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    if (!read_names(ov->layers_fd, "layers", &names, err))
        return false;
    out->items = cay_alloc((names.count + 1) * sizeof(*out->items));
    for (size_t i = 0; i < names.count; i++) {
        const char *name = cay_dir_list_name(&names, i);
        if (!cay_store_id_valid(name))
            continue;
        uint64_t id = strtoull(name, NULL, 16);
        uint64_t parent = 0;
        uint64_t same_as = 0;
        if (read_parent(ov, name, &parent, &same_as))
            out->items[out->count++] = (struct found_layer){id, parent, same_as};
        else
            ov_bury(ov, id); /* never finished */
    }
    return true;
}

static int by_id(const void *a, const void *b)
{
    uint64_t left = ((const struct found_layer *)a)->id;
    uint64_t right = ((const struct found_layer *)b)->id;
    return left < right ? -1 : left > right;
}

static void enter_layer(struct ov_store *ov, const struct found_layer *found,
                        struct ov_layer *parent)
{
    struct ov_layer *layer = cay_new(struct ov_layer);
    *layer = (struct ov_layer){
        .node = {.id = found->id},
        .parent = parent ? ov_layer_ref(parent) : NULL,
        .depth = parent ? parent->depth + 1 : 1,
        .same_as = found->same_as,
    };
    ov_map_add(&ov->layers, &layer->node);
}

/* Enters the layer after those it stands on. One whose parent is missing is damage: it stays on
 * disk for a human and out of the table. */
static void enter_with_parents(struct ov_store *ov, const struct found_layers *found,
                               const struct found_layer *layer)
{
    const struct found_layer *chain[CAY_STORE_LAYERS_MAX + 1];
    size_t count = 0;
    struct ov_layer *parent = NULL;
    while (!ov_find_layer(ov, layer->id)) {
        if (count == CAY_COUNT(chain))
            return;
        chain[count++] = layer;
        if (layer->parent == 0)
            break;
        parent = ov_find_layer(ov, layer->parent);
        if (parent)
            break;
        struct found_layer key = {.id = layer->parent};
        layer = found->count
                    ? bsearch(&key, found->items, found->count, sizeof(*found->items), by_id)
                    : NULL;
        if (!layer)
            return;
    }
    while (count > 0) {
        const struct found_layer *next = chain[--count];
        enter_layer(ov, next, next->parent ? ov_find_layer(ov, next->parent) : NULL);
    }
}

static bool load_layers(struct ov_store *ov, struct cay_error *err)
{
    struct found_layers found = {};
    bool ok = find_layers(ov, &found, err);
    if (ok && found.count) {
        qsort(found.items, found.count, sizeof(*found.items), by_id);
        for (size_t i = 0; i < found.count; i++)
            enter_with_parents(ov, &found, &found.items[i]);
    }
    free(found.items);
    return ok;
}

static bool load_sessions(struct ov_store *ov, struct cay_error *err)
{
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    if (!read_names(ov->sessions_fd, "sessions", &names, err))
        return false;
    for (size_t i = 0; i < names.count; i++) {
        const char *name = cay_dir_list_name(&names, i);
        uint64_t id = 0;
        uint64_t upper = 0;
        uint64_t copy = 0;
        uint64_t generation = 0;
        int64_t created = 0;
        if (sscanf(name, "%16" SCNx64 ",%16" SCNx64 ",%16" SCNx64 ",%" SCNu64 ",%" SCNd64, &id,
                   &upper, &copy, &generation, &created) != 5 ||
            ov_map_find(&ov->sessions, id))
            continue;
        struct ov_layer *layer = ov_find_layer(ov, upper);
        if (!layer || !layer->parent)
            continue;
        struct ov_session *session = cay_new(struct ov_session);
        struct ov_layer *copied = copy ? ov_find_layer(ov, copy) : NULL;
        *session = (struct ov_session){
            .node = {.id = id},
            .upper = ov_layer_ref(layer),
            .copy = copied ? ov_layer_ref(copied) : NULL,
            .generation = generation,
            .created_ms = created,
        };
        layer->is_upper = true;
        ov_map_add(&ov->sessions, &session->node);
    }
    return true;
}

static bool load_snapshots(struct ov_store *ov, struct cay_error *err)
{
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    if (!read_names(ov->snapshots_fd, "snapshots", &names, err))
        return false;
    for (size_t i = 0; i < names.count; i++) {
        const char *name = cay_dir_list_name(&names, i);
        uint64_t id = 0;
        uint64_t top = 0;
        int64_t created = 0;
        int changed = 0;
        if (sscanf(name, "%16" SCNx64 ",%16" SCNx64 ",%" SCNd64 ",%d", &id, &top, &created,
                   &changed) != 4 ||
            ov_map_find(&ov->snapshots, id))
            continue;
        struct ov_layer *layer = ov_find_layer(ov, top);
        if (!layer)
            continue;
        if (layer->is_upper) {
            /* Its session was not switched: the snapshot was never done. */
            int rc = cay_record_remove(ov->snapshots_fd, name);
            if (rc < 0)
                return cay_store_fail(err, rc, "remove unfinished snapshot");
            continue;
        }
        struct ov_snapshot *snapshot = cay_new(struct ov_snapshot);
        *snapshot = (struct ov_snapshot){
            .node = {.id = id},
            .top = ov_layer_ref(layer),
            .changed = changed != 0,
            .created_ms = created,
        };
        ov_map_add(&ov->snapshots, &snapshot->node);
    }
    return true;
}

static bool load_names(struct ov_store *ov, int dir_fd, bool aliases, struct cay_error *err)
{
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    if (!read_names(dir_fd, aliases ? "aliases" : "bases", &names, err))
        return false;
    for (size_t i = 0; i < names.count; i++) {
        const char *name = cay_dir_list_name(&names, i);
        char text[CAY_STORE_NAME_SIZE + 1];
        if (cay_record_is_leftover(dir_fd, name) || !cay_store_base_name_valid(name) ||
            cay_record_read(dir_fd, name, text, sizeof(text)) < 0)
            continue;
        uint64_t id = 0;
        int64_t created = 0;
        struct ov_layer *layer = NULL;
        if (!aliases && sscanf(text, "1 %16" SCNx64 " %" SCNd64, &id, &created) == 2)
            layer = ov_find_layer(ov, id);
        if (aliases ? !cay_store_base_name_valid(text) : !layer)
            continue;
        if (ov_find_base(ov, name)) { /* a base has taken the place of the alias */
            (void)cay_record_remove(dir_fd, name);
            continue;
        }
        struct ov_base *base = cay_new(struct ov_base);
        base->next = ov->bases;
        base->layer = layer ? ov_layer_ref(layer) : NULL;
        base->created_ms = created;
        snprintf(base->name, sizeof(base->name), "%s", name);
        if (aliases)
            snprintf(base->target, sizeof(base->target), "%.128s", text);
        ov->bases = base;
    }
    return true;
}

struct unfinished {
    struct ov_store *ov;
    int rc;
};

/* A forked session whose origin was not switched was never done. */
static void drop_unfinished(void *ctx, struct ov_node *node)
{
    struct unfinished *unfinished = ctx;
    struct ov_session *session = (struct ov_session *)node;
    if (!session->upper->parent->is_upper)
        return;
    char name[CAY_STORE_ID_SIZE];
    ov_id_text(node->id, name);
    struct cay_error err;
    if (!ov_destroy(&unfinished->ov->store, name, &err))
        unfinished->rc = -EIO;
}

static void bury_unreferenced(void *ctx, struct ov_node *node)
{
    struct ov_store *ov = ctx;
    struct ov_layer *layer = (struct ov_layer *)node;
    if (layer->refs == 0)
        ov_bury(ov, layer->node.id);
}

/* Buried by id first: dropping one may free its parents, whose nodes the walk may stand on. */
static void drop_unreferenced(struct ov_store *ov)
{
    size_t from = ov->dead_count;
    ov_map_each(&ov->layers, bury_unreferenced, ov);
    size_t to = ov->dead_count;
    for (size_t i = from; i < to; i++) {
        struct ov_layer *layer = ov_find_layer(ov, ov->dead[i]);
        struct ov_layer *parent = layer->parent;
        ov_map_remove(&ov->layers, &layer->node);
        free(layer);
        ov_layer_unref(ov, parent);
    }
}

bool ov_load(struct ov_store *ov, struct cay_error *err)
{
    if (!load_layers(ov, err) || !load_sessions(ov, err) || !load_snapshots(ov, err) ||
        !load_names(ov, ov->bases_fd, false, err) || !load_names(ov, ov->aliases_fd, true, err))
        return false;
    struct unfinished unfinished = {.ov = ov};
    ov_map_each(&ov->sessions, drop_unfinished, &unfinished);
    if (unfinished.rc < 0)
        return cay_store_fail(err, unfinished.rc, "remove unfinished session");
    drop_unreferenced(ov);
    return ov_blank_load(ov, err);
}

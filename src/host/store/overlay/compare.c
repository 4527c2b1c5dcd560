/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/store/diff_walk.h"
#include "host/store/overlay/overlay_internal.h"

struct ov_layer *ov_hold(struct ov_store *ov, const struct cay_store_ref *ref,
                         struct cay_error *err)
{
    struct ov_layer *top = NULL;
    pthread_mutex_lock(&ov->lock);
    if (ref->session || ref->origin) {
        const struct ov_session *session =
            ov_find_session(ov, ref->session ? ref->session : ref->origin);
        top = session ? session->upper : NULL;
        while (ref->origin && top && top->parent)
            top = top->parent;
        if (!session)
            cay_fail(err, CAY_R_SESSION_NOT_FOUND, NULL);
    } else if (ref->snapshot) {
        const struct ov_snapshot *snapshot = ov_find_snapshot(ov, ref->snapshot);
        top = snapshot ? snapshot->top : NULL;
        if (!snapshot)
            cay_fail(err, CAY_R_SNAPSHOT_NOT_FOUND, NULL);
    } else {
        const struct ov_base *base = ov_find_base(ov, ref->base);
        if (base && !base->layer)
            base = ov_find_base(ov, base->target);
        top = base ? base->layer : NULL;
        if (!base)
            cay_store_no_base(err, ref->base);
    }
    if (top)
        ov_layer_ref(top);
    pthread_mutex_unlock(&ov->lock);
    return top;
}

static void close_stack(struct cay_diff_layer *layers, size_t count)
{
    for (size_t i = 0; layers && i < count; i++)
        cay_cleanup_close(&layers[i].fd);
    free(layers);
}

static struct cay_diff_layer *open_stack(struct ov_store *ov, const struct ov_layer *top,
                                         struct cay_error *err)
{
    struct cay_diff_layer *layers = cay_alloc(top->depth * sizeof(*layers));
    size_t count = 0;
    for (const struct ov_layer *layer = top; layer; layer = layer->parent) {
        int fd = ov_layer_open(ov, layer);
        layers[count++] = (struct cay_diff_layer){layer->node.id, fd};
        if (fd < 0) {
            cay_store_fail(err, fd, "open layer");
            close_stack(layers, count);
            return NULL;
        }
    }
    return layers;
}

bool ov_diff(struct cay_store *store, const struct cay_diff_request *request,
             struct cay_diff_stats *out_stats, struct cay_error *err)
{
    struct ov_store *ov = ov_of(store);
    struct ov_layer *from = ov_hold(ov, &request->from, err);
    struct ov_layer *to = from ? ov_hold(ov, &request->to, err) : NULL;
    struct cay_diff_layer *from_layers = to ? open_stack(ov, from, err) : NULL;
    struct cay_diff_layer *to_layers = from_layers ? open_stack(ov, to, err) : NULL;
    bool ok = false;
    if (to_layers) {
        struct cay_diff_stack from_stack = {from_layers, from->depth};
        struct cay_diff_stack to_stack = {to_layers, to->depth};
        ok = cay_diff_walk(&from_stack, &to_stack, request, out_stats, err);
    }
    close_stack(from_layers, from ? from->depth : 0);
    close_stack(to_layers, to ? to->depth : 0);
    ov_drop(ov, from);
    ov_drop(ov, to);
    return ok;
}

bool ov_view(struct cay_store *store, const struct cay_store_ref *ref,
             const struct cay_store_owner *owner, int *out_root_fd, struct cay_error *err)
{
    struct ov_store *ov = ov_of(store);
    struct ov_layer *top = ov_hold(ov, ref, err);
    if (!top)
        return false;
    bool ok = ov_layer_view(ov, top, owner, out_root_fd, err);
    ov_drop(ov, top);
    return ok;
}

struct listing {
    cay_store_item_fn *visit;
    void *ctx;
    bool stopped;
};

static void list_one(struct listing *listing, const struct cay_store_item *item)
{
    if (!listing->stopped)
        listing->stopped = !listing->visit(listing->ctx, item);
}

static void list_session(void *ctx, struct ov_node *node)
{
    const struct ov_session *session = (const struct ov_session *)node;
    char name[CAY_STORE_ID_SIZE];
    ov_id_text(node->id, name);
    list_one(ctx, &(struct cay_store_item){.kind = CAY_STORE_ITEM_SESSION,
                                           .name = name,
                                           .generation = session->generation,
                                           .created_unix_ms = session->created_ms});
}

static void list_snapshot(void *ctx, struct ov_node *node)
{
    char name[CAY_STORE_ID_SIZE];
    ov_id_text(node->id, name);
    list_one(ctx, &(struct cay_store_item){.kind = CAY_STORE_ITEM_SNAPSHOT,
                                           .name = name,
                                           .created_unix_ms =
                                               ((const struct ov_snapshot *)node)->created_ms});
}

bool ov_list(struct cay_store *store, cay_store_item_fn *visit, void *ctx, struct cay_error *)
{
    struct ov_store *ov = ov_of(store);
    struct listing listing = {.visit = visit, .ctx = ctx};
    pthread_mutex_lock(&ov->lock);
    for (const struct ov_base *base = ov->bases; base; base = base->next) {
        list_one(&listing, &(struct cay_store_item){.kind = base->layer ? CAY_STORE_ITEM_BASE
                                                                        : CAY_STORE_ITEM_ALIAS,
                                                    .name = base->name,
                                                    .target = base->layer ? NULL : base->target,
                                                    .created_unix_ms = base->created_ms});
    }
    ov_map_each(&ov->sessions, list_session, &listing);
    ov_map_each(&ov->snapshots, list_snapshot, &listing);
    pthread_mutex_unlock(&ov->lock);
    return true;
}

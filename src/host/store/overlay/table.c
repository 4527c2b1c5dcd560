/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>

#include "host/store/overlay/overlay_internal.h"

/* Ids are random: their low bits are the hash. */
struct ov_node *ov_map_find(const struct ov_map *map, uint64_t id)
{
    if (!map->cap)
        return NULL;
    struct ov_node *node = map->slots[id & (map->cap - 1)];
    while (node && node->id != id)
        node = node->next;
    return node;
}

static void grow(struct ov_map *map)
{
    size_t cap = CAY_MAX(map->cap * 2, (size_t)64);
    struct ov_node **slots = cay_alloc(cap * sizeof(struct ov_node *));
    for (size_t i = 0; i < map->cap; i++) {
        while (map->slots[i]) {
            struct ov_node *node = map->slots[i];
            map->slots[i] = node->next;
            node->next = slots[node->id & (cap - 1)];
            slots[node->id & (cap - 1)] = node;
        }
    }
    free(map->slots);
    map->slots = slots;
    map->cap = cap;
}

void ov_map_add(struct ov_map *map, struct ov_node *node)
{
    assert(!ov_map_find(map, node->id));
    if (map->count >= map->cap)
        grow(map);
    struct ov_node **slot = &map->slots[node->id & (map->cap - 1)];
    node->next = *slot;
    *slot = node;
    map->count++;
}

void ov_map_remove(struct ov_map *map, const struct ov_node *node)
{
    struct ov_node **slot = &map->slots[node->id & (map->cap - 1)];
    while (*slot != node)
        slot = &(*slot)->next;
    *slot = node->next;
    map->count--;
}

void ov_map_each(struct ov_map *map, void (*visit)(void *ctx, struct ov_node *), void *ctx)
{
    for (size_t i = 0; i < map->cap; i++) {
        for (struct ov_node *node = map->slots[i], *next = NULL; node; node = next) {
            next = node->next;
            visit(ctx, node);
        }
    }
}

static void free_node(void *, struct ov_node *node)
{
    free(node);
}

void ov_map_finish(struct ov_map *map)
{
    ov_map_each(map, free_node, NULL);
    free(map->slots);
    *map = (struct ov_map){};
}

struct ov_base *ov_find_base(struct ov_store *ov, const char *name)
{
    struct ov_base *base = ov->bases;
    while (base && strcmp(base->name, name))
        base = base->next;
    return base;
}

struct ov_layer *ov_layer_ref(struct ov_layer *layer)
{
    layer->refs++;
    return layer;
}

void ov_bury(struct ov_store *ov, uint64_t layer_id)
{
    if (ov->dead_count == ov->dead_cap) {
        ov->dead_cap = CAY_MAX(ov->dead_cap * 2, (size_t)16);
        ov->dead = cay_realloc_array(ov->dead, ov->dead_cap, sizeof(*ov->dead));
    }
    ov->dead[ov->dead_count++] = layer_id;
}

void ov_layer_unref(struct ov_store *ov, struct ov_layer *layer)
{
    while (layer) {
        assert(layer->refs > 0);
        if (--layer->refs > 0)
            return;
        struct ov_layer *parent = layer->parent;
        ov_map_remove(&ov->layers, &layer->node);
        ov_bury(ov, layer->node.id);
        ov_layer_unref(ov, layer->flat); /* which has no flat form itself */
        free(layer);
        layer = parent;
    }
}

void ov_drop(struct ov_store *ov, struct ov_layer *layer)
{
    pthread_mutex_lock(&ov->lock);
    ov_layer_unref(ov, layer);
    pthread_mutex_unlock(&ov->lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <assert.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/id.h"

struct cay_map_slot {
    uint64_t hash;
    struct cay_str key;
    void *value; /* NULL when the slot is free */
};

enum { SLOTS_MIN = 16 };

void cay_map_init(struct cay_map *map)
{
    *map = (struct cay_map){};
}

void cay_map_finish(struct cay_map *map)
{
    free(map->slots);
    *map = (struct cay_map){};
}

/* The slot that holds the key, or the free one where it would go. There is always a free one. */
static size_t find(const struct cay_map *map, uint64_t hash, struct cay_str key)
{
    size_t mask = map->cap - 1;
    size_t at = hash & mask;
    while (map->slots[at].value &&
           !(map->slots[at].hash == hash && cay_str_equal(map->slots[at].key, key)))
        at = (at + 1) & mask;
    return at;
}

static void grow(struct cay_map *map)
{
    struct cay_map old = *map;
    if (!old.cap)
        cay_random_bytes(map->hash_key, sizeof(map->hash_key));
    map->cap = old.cap ? old.cap * 2 : SLOTS_MIN;
    map->slots = cay_realloc_array(NULL, map->cap, sizeof(*map->slots));
    memset(map->slots, 0, map->cap * sizeof(*map->slots));
    for (size_t i = 0; i < old.cap; i++) {
        if (old.slots[i].value)
            map->slots[find(map, old.slots[i].hash, old.slots[i].key)] = old.slots[i];
    }
    free(old.slots);
}

void *cay_map_put(struct cay_map *map, struct cay_str key, void *value)
{
    assert(value);
    /* At most three slots of four are taken: linear probing stays short. */
    if (map->count >= map->cap / 4 * 3)
        grow(map);
    uint64_t hash = cay_hash(map->hash_key, key);
    struct cay_map_slot *slot = &map->slots[find(map, hash, key)];
    void *before = slot->value;
    *slot = (struct cay_map_slot){hash, key, value};
    if (!before)
        map->count++;
    return before;
}

void *cay_map_get(const struct cay_map *map, struct cay_str key)
{
    if (!map->count)
        return NULL;
    return map->slots[find(map, cay_hash(map->hash_key, key), key)].value;
}

/* Pulls later entries of the run back over the hole, so that no tombstones pile up: an entry may
 * move to the hole unless that would put it before its home slot. */
static void close_hole(struct cay_map *map, size_t hole)
{
    size_t mask = map->cap - 1;
    for (size_t at = (hole + 1) & mask; map->slots[at].value; at = (at + 1) & mask) {
        size_t home = map->slots[at].hash & mask;
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            map->slots[hole] = map->slots[at];
            hole = at;
        }
    }
    map->slots[hole] = (struct cay_map_slot){};
}

void *cay_map_remove(struct cay_map *map, struct cay_str key)
{
    if (!map->count)
        return NULL;
    size_t at = find(map, cay_hash(map->hash_key, key), key);
    void *value = map->slots[at].value;
    if (value) {
        close_hole(map, at);
        map->count--;
    }
    return value;
}

void *cay_map_next(const struct cay_map *map, size_t *cursor)
{
    while (*cursor < map->cap) {
        void *value = map->slots[(*cursor)++].value;
        if (value)
            return value;
    }
    return NULL;
}

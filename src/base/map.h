/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A hash map from byte strings to pointers. Keys are borrowed: the memory of a key must belong to
 * its value (an id inside the session it names) and stay unchanged while the value is in the map.
 * The map owns neither; to destroy what it holds, visit every value, destroy it, then finish: none
 * of the two reads a key.
 *
 * The hash is keyed with random bytes of the map's own, since keys come from peers. How many
 * entries there may be is for the owner to bound: growth aborts when out of memory.
 *
 * Order: init -> put | get | remove | next -> finish. A zeroed struct is valid and empty.
 */

#include "base/base.h"

struct cay_map_slot;

struct cay_map {
    struct cay_map_slot *slots;
    size_t count;
    size_t cap; /* 0 or a power of two */
    uint64_t hash_key[2];
};

void cay_map_init(struct cay_map *map);
void cay_map_finish(struct cay_map *map);

/* The value must not be NULL. Returns the value that had the key before (NULL when none); the key
 * is then borrowed from the new value. */
void *cay_map_put(struct cay_map *map, struct cay_str key, void *value);

/* NULL when there is none. */
[[nodiscard]] void *cay_map_get(const struct cay_map *map, struct cay_str key);

/* Returns the value removed; NULL when there was none. */
void *cay_map_remove(struct cay_map *map, struct cay_str key);

static inline size_t cay_map_count(const struct cay_map *map)
{
    return map->count;
}

/* Visits every value in no particular order; start with *cursor 0. NULL at the end. Put and remove
 * move entries: begin anew after them.
 *
 *     size_t cursor = 0;
 *     for (struct item *item; (item = cay_map_next(&map, &cursor));)
 */
[[nodiscard]] void *cay_map_next(const struct cay_map *map, size_t *cursor);

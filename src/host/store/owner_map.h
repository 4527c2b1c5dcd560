/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * User namespaces for id-mapped mounts. One costs a process; those of the ranges used lately are
 * kept, whoever made them, until their session is gone.
 *
 * Order: init -> (open | forget)* -> finish. Any thread.
 */

#include <pthread.h>

#include "host/store/store.h"

enum { CAY_OWNER_MAP_KEPT = 32 };

struct cay_owner_map {
    pthread_mutex_t lock;
    struct {
        uint32_t id_base;
        uint32_t id_count;
        int fd; /* 0: free (never a real one) */
    } kept[CAY_OWNER_MAP_KEPT];
    size_t next;
};

void cay_owner_map_init(struct cay_owner_map *map);
void cay_owner_map_finish(struct cay_owner_map *map);

/* A descriptor of the caller's own, or -errno. */
[[nodiscard]] int cay_owner_map_open(struct cay_owner_map *map,
                                     const struct cay_store_owner *owner);

/* The range has no session any more. */
void cay_owner_map_forget(struct cay_owner_map *map, uint32_t id_base);

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/owner_map.h"

#include <fcntl.h>
#include <unistd.h>

#include "sys/userns.h"

void cay_owner_map_init(struct cay_owner_map *map)
{
    *map = (struct cay_owner_map){};
    pthread_mutex_init(&map->lock, NULL);
}

void cay_owner_map_finish(struct cay_owner_map *map)
{
    for (size_t i = 0; i < CAY_OWNER_MAP_KEPT; i++) {
        if (map->kept[i].fd > 0)
            close(map->kept[i].fd);
    }
    pthread_mutex_destroy(&map->lock);
}

/* Its own place, else a free one, else the next in turn. */
static size_t place_of(struct cay_owner_map *map, uint32_t id_base)
{
    size_t free_at = CAY_OWNER_MAP_KEPT;
    for (size_t i = 0; i < CAY_OWNER_MAP_KEPT; i++) {
        if (map->kept[i].fd > 0 && map->kept[i].id_base == id_base)
            return i;
        if (map->kept[i].fd == 0 && free_at == CAY_OWNER_MAP_KEPT)
            free_at = i;
    }
    return free_at < CAY_OWNER_MAP_KEPT ? free_at : map->next++ % CAY_OWNER_MAP_KEPT;
}

static void keep(struct cay_owner_map *map, const struct cay_store_owner *owner, int fd)
{
    int kept = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (kept < 0)
        return;
    pthread_mutex_lock(&map->lock);
    size_t at = place_of(map, owner->id_base);
    if (map->kept[at].fd > 0)
        close(map->kept[at].fd);
    map->kept[at].id_base = owner->id_base;
    map->kept[at].id_count = owner->id_count;
    map->kept[at].fd = kept;
    pthread_mutex_unlock(&map->lock);
}

static int find(struct cay_owner_map *map, const struct cay_store_owner *owner)
{
    int fd = -1;
    pthread_mutex_lock(&map->lock);
    for (size_t i = 0; fd < 0 && i < CAY_OWNER_MAP_KEPT; i++) {
        if (map->kept[i].fd > 0 && map->kept[i].id_base == owner->id_base &&
            map->kept[i].id_count == owner->id_count)
            fd = fcntl(map->kept[i].fd, F_DUPFD_CLOEXEC, 3);
    }
    pthread_mutex_unlock(&map->lock);
    return fd;
}

int cay_owner_map_open(struct cay_owner_map *map, const struct cay_store_owner *owner)
{
    int fd = owner->userns_fd >= 0 ? fcntl(owner->userns_fd, F_DUPFD_CLOEXEC, 3) : find(map, owner);
    if (fd >= 0 && owner->userns_fd < 0)
        return fd;
    if (fd < 0)
        fd = cay_userns_open(owner->id_base, owner->id_count);
    if (fd >= 0)
        keep(map, owner, fd);
    return fd;
}

void cay_owner_map_forget(struct cay_owner_map *map, uint32_t id_base)
{
    pthread_mutex_lock(&map->lock);
    for (size_t i = 0; i < CAY_OWNER_MAP_KEPT; i++) {
        if (map->kept[i].fd > 0 && map->kept[i].id_base == id_base) {
            close(map->kept[i].fd);
            map->kept[i].fd = 0;
        }
    }
    pthread_mutex_unlock(&map->lock);
}

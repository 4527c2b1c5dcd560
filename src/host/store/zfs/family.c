/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which dataset was cloned from which snapshot, and who has that snapshot now, so that zfs need not
 * be asked for every tree that comes or goes. It is read when the store opens and kept up from then
 * on. Should it be wrong, zfs refuses to clone what is not there and to destroy what others stand
 * on; then it is read anew.
 */

#include <stdio.h>
#include <stdlib.h>

#include "host/store/zfs/zfs_internal.h"

enum { LIST_BYTES_MAX = 64 << 20 };

/* Named after the tree it was taken for. It goes with the last clone of it. */
struct image {
    char name[CAY_STORE_ID_SIZE];
    char holder[CAY_STORE_ID_SIZE]; /* the tree that has it */
    uint64_t order;                 /* of two of one holder the later has more */
};

struct member {
    char id[CAY_STORE_ID_SIZE];
    char origin[CAY_STORE_ID_SIZE]; /* the image it was cloned from, or "" */
    char image[CAY_STORE_ID_SIZE];  /* one that shows what it shows, or "" */
    bool is_sealed;
};

static struct member *member_of(struct zfs *zfs, const char *id)
{
    return cay_map_get(&zfs->members, cay_str(id));
}

static struct image *image_of(struct zfs *zfs, const char *name)
{
    return name[0] ? cay_map_get(&zfs->images, cay_str(name)) : NULL;
}

static void set_id(char out[static CAY_STORE_ID_SIZE], const char *id)
{
    snprintf(out, CAY_STORE_ID_SIZE, "%s", id);
}

static struct member *enter(struct zfs *zfs, const char *id)
{
    struct member *member = member_of(zfs, id);
    if (member)
        return member;
    member = cay_new(struct member);
    set_id(member->id, id);
    cay_map_put(&zfs->members, cay_str(member->id), member);
    return member;
}

static void enter_image(struct zfs *zfs, const char *name, const char *holder)
{
    struct image *image = image_of(zfs, name);
    if (!image) {
        image = cay_new(struct image);
        set_id(image->name, name);
        cay_map_put(&zfs->images, cay_str(image->name), image);
    }
    set_id(image->holder, holder);
    image->order = ++zfs->image_count;
}

static void empty(struct cay_map *map)
{
    size_t cursor = 0;
    for (void *item; (item = cay_map_next(map, &cursor));)
        free(item);
    cay_map_finish(map);
    cay_map_init(map);
}

void zfs_family_init(struct zfs *zfs)
{
    pthread_mutex_init(&zfs->lock, NULL);
    cay_map_init(&zfs->members);
    cay_map_init(&zfs->images);
}

void zfs_family_finish(struct zfs *zfs)
{
    empty(&zfs->members);
    empty(&zfs->images);
    pthread_mutex_destroy(&zfs->lock);
}

void zfs_family_add(struct zfs *zfs, const char *id)
{
    pthread_mutex_lock(&zfs->lock);
    (void)enter(zfs, id);
    pthread_mutex_unlock(&zfs->lock);
}

/* All clones of a tree that does not change any more can be made of one image. */
void zfs_family_add_clone(struct zfs *zfs, const char *id, const char *from, const char *image,
                          bool is_sealed)
{
    pthread_mutex_lock(&zfs->lock);
    struct member *member = enter(zfs, id);
    struct member *parent = enter(zfs, from);
    if (!image_of(zfs, image))
        enter_image(zfs, image, from);
    set_id(member->origin, image);
    member->is_sealed = is_sealed;
    if (is_sealed)
        set_id(member->image, image);
    if (parent->is_sealed)
        set_id(parent->image, image);
    pthread_mutex_unlock(&zfs->lock);
}

void zfs_family_seal(struct zfs *zfs, const char *id)
{
    pthread_mutex_lock(&zfs->lock);
    enter(zfs, id)->is_sealed = true;
    pthread_mutex_unlock(&zfs->lock);
}

bool zfs_family_image(struct zfs *zfs, const char *id, char out_name[static CAY_STORE_ID_SIZE],
                      char out_holder[static CAY_STORE_ID_SIZE])
{
    pthread_mutex_lock(&zfs->lock);
    const struct member *member = member_of(zfs, id);
    const struct image *image = member ? image_of(zfs, member->image) : NULL;
    if (image) {
        set_id(out_name, image->name);
        set_id(out_holder, image->holder);
    }
    pthread_mutex_unlock(&zfs->lock);
    return image != NULL;
}

bool zfs_family_common(struct zfs *zfs, const char *id, const char *from,
                       char out_image[static CAY_STORE_ID_SIZE])
{
    pthread_mutex_lock(&zfs->lock);
    const struct member *member = member_of(zfs, id);
    const struct member *parent = member_of(zfs, from);
    const struct image *origin = member ? image_of(zfs, member->origin) : NULL;
    bool is_common = origin && parent && !strcmp(parent->image, origin->name);
    bool is_own = origin && !strcmp(origin->name, id) && !strcmp(origin->holder, from);
    if (is_common || is_own)
        set_id(out_image, origin->name);
    pthread_mutex_unlock(&zfs->lock);
    return is_common || is_own;
}

static bool is_origin(const struct zfs *zfs, const char *name)
{
    size_t cursor = 0;
    for (const struct member *member; (member = cay_map_next(&zfs->members, &cursor));) {
        if (!strcmp(member->origin, name))
            return true;
    }
    return false;
}

void zfs_family_remove(struct zfs *zfs, const char *id)
{
    pthread_mutex_lock(&zfs->lock);
    struct member *member = cay_map_remove(&zfs->members, cay_str(id));
    if (member && member->origin[0] && !is_origin(zfs, member->origin))
        free(cay_map_remove(&zfs->images, cay_str(member->origin)));
    free(member);
    pthread_mutex_unlock(&zfs->lock);
}

bool zfs_family_has(struct zfs *zfs, const char *id)
{
    pthread_mutex_lock(&zfs->lock);
    bool has = member_of(zfs, id) != NULL;
    pthread_mutex_unlock(&zfs->lock);
    return has;
}

/* The one that stands on the latest image takes over all of them. */
bool zfs_family_heir(struct zfs *zfs, const char *id, char out_heir[static CAY_STORE_ID_SIZE])
{
    const struct member *heir = NULL;
    uint64_t order = 0;
    size_t cursor = 0;
    pthread_mutex_lock(&zfs->lock);
    for (const struct member *member; (member = cay_map_next(&zfs->members, &cursor));) {
        const struct image *image = image_of(zfs, member->origin);
        if (image && !strcmp(image->holder, id) && image->order > order) {
            heir = member;
            order = image->order;
        }
    }
    if (heir)
        set_id(out_heir, heir->id);
    pthread_mutex_unlock(&zfs->lock);
    return heir != NULL;
}

/* Both change places: the images up to the heir's are the heir's now. */
void zfs_family_promoted(struct zfs *zfs, const char *id, const char *heir_id)
{
    size_t cursor = 0;
    pthread_mutex_lock(&zfs->lock);
    struct member *parent = enter(zfs, id);
    struct member *heir = enter(zfs, heir_id);
    const struct image *between = image_of(zfs, heir->origin);
    for (struct image *image; between && (image = cay_map_next(&zfs->images, &cursor));) {
        if (!strcmp(image->holder, id) && image->order <= between->order)
            set_id(image->holder, heir_id);
    }
    char above[CAY_STORE_ID_SIZE];
    set_id(above, parent->origin);
    set_id(parent->origin, heir->origin);
    set_id(heir->origin, above);
    pthread_mutex_unlock(&zfs->lock);
}

/* The next field of the line, cut out of it. */
static char *cut(char **line)
{
    char *field = *line;
    *line = field + strcspn(field, "\t");
    if (**line)
        *(*line)++ = '\0';
    return field;
}

/* The name of a dataset or snapshot as the id of its tree; NULL when it is none of ours. What comes
 * after '@' is cut off: the image's name, or "". */
static const char *tree_id(const struct zfs *zfs, char *name, const char **out_image)
{
    size_t len = strlen(zfs->root);
    if (strncmp(name, zfs->root, len) || name[len] != '/')
        return NULL;
    char *id = name + len + 1;
    char *at = strchrnul(id, '@');
    *out_image = *at ? at + 1 : at;
    if (at - id >= CAY_STORE_ID_SIZE || strlen(*out_image) >= CAY_STORE_ID_SIZE ||
        memchr(id, '/', (size_t)(at - id)))
        return NULL;
    *at = '\0';
    return id;
}

/* One that died before there was a clone left an image that nobody needs. */
static void destroy_orphan(const struct zfs *zfs, const char *holder, const char *name)
{
    char snapshot[2 * ZFS_NAME_SIZE];
    struct cay_error ignored;
    snprintf(snapshot, sizeof(snapshot), "%s/%s@%s", zfs->root, holder, name);
    (void)zfs_call(&(struct zfs_args){{"zfs", "destroy", "-d", snapshot}}, NULL, &ignored);
}

/* One that cannot be mounted is missed by its record, or by nobody. */
static void mount_member(const struct zfs *zfs, const char *id)
{
    char dataset[ZFS_NAME_SIZE];
    struct cay_error ignored;
    snprintf(dataset, sizeof(dataset), "%s/%s", zfs->root, id);
    (void)zfs_call(&(struct zfs_args){{"zfs", "mount", dataset}}, NULL, &ignored);
}

static void read_line(struct zfs *zfs, char *line, bool is_opening)
{
    const char *image = NULL;
    const char *origin = NULL;
    const char *id = tree_id(zfs, cut(&line), &image);
    const char *mounted = cut(&line);
    const char *sealed = cut(&line);
    if (!id)
        return;
    if (image[0]) {
        if (image_of(zfs, image))
            enter_image(zfs, image, id);
        else if (is_opening)
            destroy_orphan(zfs, id, image);
        return;
    }
    struct member *member = enter(zfs, id);
    const char *holder = tree_id(zfs, line, &origin);
    if (holder) {
        set_id(member->origin, origin);
        enter_image(zfs, origin, holder);
    }
    member->is_sealed = !strcmp(sealed, "on");
    if (member->is_sealed)
        set_id(member->image, id);
    if (is_opening && !strcmp(mounted, "no"))
        mount_member(zfs, id);
}

/* Snapshots come after all datasets, those of one dataset in the order they were taken in. */
static bool read_all(struct zfs *zfs, bool is_opening, struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, LIST_BYTES_MAX);
    const struct zfs_args list = {{"zfs", "list", "-H", "-r", "-t", "filesystem,snapshot", "-s",
                                   "type", "-o", "name,mounted," ZFS_SEALED ",origin", zfs->root}};
    if (!zfs_call(&list, &text, err))
        return false;
    cay_buf_append_byte(&text, '\0');
    if (text.failed)
        return cay_fail(err, CAY_R_STORE_FAILED, "zfs lists more than can be read");
    empty(&zfs->members);
    empty(&zfs->images);
    for (char *next = text.data; *next;) {
        char *line = next;
        next = line + strcspn(line, "\n");
        if (*next)
            *next++ = '\0';
        read_line(zfs, line, is_opening);
    }
    return true;
}

/* Under the lock: who clones meanwhile enters the clone after this. */
bool zfs_family_read(struct zfs *zfs, bool is_opening, struct cay_error *err)
{
    pthread_mutex_lock(&zfs->lock);
    bool ok = read_all(zfs, is_opening, err);
    pthread_mutex_unlock(&zfs->lock);
    return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Deep stacks made shallow. `collect` makes, for a layer that a session stands on and that lies
 * deep, its flat form: one layer on the base that shows the same as the whole run. Files are hard
 * links, so only directories cost. When the session's upper is frozen next, a copy of it (links
 * again) on the flat form is what the session goes on from. No snapshot changes, and no layer under
 * a living mount: the old run stays as long as somebody has it.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/crash.h"
#include "base/stop.h"
#include "host/store/copy.h"
#include "host/store/dir_list.h"
#include "host/store/merged.h"
#include "host/store/overlay/overlay_internal.h"
#include "sys/pin.h"

enum {
    DEPTH_MAX = 200,  /* of directories; deeper trees stay as they are */
    FLAT_AT_ONCE = 4, /* made in one call of collect */
};

uint32_t ov_flatten_depth = 32;

enum { NO_BASE = 1 << 30 }; /* the place of a base that nothing stands on */

struct flattening {
    const struct cay_diff_stack *stack;
    size_t base;              /* place of the base in the stack: the last; or NO_BASE */
    char base_path[PATH_MAX]; /* of its root */
};

/* Everything about a directory but its content. */
static int finish_dir(enum cay_copy_rule rule, int from_fd, int to_fd)
{
    struct stat st;
    if (fstat(from_fd, &st) < 0 || fchown(to_fd, st.st_uid, st.st_gid) < 0 ||
        fchmod(to_fd, st.st_mode & 07777) < 0)
        return -errno;
    int rc = cay_copy_xattrs(rule, from_fd, to_fd);
    struct timespec times[2] = {st.st_atim, st.st_mtim};
    if (!rc && futimens(to_fd, times) < 0)
        rc = -errno;
    return rc;
}

static int make_dir(int to_fd, const char *name)
{
    if (mkdirat(to_fd, name, 0700) < 0)
        return -errno;
    int fd = openat(to_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Where in its layer a directory is, by the kernel's word: nobody moves anything in there. */
static int path_of(int fd, char out[static PATH_MAX])
{
    ssize_t len = cay_pin_path(fd, out, PATH_MAX - 1);
    if (len < 0 || len == PATH_MAX - 1)
        return len < 0 ? (int)len : -ENAMETOOLONG;
    out[len] = '\0';
    return 0;
}

/* The part of a directory that is in the base, or -1. */
static int base_part(const struct flattening *flat, const struct cay_merged_dir *dir)
{
    const struct cay_merged_part *last = &dir->parts[dir->count - 1];
    return last->layer == flat->base ? last->fd : -1;
}

/* What a directory of the flat layer says about what lies below it. */
static int mark_dir(const struct flattening *flat, int parent_base_fd, const char *name,
                    const struct cay_merged_dir *dir, int to_fd)
{
    if (flat->base == NO_BASE)
        return 0; /* nothing lies below */
    int base_fd = base_part(flat, dir);
    if (base_fd < 0)
        return fsetxattr(to_fd, "trusted.overlay.opaque", "y", 1, 0) < 0 ? -errno : 0;
    struct stat at_name;
    if (parent_base_fd >= 0 && fstatat(parent_base_fd, name, &at_name, AT_SYMLINK_NOFOLLOW) == 0 &&
        at_name.st_ino == dir->parts[dir->count - 1].ino)
        return 0;
    [[gnu::uninitialized]] char path[PATH_MAX];
    int rc = path_of(base_fd, path);
    if (rc < 0)
        return rc;
    size_t root_len = strlen(flat->base_path);
    if (strncmp(path, flat->base_path, root_len) || path[root_len] != '/')
        return -ESTALE;
    return fsetxattr(to_fd, "trusted.overlay.redirect", path + root_len, strlen(path + root_len),
                     0) < 0
               ? -errno
               : 0;
}

static int flatten_dir(const struct flattening *flat, const struct cay_merged_dir *dir, int to_fd,
                       int depth);

static int flatten_name(const struct flattening *flat, const struct cay_merged_dir *dir,
                        const char *name, int to_fd, int depth)
{
    int below_fd = base_part(flat, dir);
    struct stat st;
    if (cay_stop_asked())
        return -ECANCELED;
    cay_auto(cay_merged_entry_finish) struct cay_merged_entry entry = {};
    int rc = cay_merged_lookup(flat->stack, dir, name, &entry);
    if (rc < 0)
        return rc;
    if (entry.kind == CAY_MERGED_ABSENT) {
        bool hides = below_fd >= 0 && fstatat(below_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
        return hides && mknodat(to_fd, name, S_IFCHR, 0) < 0 ? -errno : 0;
    }
    if (entry.layer == flat->base)
        return 0; /* shown by the base as it is */
    if (entry.kind == CAY_MERGED_LEAF)
        return linkat(entry.dir_fd, name, to_fd, name, 0) < 0 ? -errno : 0;
    cay_autoclose int fd = make_dir(to_fd, name);
    if (fd < 0)
        return fd;
    rc = mark_dir(flat, below_fd, name, &entry.dir, fd);
    return rc ? rc : flatten_dir(flat, &entry.dir, fd, depth + 1);
}

static int flatten_dir(const struct flattening *flat, const struct cay_merged_dir *dir, int to_fd,
                       int depth)
{
    if (depth > DEPTH_MAX)
        return -ENAMETOOLONG;
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    int rc = 0;
    for (size_t i = 0; !rc && i < dir->count; i++) {
        if (dir->parts[i].layer != flat->base)
            rc = cay_dir_list_read(&names, dir->parts[i].fd);
    }
    cay_dir_list_sort(&names);
    for (size_t i = 0; !rc && i < names.count; i++)
        rc = flatten_name(flat, dir, cay_dir_list_name(&names, i), to_fd, depth);
    CAY_CRASH_POINT("store.flatten_half");
    return rc ? rc : finish_dir(CAY_COPY_IMPORT, dir->parts[0].fd, to_fd);
}

/* A layer of its own in the same words, on another parent: marks stay, files are links. */
static int link_dir(int from_fd, int to_fd, int depth)
{
    if (depth > DEPTH_MAX)
        return -ENAMETOOLONG;
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    int rc = cay_dir_list_read(&names, from_fd);
    for (size_t i = 0; !rc && i < names.count; i++) {
        const char *name = cay_dir_list_name(&names, i);
        struct stat st;
        if (cay_stop_asked())
            return -ECANCELED;
        if (fstatat(from_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
        if (cay_copy_is_whiteout(&st)) {
            rc = mknodat(to_fd, name, S_IFCHR, 0) < 0 ? -errno : 0;
        } else if (!S_ISDIR(st.st_mode)) {
            rc = linkat(from_fd, name, to_fd, name, 0) < 0 ? -errno : 0;
        } else {
            cay_autoclose int from =
                openat(from_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            cay_autoclose int to = from < 0 ? -errno : make_dir(to_fd, name);
            rc = to < 0 ? to : link_dir(from, to, depth + 1);
        }
    }
    return rc ? rc : finish_dir(CAY_COPY_LAYER, from_fd, to_fd);
}

/* Fills the flat form of the layers into an empty directory, to stand on the last of them or on
 * nothing. -errno. */
static int fill_flat(const struct cay_diff_layer *layers, size_t count, bool is_whole, int to_fd)
{
    const struct cay_diff_stack stack = {.layers = layers, .count = count};
    [[gnu::uninitialized]] struct flattening flat; /* a page of it is a path */
    flat.stack = &stack;
    flat.base = is_whole ? NO_BASE : count - 1;
    cay_auto(cay_merged_dir_finish) struct cay_merged_dir root = {};
    int rc = is_whole ? 0 : path_of(layers[count - 1].fd, flat.base_path);
    if (!rc)
        rc = cay_merged_root(&stack, &root);
    return rc ? rc : flatten_dir(&flat, &root, to_fd, 0);
}

static int flatten_stack(struct ov_store *ov, const struct ov_layer *top, bool is_whole, int to_fd)
{
    struct cay_diff_layer *layers = cay_alloc(top->depth * sizeof(*layers));
    size_t count = 0;
    int rc = 0;
    for (const struct ov_layer *layer = top; !rc && layer; layer = layer->parent) {
        int fd = ov_layer_open(ov, layer);
        if (fd < 0)
            rc = fd;
        else
            layers[count++] = (struct cay_diff_layer){layer->node.id, fd};
    }
    if (!rc)
        rc = fill_flat(layers, count, is_whole, to_fd);
    for (size_t i = 0; i < count; i++)
        close(layers[i].fd);
    free(layers);
    return rc;
}

int ov_flatten_whole(struct ov_store *ov, const struct ov_layer *top, int to_fd)
{
    return flatten_stack(ov, top, true, to_fd);
}

/* A new layer that shows with `parent` (whose reference passes over) what `like` shows: its flat
 * form, or a copy of it alone. NULL when it cannot be made. */
static struct ov_layer *make_like(struct ov_store *ov, const struct ov_layer *like, bool is_flat,
                                  struct ov_layer *parent)
{
    char name[CAY_STORE_ID_SIZE];
    char text[CAY_STORE_ID_SIZE];
    cay_store_new_id(name);
    ov_id_text(like->node.id, text);
    uint64_t id = strtoull(name, NULL, 16);
    cay_autoclose int dir_fd = -1;
    struct cay_error ignored;
    struct ov_layer *layer = NULL;
    int rc = ov_layer_dirs(ov, id, &dir_fd, &ignored) ? 0 : -EIO;
    if (!rc) {
        cay_autoclose int to_fd =
            openat(dir_fd, "d", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        cay_autoclose int from_fd = is_flat ? -1 : ov_layer_open(ov, like);
        rc = to_fd < 0     ? -errno
             : is_flat     ? flatten_stack(ov, like, false, to_fd)
             : from_fd < 0 ? from_fd
                           : link_dir(from_fd, to_fd, 0);
    }
    if (!rc && fsetxattr(dir_fd, OV_SAME_XATTR, text, strlen(text), 0) < 0)
        rc = -errno;
    CAY_CRASH_POINT("store.flattened");
    if (rc < 0)
        ov_drop(ov, parent);
    else if (ov_layer_ready(ov, id, dir_fd, parent, &layer, &ignored))
        layer->same_as = like->node.id;
    pthread_mutex_lock(&ov->lock);
    if (!layer)
        ov_bury(ov, id);
    /* Files of these have another name now. */
    for (struct ov_layer *each = ov_find_layer(ov, like->node.id); each; each = each->parent)
        each->measured = each->measured && !each->parent;
    pthread_mutex_unlock(&ov->lock);
    return layer;
}

struct search {
    struct ov_layer *found;
};

static void find_deep(void *ctx, struct ov_node *node)
{
    struct search *search = ctx;
    struct ov_layer *layer = ((struct ov_session *)node)->upper->parent;
    if (!search->found && layer && layer->depth >= ov_flatten_depth && layer->depth > 2 &&
        !layer->is_upper && !layer->flat && !layer->stays_deep)
        search->found = layer;
}

void ov_flatten_some(struct ov_store *ov)
{
    for (int i = 0; i < FLAT_AT_ONCE; i++) {
        struct search search = {};
        struct ov_layer *base = NULL;
        pthread_mutex_lock(&ov->lock);
        ov_map_each(&ov->sessions, find_deep, &search);
        struct ov_layer *deep = search.found;
        if (deep) {
            ov_layer_ref(deep);
            for (base = deep; base->parent; base = base->parent)
                ;
            ov_layer_ref(base);
        }
        pthread_mutex_unlock(&ov->lock);
        if (!deep)
            return;
        struct ov_layer *flat = make_like(ov, deep, true, base);
        pthread_mutex_lock(&ov->lock);
        deep->flat = flat;
        deep->stays_deep = flat == NULL;
        ov_layer_unref(ov, deep);
        pthread_mutex_unlock(&ov->lock);
    }
}

struct ov_layer *ov_flat_form(struct ov_store *ov, struct ov_layer *frozen)
{
    pthread_mutex_lock(&ov->lock);
    struct ov_layer *flat = frozen->parent ? frozen->parent->flat : NULL;
    if (flat)
        ov_layer_ref(flat);
    pthread_mutex_unlock(&ov->lock);
    struct ov_layer *copy = flat ? make_like(ov, frozen, false, flat) : NULL;
    if (!copy)
        return frozen;
    ov_drop(ov, frozen);
    return copy;
}

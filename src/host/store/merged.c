/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/merged.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "host/store/copy.h"

/* What one look into one layer came to. */
enum outcome {
    GO_ON = 0, /* nothing here, or a directory that lets look through */
    STOP,      /* a whiteout, a leaf or an opaque directory: lower layers do not matter */
};

struct lookup {
    const struct cay_diff_stack *stack;
    struct cay_merged_entry *entry;
    /* What to look for in the next layer: a name in the parent's parts, or, once a directory was
     * moved from another one, a path from the roots. */
    char target[PATH_MAX];
    bool from_root;
    bool is_led_away; /* the directory just looked at has an absolute redirect */
};

void cay_merged_dir_finish(struct cay_merged_dir *dir)
{
    for (size_t i = 0; i < dir->count; i++)
        close(dir->parts[i].fd);
    free(dir->parts);
    free(dir->redirect);
    *dir = (struct cay_merged_dir){};
}

void cay_merged_entry_finish(struct cay_merged_entry *entry)
{
    cay_merged_dir_finish(&entry->dir);
    entry->kind = CAY_MERGED_ABSENT;
}

static void add_part(struct cay_merged_dir *dir, size_t layer, int fd, uint64_t ino)
{
    dir->parts = cay_realloc_array(dir->parts, dir->count + 1, sizeof(*dir->parts));
    dir->parts[dir->count++] = (struct cay_merged_part){layer, fd, ino};
}

int cay_merged_root(const struct cay_diff_stack *stack, struct cay_merged_dir *out_dir)
{
    cay_auto(cay_merged_dir_finish) struct cay_merged_dir dir = {};
    for (size_t i = 0; i < stack->count; i++) {
        struct stat st;
        if (fstat(stack->layers[i].fd, &st) < 0)
            return -errno;
        int fd = fcntl(stack->layers[i].fd, F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
            return -errno;
        add_part(&dir, i, fd, st.st_ino);
    }
    *out_dir = dir;
    dir = (struct cay_merged_dir){};
    return 0;
}

static int read_mark(int fd, const char *name, char *value, size_t size)
{
    ssize_t len = fgetxattr(fd, name, value, size - 1);
    if (len < 0)
        return errno == ENODATA || errno == EOPNOTSUPP ? 0 : -errno;
    value[len] = '\0';
    return (int)len;
}

/* Reads the marks of a directory. A redirect changes `target`: an absolute one is all of it, with
 * the part of the path not walked yet after it; a relative one takes the place of the last name
 * walked, which starts at `name_at`. `rest` is what follows that name. */
static int read_marks(struct lookup *lookup, int fd, size_t name_at, const char *rest,
                      bool *out_opaque)
{
    [[gnu::uninitialized]] char value[PATH_MAX];
    int len = read_mark(fd, "trusted.overlay.opaque", value, sizeof(value));
    if (len < 0)
        return len;
    *out_opaque = len == 1 && value[0] == 'y';
    len = read_mark(fd, "trusted.overlay.redirect", value, sizeof(value));
    if (len <= 0 || *out_opaque)
        return len < 0 ? len : 0;
    bool absolute = value[0] == '/';
    [[gnu::uninitialized]] char target[PATH_MAX];
    int needed = snprintf(target, sizeof(target), "%.*s%s%s", absolute ? 0 : (int)name_at,
                          lookup->target, value, rest);
    if (needed < 0 || (size_t)needed >= sizeof(target))
        return -ENAMETOOLONG;
    memcpy(lookup->target, target, (size_t)needed + 1);
    lookup->from_root = lookup->from_root || absolute;
    lookup->is_led_away = absolute;
    return len;
}

/* Looks at one name in one directory of one layer. `last`: it is what we look for, not a directory
 * on the way. *out_fd is the directory found, or -1. */
static int look(struct lookup *lookup, size_t layer, int dir_fd, const char *name, bool last,
                size_t name_at, const char *rest, int *out_fd, enum outcome *out_outcome)
{
    struct cay_merged_entry *entry = lookup->entry;
    struct stat st;
    *out_fd = -1;
    *out_outcome = GO_ON;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISDIR(st.st_mode)) {
        *out_outcome = STOP;
        if (last && entry->kind == CAY_MERGED_ABSENT && !cay_copy_is_whiteout(&st)) {
            entry->kind = CAY_MERGED_LEAF;
            entry->st = st;
            entry->dir_fd = dir_fd;
            entry->layer = layer;
        }
        return 0;
    }
    cay_autoclose int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    bool opaque = false;
    bool lowest = layer + 1 == lookup->stack->count; /* nothing below to hide or to find */
    int redirected = lowest ? 0 : read_marks(lookup, fd, name_at, rest, &opaque);
    if (redirected < 0)
        return redirected;
    *out_outcome = opaque ? STOP : GO_ON;
    if (last && entry->kind == CAY_MERGED_ABSENT) {
        entry->kind = CAY_MERGED_DIR;
        entry->st = st;
        entry->dir_fd = dir_fd;
        entry->layer = layer;
        if (redirected > 0)
            entry->dir.redirect = cay_strdup(lookup->target);
    }
    *out_fd = cay_take_fd(fd);
    if (last)
        add_part(&entry->dir, layer, *out_fd, st.st_ino);
    return 0;
}

/* Walks the target path in one layer, name by name. */
static int look_from_root(struct lookup *lookup, size_t layer, enum outcome *out_outcome)
{
    /* Redirects on the way rewrite the target for the layers below, not for this one. */
    [[gnu::uninitialized]] char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s", lookup->target);
    int dir_fd = lookup->stack->layers[layer].fd;
    cay_autoclose int held = -1;
    bool opaque_above = false;
    *out_outcome = GO_ON;
    for (char *name = path + 1; *name;) {
        char *end = strchrnul(name, '/');
        bool last = *end == '\0';
        [[gnu::uninitialized]] char rest[PATH_MAX];
        snprintf(rest, sizeof(rest), "%s%s", last ? "" : "/", last ? "" : end + 1);
        *end = '\0';
        /* The target may have been rewritten on the way; what is still to walk is its end. */
        size_t name_at = strlen(lookup->target) - strlen(name) - strlen(rest);
        int fd = -1;
        enum outcome outcome = GO_ON;
        lookup->is_led_away = false;
        int rc = look(lookup, layer, dir_fd, name, last, name_at, rest, &fd, &outcome);
        if (rc < 0)
            return rc;
        /* An absolute redirect leads out from below an opaque directory. */
        opaque_above = opaque_above && !lookup->is_led_away;
        if (last || fd < 0) {
            *out_outcome = outcome == STOP || opaque_above ? STOP : GO_ON;
            return 0;
        }
        opaque_above = opaque_above || outcome == STOP;
        cay_cleanup_close(&held);
        held = fd;
        dir_fd = fd;
        name = end + 1;
    }
    return 0;
}

int cay_merged_lookup(const struct cay_diff_stack *stack, const struct cay_merged_dir *parent,
                      const char *name, struct cay_merged_entry *out_entry)
{
    cay_auto(cay_merged_entry_finish) struct cay_merged_entry entry = {.dir_fd = -1};
    [[gnu::uninitialized]] struct lookup lookup; /* a page of it is the target */
    lookup.stack = stack;
    lookup.entry = &entry;
    lookup.from_root = false;
    lookup.is_led_away = false;
    snprintf(lookup.target, sizeof(lookup.target), "%s", name);
    enum outcome outcome = GO_ON;
    size_t layer = 0;
    for (size_t i = 0; outcome == GO_ON && !lookup.from_root && i < parent->count; i++) {
        const struct cay_merged_part *part = &parent->parts[i];
        char current[NAME_MAX + 1];
        snprintf(current, sizeof(current), "%s", lookup.target);
        int fd = -1;
        int rc = look(&lookup, part->layer, part->fd, current, true, 0, "", &fd, &outcome);
        if (rc < 0)
            return rc;
        layer = part->layer;
    }
    for (size_t i = layer + 1; outcome == GO_ON && lookup.from_root && i < stack->count; i++) {
        int rc = look_from_root(&lookup, i, &outcome);
        if (rc < 0)
            return rc;
    }
    *out_entry = entry;
    entry = (struct cay_merged_entry){};
    return 0;
}

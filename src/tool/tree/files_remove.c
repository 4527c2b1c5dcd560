/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/tree/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/stop.h"

/*
 * Removing a tree of any depth with two descriptors. On the way down each level's name, identity
 * and place of reading are noted; on the way up `..` is opened and must be the directory that was
 * noted, so a tree that is moved away while we are in it cannot lead us elsewhere.
 */

enum {
    DENTS_BYTES = 8 * 1024,
    PASSES_MAX = 64, /* over one directory that somebody fills while it is emptied */
};

struct level {
    dev_t dev;
    ino_t ino;
    int64_t offset;   /* where reading goes on */
    uint32_t name_at; /* its name in the level above */
    uint32_t passes;
};

struct removal {
    int fd; /* the directory being emptied */
    struct level *levels;
    size_t count, cap;
    struct cay_buf names;
    int64_t removed;
};

struct linux_dirent {
    uint64_t d_ino;
    int64_t d_off;
    unsigned short d_reclen;
    unsigned char d_type;
    char d_name[];
};

static bool is_dot(const char *name)
{
    return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/* Removes a name, whatever it is by now. -EISDIR for a directory that is not empty. */
static int remove_name(const struct removal *removal, const char *name, unsigned char type)
{
    int flags = type == DT_DIR ? AT_REMOVEDIR : 0;
    int failed = unlinkat(removal->fd, name, flags) < 0 ? errno : 0;
    if (failed == EISDIR || (failed == ENOTDIR && flags))
        failed = unlinkat(removal->fd, name, flags ^ AT_REMOVEDIR) < 0 ? errno : 0;
    if (failed == ENOTEMPTY || failed == EEXIST)
        return -EISDIR;
    return failed == ENOENT ? 0 : -failed;
}

static int push(struct removal *removal, int fd, const char *name)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    size_t held = (removal->count + 1) * sizeof(struct level) + removal->names.len;
    if (held > CAY_FILES_REMOVE_BYTES_MAX)
        return -ENOMEM;
    if (removal->count == removal->cap) {
        size_t cap = CAY_MAX(removal->cap * 2, (size_t)16);
        struct level *levels = reallocarray(removal->levels, cap, sizeof(struct level));
        if (!levels)
            return -ENOMEM;
        removal->levels = levels;
        removal->cap = cap;
    }
    removal->levels[removal->count++] =
        (struct level){.dev = st.st_dev, .ino = st.st_ino, .name_at = (uint32_t)removal->names.len};
    cay_buf_append(&removal->names, name, strlen(name) + 1);
    return removal->names.failed ? -ENOMEM : 0;
}

static int go_down(struct removal *removal, const char *name)
{
    int fd = cay_tree_below(removal->fd, name, O_RDONLY | O_DIRECTORY);
    if (fd < 0) /* gone, or no directory any more: the next pass sees */
        return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? 0 : fd;
    int pushed = push(removal, fd, name);
    if (pushed < 0) {
        close(fd);
        return pushed;
    }
    close(removal->fd);
    removal->fd = fd;
    return 1;
}

/* Reads on from the level's offset and removes. 1: went down, 0: at the end, or -errno. */
static int empty_some(struct removal *removal)
{
    struct level *level = &removal->levels[removal->count - 1];
    if (lseek(removal->fd, level->offset, SEEK_SET) < 0)
        return -errno;
    _Alignas(uint64_t) char block[DENTS_BYTES];
    long len = 0;
    while ((len = syscall(SYS_getdents64, removal->fd, block, sizeof(block))) > 0) {
        for (long at = 0; at < len;) {
            const struct linux_dirent *dent = (const void *)(block + at);
            at += dent->d_reclen;
            if (is_dot(dent->d_name)) {
                level->offset = dent->d_off;
                continue;
            }
            if (cay_stop_asked())
                return -ECANCELED;
            int gone = remove_name(removal, dent->d_name, dent->d_type);
            if (gone == 0)
                removal->removed++;
            int went = gone == -EISDIR ? go_down(removal, dent->d_name) : gone;
            if (went != 0)
                return went; /* `level` may have moved */
            level->offset = dent->d_off;
        }
    }
    return len < 0 ? -errno : 0;
}

/* Back to the level above, and removes the directory just emptied. */
static int go_up(struct removal *removal)
{
    int fd = openat(removal->fd, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    close(removal->fd);
    removal->fd = fd;
    struct level done = removal->levels[--removal->count];
    struct level *above = &removal->levels[removal->count - 1];
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_dev != above->dev || st.st_ino != above->ino)
        return -EAGAIN;
    const char *name = removal->names.data + done.name_at;
    bool gone = unlinkat(fd, name, AT_REMOVEDIR) == 0;
    int failed = gone ? 0 : -errno;
    removal->removed += gone;
    removal->names.len = done.name_at;
    /* Left with something in it, or replaced: it is met again when this level is read on. */
    if (failed == -ENOTEMPTY || failed == -ENOENT || failed == -ENOTDIR)
        failed = ++above->passes == PASSES_MAX ? -EAGAIN : 0;
    return failed;
}

static int remove_below(struct removal *removal, int parent_fd, const char *name)
{
    for (;;) {
        int step = empty_some(removal);
        if (step > 0)
            continue;
        if (step < 0)
            return step;
        if (removal->count > 1) {
            step = go_up(removal);
            if (step < 0)
                return step;
            continue;
        }
        if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0) {
            removal->removed++;
            return 0;
        }
        struct level *top = &removal->levels[0];
        if (errno != ENOTEMPTY || ++top->passes == PASSES_MAX)
            return errno == ENOTEMPTY ? -EAGAIN : -errno;
        top->offset = 0;
    }
}

static int remove_tree(int parent_fd, const char *name, int64_t *out_removed)
{
    struct removal removal = {};
    cay_buf_init(&removal.names, CAY_FILES_REMOVE_BYTES_MAX);
    removal.fd = cay_tree_below(parent_fd, name, O_RDONLY | O_DIRECTORY);
    int result = removal.fd;
    if (result >= 0)
        result = push(&removal, removal.fd, name);
    if (result >= 0)
        result = remove_below(&removal, parent_fd, name);
    *out_removed += removal.removed;
    if (removal.fd >= 0)
        close(removal.fd);
    free(removal.levels);
    cay_buf_finish(&removal.names);
    return result;
}

static int remove_at(const struct cay_tool_tree *tree, const struct cay_path *path, bool recursive,
                     int64_t *out_removed)
{
    char name[CAY_TREE_NAME_BYTES];
    bool slash = false;
    cay_autoclose int parent_fd = cay_tree_parent(tree, path->bytes, false, name, &slash);
    if (parent_fd < 0)
        return parent_fd == -EISDIR ? -EINVAL : cay_take_fd(parent_fd);
    struct stat st;
    if (fstatat(parent_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (slash && !S_ISDIR(st.st_mode))
        return -ENOTDIR;
    int kept = cay_tree_keep_mount(tree, parent_fd, name);
    if (kept < 0)
        return kept;
    if (unlinkat(parent_fd, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) == 0) {
        ++*out_removed;
        return 0;
    }
    if (!recursive || errno != ENOTEMPTY)
        return -errno;
    return remove_tree(parent_fd, name, out_removed);
}

bool cay_files_remove(const struct cay_tool_tree *tree, struct cay_str path, bool recursive,
                      bool missing_ok, int64_t *out_removed, struct cay_error *err)
{
    cay_auto(cay_tree_leave) struct cay_tree_visit visit = {};
    struct cay_path at;
    *out_removed = 0;
    if (!cay_tree_enter(tree, &visit, err) || !cay_path_resolve(tree, path, &at, err))
        return false;
    int removed = remove_at(tree, &at, recursive, out_removed);
    if (removed == -ENOENT && missing_ok)
        return true;
    return removed >= 0 || cay_tree_fail(err, removed, (struct cay_str){at.bytes, at.len});
}

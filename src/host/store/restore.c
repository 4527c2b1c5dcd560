/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "host/store/copy.h"
#include "host/store/store_ops.h"
#include "sys/pin.h"
#include "sys/remove.h"
#include "sys/resolve.h"

enum { XATTR_LIST_BYTES_MAX = 64 * 1024 };

struct cay_restore_link {
    struct cay_restore_link *next;
    char key[40]; /* device and inode in the view */
    char path[];
};

/* Where an entry is, on both sides. */
struct place {
    const char *temp; /* what is made in live_dir before it gets its name */
    int view_dir;
    int live_dir;
    const char *name;
    struct stat st; /* in the view */
};

static void place_finish(struct place *place)
{
    cay_cleanup_close(&place->view_dir);
    cay_cleanup_close(&place->live_dir);
}

void cay_restore_init(struct cay_restore *restore, int view_fd, int root_fd, const char *id)
{
    *restore = (struct cay_restore){.view_fd = view_fd, .root_fd = root_fd};
    snprintf(restore->temp, sizeof(restore->temp), ".cay-restore-%s", id);
    cay_map_init(&restore->links);
}

void cay_restore_finish(struct cay_restore *restore)
{
    while (restore->all_links) {
        struct cay_restore_link *next = restore->all_links->next;
        free(restore->all_links);
        restore->all_links = next;
    }
    for (size_t i = 0; i < restore->dir_count; i++)
        free(restore->dirs[i]);
    free(restore->dirs);
    cay_map_finish(&restore->links);
}

static int open_dir(int root_fd, const char *path)
{
    return cay_resolve_open_plain(root_fd, *path ? path : ".", O_RDONLY | O_DIRECTORY, 0);
}

/* The directory that a path is in; *out_name points into the path. */
static int open_parent(int root_fd, const char *path, const char **out_name)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;
    if (len >= sizeof(parent))
        return -ENAMETOOLONG;
    memcpy(parent, path, len);
    parent[len] = '\0';
    *out_name = slash ? slash + 1 : path;
    return open_dir(root_fd, parent);
}

int cay_restore_has(int root_fd, const char *path)
{
    const char *name = NULL;
    struct stat st;
    if (!*path)
        return 0;
    cay_autoclose int dir_fd = open_parent(root_fd, path, &name);
    if (dir_fd < 0)
        return dir_fd;
    return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int cay_restore_is_dir(int root_fd, const char *path)
{
    cay_autoclose int fd = open_dir(root_fd, path);
    return fd >= 0 ? 1 : fd == -ENOTDIR || fd == -ELOOP ? 0 : fd;
}

/* Attributes that the view does not have. */
static int drop_xattrs(int view_fd, int live_fd)
{
    cay_autofree char *list = cay_alloc(XATTR_LIST_BYTES_MAX);
    ssize_t len = flistxattr(live_fd, list, XATTR_LIST_BYTES_MAX);
    if (len < 0)
        return errno == EOPNOTSUPP ? 0 : -errno;
    for (const char *key = list; key < list + len; key += strlen(key) + 1) {
        if (cay_copy_keeps_xattr(CAY_COPY_IMPORT, key) && fgetxattr(view_fd, key, NULL, 0) < 0 &&
            errno == ENODATA && fremovexattr(live_fd, key) < 0)
            return -errno;
    }
    return 0;
}

static int set_owner_and_mode(int fd, const struct stat *st)
{
    int rc = cay_pin_chown(fd, st->st_uid, st->st_gid);
    return rc || S_ISLNK(st->st_mode) ? rc : cay_pin_chmod(fd, st->st_mode & 07777);
}

static int restore_dir(const struct place *place)
{
    if (mkdirat(place->live_dir, place->name, 0700) < 0 && errno != EEXIST)
        return -errno;
    cay_autoclose int view_fd =
        openat(place->view_dir, place->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    cay_autoclose int live_fd =
        openat(place->live_dir, place->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (view_fd < 0 || live_fd < 0)
        return -errno;
    int rc = set_owner_and_mode(live_fd, &place->st);
    if (!rc)
        rc = drop_xattrs(view_fd, live_fd);
    return rc ? rc : cay_copy_xattrs(CAY_COPY_IMPORT, view_fd, live_fd);
}

static int set_times(int fd, const struct stat *st)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    return cay_pin_set_times(fd, times);
}

static int make_file(const struct place *place)
{
    cay_autoclose int view_fd =
        openat(place->view_dir, place->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (view_fd < 0)
        return -errno;
    cay_autoclose int live_fd = openat(place->live_dir, place->temp,
                                       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (live_fd < 0)
        return -errno;
    int rc = cay_copy_data(view_fd, live_fd, &place->st);
    if (!rc)
        rc = set_owner_and_mode(live_fd, &place->st);
    if (!rc)
        rc = cay_copy_xattrs(CAY_COPY_IMPORT, view_fd, live_fd);
    return rc ? rc : set_times(live_fd, &place->st);
}

static int make_symlink(const struct place *place)
{
    char target[PATH_MAX];
    ssize_t len = readlinkat(place->view_dir, place->name, target, sizeof(target) - 1);
    if (len < 0)
        return -errno;
    target[len] = '\0';
    return symlinkat(target, place->live_dir, place->temp) < 0 ? -errno : 0;
}

/* Links, fifos and sockets. What was made may have another name by now, and something else its own:
 * that one is somebody's in the sandbox. */
static int make_special(const struct place *place)
{
    mode_t type = place->st.st_mode & S_IFMT;
    int rc = type == S_IFLNK ? make_symlink(place) : 0;
    if (type != S_IFLNK && mknodat(place->live_dir, place->temp, place->st.st_mode, 0) < 0)
        rc = -errno;
    cay_autoclose int fd = rc ? rc : cay_pin_open_type(place->live_dir, place->temp, type);
    rc = fd < 0 ? fd : set_owner_and_mode(fd, &place->st);
    return rc ? rc : set_times(fd, &place->st);
}

/* True when another name of the same file is there already, and this one is now a link to it. */
static bool link_instead(const struct cay_restore *restore, const struct place *place,
                         const char *key)
{
    const struct cay_restore_link *first = cay_map_get(&restore->links, cay_str(key));
    const char *name = NULL;
    cay_autoclose int dir_fd = first ? open_parent(restore->root_fd, first->path, &name) : -1;
    cay_autoclose int fd = dir_fd < 0 ? -1 : cay_pin_open_type(dir_fd, name, S_IFREG);
    return fd >= 0 && cay_pin_link(fd, place->live_dir, place->temp) == 0;
}

static void remember_link(struct cay_restore *restore, const char *key, const char *path)
{
    if (cay_map_get(&restore->links, cay_str(key)))
        return;
    struct cay_restore_link *link = cay_alloc(sizeof(*link) + strlen(path) + 1);
    link->next = restore->all_links;
    restore->all_links = link;
    snprintf(link->key, sizeof(link->key), "%s", key);
    memcpy(link->path, path, strlen(path) + 1);
    cay_map_put(&restore->links, cay_str(link->key), link);
}

/* Made beside and moved over: whoever looks sees the old one or the new one. */
static int restore_leaf(struct cay_restore *restore, const struct place *place, const char *path)
{
    mode_t type = place->st.st_mode & S_IFMT;
    char key[40];
    snprintf(key, sizeof(key), "%" PRIx64 ":%" PRIx64, (uint64_t)place->st.st_dev,
             (uint64_t)place->st.st_ino);
    bool has_more_names = type == S_IFREG && place->st.st_nlink > 1;
    int rc = cay_remove_tree(place->live_dir, place->temp, NULL); /* of a daemon that died */
    if (!rc && !(has_more_names && link_instead(restore, place, key))) {
        bool is_special = type == S_IFLNK || type == S_IFIFO || type == S_IFSOCK;
        rc = type == S_IFREG ? make_file(place) : is_special ? make_special(place) : -EOPNOTSUPP;
    }
    if (!rc && renameat(place->live_dir, place->temp, place->live_dir, place->name) < 0)
        rc = -errno;
    if (rc < 0)
        (void)cay_remove_tree(place->live_dir, place->temp, NULL);
    else if (has_more_names)
        remember_link(restore, key, path);
    return rc;
}

static void touch_dir(struct cay_restore *restore, const char *path)
{
    if (restore->dir_count && strcmp(restore->dirs[restore->dir_count - 1], path) == 0)
        return;
    restore->dirs =
        cay_realloc_array(restore->dirs, restore->dir_count + 1, sizeof(*restore->dirs));
    restore->dirs[restore->dir_count++] = cay_strdup(path);
}

static bool fail(struct cay_error *err, int rc, const char *path)
{
    if (rc == -ENOTDIR || rc == -ELOOP)
        return cay_fail(err, CAY_R_INVALID_STATE,
                        "'/%s': a directory above it is something else now; restore that one",
                        path);
    return cay_store_fail(err, rc, "restore '/%s'", path);
}

/* Directories above a path that the live tree lacks. */
static bool make_parents(struct cay_restore *restore, const char *path, struct cay_error *err)
{
    char parent[PATH_MAX];
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        size_t len = (size_t)(slash - path);
        if (len >= sizeof(parent))
            return fail(err, -ENAMETOOLONG, path);
        memcpy(parent, path, len);
        parent[len] = '\0';
        int rc = cay_restore_has(restore->root_fd, parent);
        if (rc == -ENOENT) {
            if (!cay_restore_path(restore, parent, err))
                return false;
        } else if (rc < 0) {
            return fail(err, rc, path);
        }
    }
    return true;
}

static int restore_present(struct cay_restore *restore, struct place *place, const char *path)
{
    struct stat live;
    bool is_dir = S_ISDIR(place->st.st_mode);
    if (fstatat(place->live_dir, place->name, &live, AT_SYMLINK_NOFOLLOW) == 0) {
        bool was_dir = S_ISDIR(live.st_mode);
        int rc = was_dir != is_dir ? cay_remove_tree(place->live_dir, place->name, NULL) : 0;
        if (rc < 0)
            return rc;
    } else if (errno != ENOENT) {
        return -errno;
    }
    if (!is_dir)
        return restore_leaf(restore, place, path);
    touch_dir(restore, path);
    return restore_dir(place);
}

bool cay_restore_path(struct cay_restore *restore, const char *path, struct cay_error *err)
{
    cay_auto(place_finish) struct place place = {
        .temp = restore->temp, .view_dir = -1, .live_dir = -1};
    if (!*path) { /* the root itself is always there */
        touch_dir(restore, path);
        return true;
    }
    place.view_dir = open_parent(restore->view_fd, path, &place.name);
    int rc = place.view_dir < 0 ? place.view_dir : 0;
    if (!rc && fstatat(place.view_dir, place.name, &place.st, AT_SYMLINK_NOFOLLOW) < 0)
        rc = -errno;
    if (rc < 0 && rc != -ENOENT && rc != -ENOTDIR && rc != -ELOOP)
        return fail(err, rc, path);
    bool is_there = rc == 0;
    if (is_there && !make_parents(restore, path, err))
        return false;
    place.live_dir = open_parent(restore->root_fd, path, &place.name);
    if (place.live_dir < 0)
        rc = place.live_dir;
    else
        rc = is_there ? restore_present(restore, &place, path)
                      : cay_remove_tree(place.live_dir, place.name, NULL);
    /* Gone with its directory is gone. */
    bool is_gone = !is_there && (rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP);
    return rc == 0 || is_gone || fail(err, rc, path);
}

bool cay_restore_settle(struct cay_restore *restore, struct cay_error *err)
{
    for (size_t i = restore->dir_count; i-- > 0;) {
        struct stat st;
        cay_autoclose int view_fd = open_dir(restore->view_fd, restore->dirs[i]);
        cay_autoclose int live_fd = open_dir(restore->root_fd, restore->dirs[i]);
        if (view_fd < 0 || live_fd < 0)
            continue; /* replaced later on */
        if (fstat(view_fd, &st) < 0)
            return fail(err, -errno, restore->dirs[i]);
        const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, st.st_mtim};
        if (futimens(live_fd, times) < 0)
            return fail(err, -errno, restore->dirs[i]);
    }
    return true;
}

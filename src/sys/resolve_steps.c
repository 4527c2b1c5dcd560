/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/resolve_steps.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "sys/resolve.h"

enum { LINKS_MAX = 40, ATTEMPTS_MAX = 32 };

struct mount_of {
    dev_t dev;
    uint64_t id; /* 0 where the kernel does not tell (before 5.8): then the device must do */
};

struct walk {
    int root_fd; /* borrowed */
    uint64_t how;
    struct mount_of mount;
    int links;
    int here_fd;         /* the directory that `at` names; the root's is our own copy, too */
    char at[PATH_MAX];   /* names walked so far, below the root: no links, no dots */
    char left[PATH_MAX]; /* what is still to be walked */
    size_t begin, end;   /* of the name in `left` that is its turn */
};

static int mount_of(int fd, struct mount_of *out)
{
    struct statx stx;
    if (statx(fd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, STATX_MNT_ID, &stx) < 0)
        return -errno;
    *out = (struct mount_of){
        .dev = makedev(stx.stx_dev_major, stx.stx_dev_minor),
        .id = stx.stx_mask & STATX_MNT_ID ? stx.stx_mnt_id : 0,
    };
    return 0;
}

static int check_mount(const struct walk *walk, int fd)
{
    struct mount_of mount;
    if (!(walk->how & RESOLVE_NO_XDEV))
        return 0;
    int rc = mount_of(fd, &mount);
    if (rc < 0)
        return rc;
    return mount.dev == walk->mount.dev && mount.id == walk->mount.id ? 0 : -EXDEV;
}

static int open_name(const struct walk *walk, const char *name, int flags, mode_t mode)
{
    cay_autoclose int fd = openat(walk->here_fd, name, flags | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0)
        return -errno;
    int rc = check_mount(walk, fd);
    return rc < 0 ? rc : cay_take_fd(fd);
}

/* Takes the descriptor over, or says what was wrong with it. */
static int enter(struct walk *walk, int fd)
{
    if (fd < 0)
        return fd;
    close(walk->here_fd);
    walk->here_fd = fd;
    return 0;
}

static int copy_of(int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return copy < 0 ? -errno : copy;
}

/* Takes the last name of `at` away and walks the others again. What has become something else since
 * makes the whole walk begin again. */
static int go_up(struct walk *walk)
{
    if (!walk->at[0])
        return walk->how & RESOLVE_BENEATH ? -EXDEV : 0;
    char *last = strrchr(walk->at, '/');
    *(last ? last : walk->at) = '\0';
    int rc = enter(walk, copy_of(walk->root_fd));
    struct cay_str rest = cay_str(walk->at);
    struct cay_str part;
    while (rc == 0 && rest.len && cay_str_split(&rest, '/', &part)) {
        char name[NAME_MAX + 1] = {};
        memcpy(name, part.ptr, part.len);
        rc = enter(walk, open_name(walk, name, O_PATH | O_DIRECTORY, 0));
    }
    return rc == -ENOTDIR || rc == -ENOENT ? -EAGAIN : rc;
}

static int go_down(struct walk *walk, const char *name, int fd)
{
    size_t used = strlen(walk->at);
    size_t len = strlen(name);
    if (used + len + 2 > sizeof(walk->at)) {
        close(fd);
        return -ENAMETOOLONG;
    }
    if (used)
        walk->at[used++] = '/';
    memcpy(walk->at + used, name, len + 1);
    return enter(walk, fd);
}

/* Whether the kernel would follow it where fs.protected_symlinks is set, as it is nearly
 * everywhere. */
static int may_follow(const struct walk *walk, int link_fd, const struct stat *link)
{
    struct stat dir;
    struct statfs fs;
    if (walk->how & RESOLVE_NO_SYMLINKS)
        return -ELOOP;
    if (fstat(walk->here_fd, &dir) < 0 || fstatfs(link_fd, &fs) < 0)
        return -errno;
    if (fs.f_type == PROC_SUPER_MAGIC)
        return -ELOOP;
    bool is_shared = (dir.st_mode & (S_ISVTX | S_IWOTH)) == (S_ISVTX | S_IWOTH);
    uid_t user = (uid_t)setfsuid((uid_t)-1);
    return is_shared && link->st_uid != user && link->st_uid != dir.st_uid ? -EACCES : 0;
}

/* Puts the text of a link in the place of its name. */
static int follow(struct walk *walk, int link_fd, const struct stat *link)
{
    if (++walk->links > LINKS_MAX)
        return -ELOOP;
    int rc = may_follow(walk, link_fd, link);
    if (rc < 0)
        return rc;
    char text[PATH_MAX];
    ssize_t len = readlinkat(link_fd, "", text, sizeof(text));
    if (len <= 0)
        return len < 0 ? -errno : -ENOENT;
    size_t rest = strlen(walk->left + walk->end);
    if ((size_t)len + rest + 1 > sizeof(walk->left))
        return -ENAMETOOLONG;
    memmove(walk->left + len, walk->left + walk->end, rest + 1);
    memcpy(walk->left, text, (size_t)len);
    walk->begin = walk->end = 0;
    if (text[0] != '/')
        return 0;
    if (walk->how & RESOLVE_BENEATH)
        return -EXDEV;
    walk->at[0] = '\0';
    return enter(walk, copy_of(walk->root_fd));
}

/* The last name: opened as asked, or -EINPROGRESS when it was a link to follow. */
static int open_last(struct walk *walk, const char *name, int flags, mode_t mode, bool is_dir)
{
    cay_autoclose int fd = open_name(walk, name, O_PATH, 0);
    if (fd < 0)
        return fd == -ENOENT && flags & O_CREAT ? open_name(walk, name, flags, mode) : fd;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    bool is_wanted = flags & O_NOFOLLOW || (flags & O_CREAT && flags & O_EXCL);
    if (S_ISLNK(st.st_mode) && (is_dir || !is_wanted)) {
        int rc = follow(walk, fd, &st);
        return rc < 0 ? rc : -EINPROGRESS;
    }
    if (flags & O_PATH)
        return flags & O_DIRECTORY && !S_ISDIR(st.st_mode) ? -ENOTDIR : cay_take_fd(fd);
    int opened = open_name(walk, name, flags, mode);
    /* What was no link a moment ago. */
    return opened == -ELOOP && !S_ISLNK(st.st_mode) ? -EAGAIN : opened;
}

/* One name in the middle of a path. */
static int step(struct walk *walk, const char *name)
{
    if (strcmp(name, "..") == 0)
        return go_up(walk);
    if (strcmp(name, ".") == 0)
        return 0;
    cay_autoclose int fd = open_name(walk, name, O_PATH, 0);
    if (fd < 0)
        return fd;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (S_ISLNK(st.st_mode))
        return follow(walk, fd, &st);
    return S_ISDIR(st.st_mode) ? go_down(walk, name, cay_take_fd(fd)) : -ENOTDIR;
}

static int next(struct walk *walk, int flags, mode_t mode)
{
    walk->begin = walk->end + strspn(walk->left + walk->end, "/");
    size_t len = strcspn(walk->left + walk->begin, "/");
    walk->end = walk->begin + len;
    if (len == 0) /* the path ended with a directory */
        return open_name(walk, ".", flags, mode);
    char name[NAME_MAX + 1];
    if (len > NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(name, walk->left + walk->begin, len);
    name[len] = '\0';
    size_t slashes = strspn(walk->left + walk->end, "/");
    bool is_last = walk->left[walk->end + slashes] == '\0';
    if (!is_last || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        int rc = step(walk, name);
        return rc < 0 ? rc : -EINPROGRESS;
    }
    if (slashes && flags & O_CREAT)
        return -EISDIR;
    return open_last(walk, name, slashes ? flags | O_DIRECTORY : flags, mode, slashes > 0);
}

static int walk_once(int dir_fd, const char *path, int flags, mode_t mode, uint64_t how)
{
    struct walk walk = {.root_fd = dir_fd, .how = how};
    size_t len = strlen(path);
    if (len == 0)
        return -ENOENT;
    if (len >= sizeof(walk.left))
        return -ENAMETOOLONG;
    if (path[0] == '/' && how & RESOLVE_BENEATH)
        return -EXDEV;
    memcpy(walk.left, path, len + 1);
    int rc = mount_of(dir_fd, &walk.mount);
    walk.here_fd = rc < 0 ? rc : copy_of(dir_fd);
    if (walk.here_fd < 0)
        return walk.here_fd;
    do
        rc = next(&walk, flags, mode);
    while (rc == -EINPROGRESS);
    close(walk.here_fd);
    return rc;
}

int cay_resolve_steps(int dir_fd, const char *path, int flags, mode_t mode, uint64_t how)
{
    assert(how & (RESOLVE_BENEATH | RESOLVE_IN_ROOT));
    int fd = -EAGAIN;
    for (int attempt = 0; attempt < ATTEMPTS_MAX && (fd == -EAGAIN || fd == -EINTR); attempt++)
        fd = walk_once(dir_fd, path, flags, mode, how);
    return fd;
}

/* EPERM is an answer, too, unless all calls are answered so: by a filter. */
static bool is_refused(int rc)
{
    if (rc != -EPERM)
        return rc == -ENOSYS;
    cay_autoclose int fd = cay_resolve(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0, 0);
    return fd == -EPERM || fd == -ENOSYS;
}

int cay_resolve_anywhere(int dir_fd, const char *path, int flags, mode_t mode, uint64_t how)
{
    int fd = cay_resolve(dir_fd, path, flags, mode, how);
    return is_refused(fd) ? cay_resolve_steps(dir_fd, path, flags, mode, how) : fd;
}

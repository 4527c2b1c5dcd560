/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/tree/tree.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/resolve_steps.h"
#include "tool/tree/path.h"
#include "tool/tree/tree_internal.h"

#define INSIDE (RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)
#define BELOW  (RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS)

int cay_tree_lookup(int dir_fd, const char *path, int flags, uint64_t resolve)
{
    return cay_resolve_anywhere(dir_fd, path,
                                flags & O_PATH ? flags : flags | O_NONBLOCK | O_NOCTTY, 0, resolve);
}

struct cay_str cay_tree_rest(struct cay_str path, struct cay_str top)
{
    if (!top.len || path.len < top.len || memcmp(path.ptr, top.ptr, top.len) != 0 ||
        (path.len > top.len && path.ptr[top.len] != '/'))
        return (struct cay_str){};
    return (struct cay_str){path.ptr + top.len, path.len - top.len};
}

/* Mounts below it are its own. -ENOLINK for what is, or leads, out of it. */
static int open_own(const struct cay_tool_tree *tree, const char *path, int flags)
{
    struct cay_str rest = tree->name.len ? cay_tree_rest(cay_str(path), tree->name) : cay_str(path);
    if (!rest.ptr)
        return -ENOLINK;
    const char *below = rest.ptr;
    while (*below == '/')
        below++;
    int fd = cay_tree_lookup(tree->root_fd, *below ? below : ".", flags,
                             RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
    return fd == -EXDEV ? -ENOLINK : fd;
}

int cay_tree_open(const struct cay_tool_tree *tree, const char *path, int flags)
{
    assert(!(flags & (O_CREAT | O_TRUNC)));
    if (tree->is_own)
        return open_own(tree, path, flags);
    int fd = cay_tree_lookup(tree->root_fd, path, flags, INSIDE | RESOLVE_NO_XDEV);
    return fd == -EXDEV && tree->has_mounts ? cay_tree_cross(tree, path, flags) : fd;
}

int cay_tree_below(int dir_fd, const char *path, int flags)
{
    cay_autoclose int fd = cay_tree_lookup(dir_fd, path, flags, BELOW);
    /* What may be read there is settled path by path: see tree_mounts.c. */
    if (fd >= 0 && !(flags & O_PATH) && strcmp(path, ".") != 0 && cay_tree_is_proc(fd))
        return -EXDEV;
    return cay_take_fd(fd);
}

int cay_tree_open_file(const struct cay_tool_tree *tree, const char *path, int flags,
                       struct stat *out_stat)
{
    cay_autoclose int fd = cay_tree_open(tree, path, flags);
    if (fd < 0)
        return cay_take_fd(fd);
    if (fstat(fd, out_stat) < 0)
        return -errno;
    if (S_ISDIR(out_stat->st_mode))
        return -EISDIR;
    if (!S_ISREG(out_stat->st_mode))
        return -ENXIO;
    if (tree->has_mounts && out_stat->st_size == 0 && cay_tree_is_proc(fd))
        return cay_tree_copy_proc(fd, out_stat);
    return cay_take_fd(fd);
}

int cay_tree_make_dir(int parent_fd, const char *name, uint32_t mode)
{
    /* Readable at first, so that it can be opened to get its real mode. */
    if (mkdirat(parent_fd, name, (mode & 0777) | 0700) < 0)
        return -errno;
    cay_autoclose int fd = cay_tree_below(parent_fd, name, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return fd;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    /* The set-gid bit comes from the directory above and stays. */
    uint32_t wanted = mode | (st.st_mode & S_ISGID);
    if ((st.st_mode & 07777) != wanted && fchmod(fd, wanted) < 0)
        return -errno;
    return 0;
}

/* Makes the directories named in `path`, one below the other, from `fd` on, which is consumed. */
static int make_dirs(int fd, const char *path)
{
    cay_autoclose int dir_fd = fd;
    struct cay_str rest = cay_str(path);
    struct cay_str part;
    while (cay_str_split(&rest, '/', &part)) {
        char name[CAY_TREE_NAME_BYTES];
        if (!part.len || cay_str_is(part, "."))
            continue;
        if (cay_str_is(part, ".."))
            return -ENOENT;
        if (part.len >= sizeof(name))
            return -ENAMETOOLONG;
        memcpy(name, part.ptr, part.len);
        name[part.len] = '\0';
        int made = cay_tree_make_dir(dir_fd, name, 0755);
        if (made < 0 && made != -EEXIST)
            return made;
        int next = cay_tree_below(dir_fd, name, O_PATH | O_DIRECTORY);
        if (next < 0)
            return next;
        close(dir_fd);
        dir_fd = next;
    }
    return cay_take_fd(dir_fd);
}

/* Opens a directory, making what is missing of it: from the longest part of the path that exists.
 */
static int open_or_make_dirs(const struct cay_tool_tree *tree, const char *path)
{
    int fd = cay_tree_open(tree, path, O_PATH | O_DIRECTORY);
    if (fd != -ENOENT)
        return fd;
    struct cay_path prefix;
    prefix.len = strlen(path);
    assert(prefix.len < sizeof(prefix.bytes));
    memcpy(prefix.bytes, path, prefix.len + 1);
    while (fd == -ENOENT && prefix.len > 0) {
        while (prefix.len > 0 && prefix.bytes[prefix.len - 1] == '/')
            prefix.len--;
        while (prefix.len > 0 && prefix.bytes[prefix.len - 1] != '/')
            prefix.len--;
        prefix.bytes[prefix.len] = '\0';
        fd = cay_tree_open(tree, prefix.len ? prefix.bytes : "/", O_PATH | O_DIRECTORY);
    }
    return fd < 0 ? fd : make_dirs(fd, path + prefix.len);
}

int cay_tree_parent(const struct cay_tool_tree *tree, const char *path, bool create,
                    char out_name[CAY_TREE_NAME_BYTES], bool *out_slash)
{
    struct cay_path dir;
    dir.len = strlen(path);
    assert(dir.len < sizeof(dir.bytes));
    memcpy(dir.bytes, path, dir.len + 1);
    size_t end = dir.len;
    while (end > 0 && dir.bytes[end - 1] == '/')
        end--;
    *out_slash = end < dir.len;
    size_t start = end;
    while (start > 0 && dir.bytes[start - 1] != '/')
        start--;
    struct cay_str name = {dir.bytes + start, end - start};
    if (tree->is_own && cay_str_equal((struct cay_str){dir.bytes, end}, tree->name))
        return -EISDIR; /* what is above it is not there */
    if (!name.len || cay_str_is(name, ".") || cay_str_is(name, ".."))
        return -EISDIR;
    if (name.len >= CAY_TREE_NAME_BYTES)
        return -ENAMETOOLONG;
    memcpy(out_name, name.ptr, name.len);
    out_name[name.len] = '\0';
    dir.bytes[start] = '\0';
    const char *above = start ? dir.bytes : "/";
    cay_autoclose int fd =
        create ? open_or_make_dirs(tree, above) : cay_tree_open(tree, above, O_PATH | O_DIRECTORY);
    if (fd >= 0 && tree->has_mounts && cay_tree_is_proc(fd))
        return -EROFS;
    return cay_take_fd(fd);
}

/* Replaces the last name of *path by what the link there says. */
static int follow(int parent_fd, const char *name, struct cay_path *path)
{
    char link[CAY_PATH_BYTES_MAX];
    ssize_t len = readlinkat(parent_fd, name, link, sizeof(link));
    if (len < 0)
        return -errno;
    if ((size_t)len == sizeof(link))
        return -ENAMETOOLONG;
    if (len == 0)
        return -ENOENT;
    if (link[0] == '/')
        path->len = 0;
    while (path->len > 0 && path->bytes[path->len - 1] == '/')
        path->len--;
    while (path->len > 0 && path->bytes[path->len - 1] != '/')
        path->len--;
    if (path->len + (size_t)len >= sizeof(path->bytes))
        return -ENAMETOOLONG;
    memcpy(path->bytes + path->len, link, (size_t)len);
    path->len += (size_t)len;
    path->bytes[path->len] = '\0';
    return 0;
}

int cay_tree_target(const struct cay_tool_tree *tree, const char *path, bool create,
                    char out_name[CAY_TREE_NAME_BYTES], struct stat *out_stat)
{
    struct cay_path at;
    at.len = strlen(path);
    assert(at.len < sizeof(at.bytes));
    memcpy(at.bytes, path, at.len + 1);
    for (int links = 0; links <= CAY_TREE_LINKS_MAX; links++) {
        bool slash = false;
        cay_autoclose int parent_fd = cay_tree_parent(tree, at.bytes, create, out_name, &slash);
        if (parent_fd < 0)
            return cay_take_fd(parent_fd);
        if (fstatat(parent_fd, out_name, out_stat, AT_SYMLINK_NOFOLLOW) < 0) {
            if (errno != ENOENT)
                return -errno;
            *out_stat = (struct stat){};
            return slash ? -EISDIR : cay_take_fd(parent_fd);
        }
        if (!S_ISLNK(out_stat->st_mode))
            return slash && !S_ISDIR(out_stat->st_mode) ? -ENOTDIR : cay_take_fd(parent_fd);
        int followed = follow(parent_fd, out_name, &at);
        if (followed < 0)
            return followed == -EINVAL ? -EAGAIN : followed;
    }
    return -ELOOP;
}

uint32_t cay_tree_id(const struct cay_tool_tree *tree, uint32_t host_id)
{
    uint32_t id = host_id - tree->id_base;
    return id < CAY_TREE_IDS ? id : CAY_TREE_ID_NOBODY;
}

enum cay_reason cay_tree_reason(int neg_errno)
{
    switch (-neg_errno) {
    case ENOENT: return CAY_R_FILE_NOT_FOUND;
    case EEXIST: return CAY_R_FILE_EXISTS;
    case ENOTDIR: return CAY_R_NOT_A_DIRECTORY;
    case EISDIR: return CAY_R_IS_A_DIRECTORY;
    case ENXIO:
    case ENODEV: return CAY_R_NOT_A_REGULAR_FILE;
    case EACCES:
    case EPERM:
    case EROFS:
    case EREMOTE:
    case ENOLINK:
    case EOVERFLOW: return CAY_R_ACCESS_DENIED;
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP: return CAY_R_INVALID_PATH;
    case EFBIG:
    case ENOSPC: return CAY_R_NO_SPACE;
    case EDQUOT: return CAY_R_QUOTA_EXCEEDED;
    case EXDEV:
    case ENOTSUP: return CAY_R_NOT_SUPPORTED;
    case ENOTEMPTY:
    case EBUSY:
    case ETXTBSY:
    case EAGAIN: return CAY_R_FAILED_PRECONDITION;
    case EMFILE:
    case ENFILE: return CAY_R_TOO_MANY_OPEN_FILES;
    case ENOMEM: return CAY_R_RESOURCE_EXHAUSTED;
    case EIO: return CAY_R_DISK_FAILED;
    case ESTALE: return CAY_R_STORE_FAILED;
    case ECANCELED: return CAY_R_CANCELED;
    default: return CAY_R_INTERNAL;
    }
}

static const char *sentence(int neg_errno)
{
    switch (-neg_errno) {
    case ENOENT: return "no such file or directory";
    case EEXIST: return "it exists already";
    case ENOTDIR: return "it, or a part of its path, is not a directory";
    case EISDIR: return "it is a directory";
    case ENXIO:
    case ENODEV: return "it is a device, a socket or a fifo";
    case EACCES:
    case EPERM: return "the user may not do that";
    case EROFS: return "it cannot be written to";
    case EREMOTE: return "it answers by who reads it; read it with a command in the session";
    case ENOLINK: return "it is outside of the environment's directory";
    case ELOOP: return "too many symbolic links";
    case ENAMETOOLONG: return "the path is too long";
    case EINVAL: return "not possible with this path";
    case EXDEV: return "it is on another file system";
    case ENOTEMPTY: return "the directory is not empty";
    case EAGAIN: return "it was changed meanwhile; try again";
    case ENOSPC: return "no space is left";
    case EDQUOT: return "the quota is used up";
    case ECANCELED: return "the caller went away";
    default: return NULL;
    }
}

bool cay_tree_fail(struct cay_error *err, int neg_errno, struct cay_str path)
{
    char shown[128];
    cay_path_excerpt(path, shown, sizeof(shown));
    const char *text = sentence(neg_errno);
    if (text)
        cay_fail(err, cay_tree_reason(neg_errno), "'%s': %s", shown, text);
    else
        cay_fail_errno(err, cay_tree_reason(neg_errno), neg_errno, "'%s'", shown);
    err->sys_errno = -neg_errno;
    return cay_error_fact(err, "path", "%s", shown);
}

/* For file systems that know no flags of renames: NFS, FUSE, zfs before 2.2. A directory takes the
 * place of an empty one of ours. */
static int rename_new_in_steps(int old_fd, const char *old_name, int new_fd, const char *new_name)
{
    if (linkat(old_fd, old_name, new_fd, new_name, 0) == 0)
        return unlinkat(old_fd, old_name, 0) < 0 ? -errno : 0;
    if (errno != EPERM)
        return -errno;
    if (mkdirat(new_fd, new_name, 0700) < 0)
        return -errno;
    if (renameat(old_fd, old_name, new_fd, new_name) == 0)
        return 0;
    int result =
        errno == EISDIR ? -EPERM : -errno; /* no directory: a file that may not be linked */
    (void)unlinkat(new_fd, new_name, AT_REMOVEDIR);
    return result;
}

int cay_tree_rename_new(int old_fd, const char *old_name, int new_fd, const char *new_name)
{
    enum { NO_REPLACE = 1 }; /* RENAME_NOREPLACE, whose header clashes with stdio.h's */
    if (syscall(SYS_renameat2, old_fd, old_name, new_fd, new_name, NO_REPLACE) == 0)
        return 0;
    return errno == EINVAL ? rename_new_in_steps(old_fd, old_name, new_fd, new_name) : -errno;
}

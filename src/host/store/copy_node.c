/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "host/store/copy.h"

enum {
    SMALL_BYTES = 64 * 1024, /* one read and one write beat everything else */
    XATTR_LIST_BYTES_MAX = 64 * 1024,
    XATTR_VALUE_BYTES_MAX = 64 * 1024,
};

static int copy_small(int from_fd, int to_fd)
{
    [[gnu::uninitialized]] char buf[SMALL_BYTES];
    for (;;) {
        ssize_t len = read(from_fd, buf, sizeof(buf));
        if (len == 0)
            return 0;
        if (len < 0)
            return -errno;
        for (ssize_t done = 0; done < len;) {
            ssize_t count = write(to_fd, buf + done, (size_t)(len - done));
            if (count < 0)
                return -errno;
            done += count;
        }
    }
}

static int copy_range(int from_fd, int to_fd, off_t at, off_t end)
{
    off_t from_at = at;
    off_t to_at = at;
    while (from_at < end) {
        ssize_t count =
            copy_file_range(from_fd, &from_at, to_fd, &to_at, (size_t)(end - from_at), 0);
        if (count > 0)
            continue;
        if (count == 0)
            return 0; /* the file got shorter */
        if (errno != EXDEV && errno != EINVAL && errno != EOPNOTSUPP && errno != ENOSYS)
            return -errno;
        [[gnu::uninitialized]] char buf[SMALL_BYTES];
        size_t want = CAY_MIN(sizeof(buf), (size_t)(end - from_at));
        ssize_t len = pread(from_fd, buf, want, from_at);
        if (len <= 0)
            return len < 0 ? -errno : 0;
        if (pwrite(to_fd, buf, (size_t)len, to_at) != len)
            return errno ? -errno : -EIO;
        from_at += len;
        to_at += len;
    }
    return 0;
}

static int copy_extents(int from_fd, int to_fd, off_t size)
{
    if (ftruncate(to_fd, size) < 0)
        return -errno;
    for (off_t at = 0; at < size;) {
        off_t data = lseek(from_fd, at, SEEK_DATA);
        if (data < 0)
            return errno == ENXIO ? 0 : -errno;
        off_t hole = lseek(from_fd, data, SEEK_HOLE);
        if (hole < 0)
            return -errno;
        int rc = copy_range(from_fd, to_fd, data, CAY_MIN(hole, size));
        if (rc < 0)
            return rc;
        at = hole;
    }
    return 0;
}

int cay_copy_data(int from_fd, int to_fd, const struct stat *st)
{
    if (st->st_size == 0)
        return 0;
    bool dense = st->st_blocks * 512 >= st->st_size;
    if (st->st_size <= SMALL_BYTES && dense)
        return copy_small(from_fd, to_fd);
    if (ioctl(to_fd, FICLONE, from_fd) == 0)
        return 0;
    return copy_extents(from_fd, to_fd, st->st_size);
}

static bool starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool cay_copy_keeps_xattr(enum cay_copy_rule rule, const char *name)
{
    /* These name inodes of the copied layer, or describe its place in a stack. */
    static const char *const dropped[] = {
        "trusted.overlay.origin",
        "trusted.overlay.impure",
        "trusted.overlay.nlink",
        "trusted.overlay.uuid",
    };
    static const char *const imported[] = {
        "security.capability",
        "system.posix_acl_access",
        "system.posix_acl_default",
    };
    if (rule == CAY_COPY_LAYER) {
        for (size_t i = 0; i < CAY_COUNT(dropped); i++) {
            if (!strcmp(name, dropped[i]))
                return false;
        }
        return true;
    }
    for (size_t i = 0; i < CAY_COUNT(imported); i++) {
        if (!strcmp(name, imported[i]))
            return true;
    }
    return starts(name, "user.");
}

/* Links and special files cannot be opened for this; their directory's descriptor leads to them. */
static const char *name_path(char path[static 320], int dir_fd, const char *name)
{
    snprintf(path, 320, "/proc/self/fd/%d/%s", dir_fd, name);
    return path;
}

int cay_copy_xattrs(enum cay_copy_rule rule, int from_fd, int from_dir_fd, int to_fd, int to_dir_fd,
                    const char *name)
{
    char from_path[320];
    char to_path[320];
    char small[1024];
    char *list = small;
    cay_autofree char *large = NULL;
    bool by_fd = from_fd >= 0;
    if (!by_fd) {
        name_path(from_path, from_dir_fd, name);
        name_path(to_path, to_dir_fd, name);
    }
    ssize_t len = by_fd ? flistxattr(from_fd, list, sizeof(small))
                        : llistxattr(from_path, list, sizeof(small));
    if (len < 0 && errno == ERANGE) {
        list = large = cay_alloc(XATTR_LIST_BYTES_MAX);
        len = by_fd ? flistxattr(from_fd, list, XATTR_LIST_BYTES_MAX)
                    : llistxattr(from_path, list, XATTR_LIST_BYTES_MAX);
    }
    if (len < 0)
        return errno == EOPNOTSUPP ? 0 : -errno;
    cay_autofree char *value = NULL;
    for (const char *key = list; key < list + len; key += strlen(key) + 1) {
        if (!cay_copy_keeps_xattr(rule, key))
            continue;
        if (!value)
            value = cay_alloc(XATTR_VALUE_BYTES_MAX);
        ssize_t size = by_fd ? fgetxattr(from_fd, key, value, XATTR_VALUE_BYTES_MAX)
                             : lgetxattr(from_path, key, value, XATTR_VALUE_BYTES_MAX);
        if (size < 0)
            return -errno;
        if ((by_fd ? fsetxattr(to_fd, key, value, (size_t)size, 0)
                   : lsetxattr(to_path, key, value, (size_t)size, 0)) < 0)
            return -errno;
    }
    return 0;
}

/* One side of a comparison: an open file, or a name in an open directory. */
struct attributes {
    int fd;
    const char *name;
    char path[320];
    char *list;
    ssize_t len;
};

static void attributes_finish(struct attributes *side)
{
    free(side->list);
}

static ssize_t list_names(const struct attributes *side, size_t size)
{
    return side->name ? llistxattr(side->path, side->list, size)
                      : flistxattr(side->fd, side->list, size);
}

static ssize_t get_value(const struct attributes *side, const char *key, char *value)
{
    return side->name ? lgetxattr(side->path, key, value, XATTR_VALUE_BYTES_MAX)
                      : fgetxattr(side->fd, key, value, XATTR_VALUE_BYTES_MAX);
}

/* Fills the list; the number of kept names or -errno. */
static int list_kept(enum cay_copy_rule rule, struct attributes *side)
{
    size_t size = 256;
    if (side->name)
        name_path(side->path, side->fd, side->name);
    side->list = cay_alloc(size);
    side->len = list_names(side, size);
    if (side->len < 0 && errno == ERANGE) {
        size = XATTR_LIST_BYTES_MAX;
        side->list = cay_realloc_array(side->list, size, 1);
        side->len = list_names(side, size);
    }
    int count = side->len < 0 && errno != EOPNOTSUPP ? -errno : 0;
    for (const char *key = side->list; key < side->list + side->len; key += strlen(key) + 1)
        count += cay_copy_keeps_xattr(rule, key);
    return count;
}

static int same_values(enum cay_copy_rule rule, const struct attributes *a,
                       const struct attributes *b)
{
    cay_autofree char *a_value = cay_alloc(XATTR_VALUE_BYTES_MAX);
    cay_autofree char *b_value = cay_alloc(XATTR_VALUE_BYTES_MAX);
    for (const char *key = a->list; key < a->list + a->len; key += strlen(key) + 1) {
        if (!cay_copy_keeps_xattr(rule, key))
            continue;
        ssize_t a_len = get_value(a, key, a_value);
        if (a_len < 0)
            return -errno;
        ssize_t b_len = get_value(b, key, b_value);
        if (a_len != b_len || memcmp(a_value, b_value, (size_t)a_len))
            return 0;
    }
    return 1;
}

int cay_copy_same_xattrs(enum cay_copy_rule rule, int a_fd, const char *a_name, int b_fd,
                         const char *b_name)
{
    cay_auto(attributes_finish) struct attributes a = {.fd = a_fd, .name = a_name};
    cay_auto(attributes_finish) struct attributes b = {.fd = b_fd, .name = b_name};
    int a_count = list_kept(rule, &a);
    int b_count = list_kept(rule, &b);
    if (a_count < 0 || b_count < 0)
        return a_count < 0 ? a_count : b_count;
    if (a_count != b_count)
        return 0;
    return a_count == 0 ? 1 : same_values(rule, &a, &b);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/stop.h"
#include "host/store/copy.h"
#include "sys/pin.h"

enum {
    SMALL_BYTES = CAY_COPY_SMALL_BYTES,
    PIECE_BYTES = 4 << 20,
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
        if (cay_stop_asked())
            return -ECANCELED;
        /* In pieces: the kernel does not come back before it is through with one. */
        ssize_t count = copy_file_range(from_fd, &from_at, to_fd, &to_at,
                                        CAY_MIN((size_t)(end - from_at), (size_t)PIECE_BYTES), 0);
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

int cay_copy_xattrs(enum cay_copy_rule rule, int from_fd, int to_fd)
{
    char small[1024];
    char *list = small;
    cay_autofree char *large = NULL;
    ssize_t len = cay_pin_list_xattrs(from_fd, list, sizeof(small));
    if (len == -ERANGE) {
        list = large = cay_alloc(XATTR_LIST_BYTES_MAX);
        len = cay_pin_list_xattrs(from_fd, list, XATTR_LIST_BYTES_MAX);
    }
    if (len < 0)
        return len == -EOPNOTSUPP ? 0 : (int)len;
    cay_autofree char *value = NULL;
    for (const char *key = list; key < list + len; key += strlen(key) + 1) {
        if (!cay_copy_keeps_xattr(rule, key))
            continue;
        if (!value)
            value = cay_alloc(XATTR_VALUE_BYTES_MAX);
        ssize_t size = cay_pin_get_xattr(from_fd, key, value, XATTR_VALUE_BYTES_MAX);
        int rc = size < 0 ? (int)size : cay_pin_set_xattr(to_fd, key, value, (size_t)size);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* One side of a comparison. */
struct attributes {
    int fd;
    char *list;
    ssize_t len;
};

static void attributes_finish(struct attributes *side)
{
    free(side->list);
}

/* Fills the list; the number of kept names or -errno. */
static int list_kept(enum cay_copy_rule rule, struct attributes *side)
{
    size_t size = 256;
    side->list = cay_alloc(size);
    side->len = cay_pin_list_xattrs(side->fd, side->list, size);
    if (side->len == -ERANGE) {
        size = XATTR_LIST_BYTES_MAX;
        side->list = cay_realloc_array(side->list, size, 1);
        side->len = cay_pin_list_xattrs(side->fd, side->list, size);
    }
    int count = side->len < 0 && side->len != -EOPNOTSUPP ? (int)side->len : 0;
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
        ssize_t a_len = cay_pin_get_xattr(a->fd, key, a_value, XATTR_VALUE_BYTES_MAX);
        if (a_len < 0)
            return (int)a_len;
        ssize_t b_len = cay_pin_get_xattr(b->fd, key, b_value, XATTR_VALUE_BYTES_MAX);
        if (a_len != b_len || memcmp(a_value, b_value, (size_t)a_len))
            return 0;
    }
    return 1;
}

int cay_copy_same_xattrs(enum cay_copy_rule rule, int a_fd, int b_fd)
{
    cay_auto(attributes_finish) struct attributes a = {.fd = a_fd};
    cay_auto(attributes_finish) struct attributes b = {.fd = b_fd};
    int a_count = list_kept(rule, &a);
    int b_count = list_kept(rule, &b);
    if (a_count < 0 || b_count < 0)
        return a_count < 0 ? a_count : b_count;
    if (a_count != b_count)
        return 0;
    return a_count == 0 ? 1 : same_values(rule, &a, &b);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/tree/write_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sys/pin.h"

enum { XATTR_NAME_BYTES = 256 };

static bool is_kept(const char *name)
{
    return strncmp(name, "user.", 5) == 0 || strcmp(name, "system.posix_acl_access") == 0;
}

static int copy_xattr(int from_fd, int to_fd, const char *name, char *value)
{
    ssize_t len = cay_pin_get_xattr(from_fd, name, value, CAY_WRITE_XATTR_BYTES_MAX);
    if (len < 0)
        return len == -ENODATA ? 0 : (int)len;
    return fsetxattr(to_fd, name, value, (size_t)len, 0) < 0 ? -errno : 0;
}

static int copy_xattrs(const struct cay_write *write)
{
    cay_autoclose int old_fd = cay_pin_open(write->parent_fd, write->name);
    if (old_fd < 0)
        return old_fd;
    char first[1024];
    ssize_t len = cay_pin_list_xattrs(old_fd, first, sizeof(first));
    if (len == 0 || len == -ENOTSUP)
        return 0;
    if (len < 0 && len != -ERANGE)
        return (int)len;
    cay_autofree char *names = calloc(1, CAY_WRITE_XATTR_BYTES_MAX);
    cay_autofree char *value = calloc(1, CAY_WRITE_XATTR_BYTES_MAX);
    if (!names || !value)
        return -ENOMEM;
    len = cay_pin_list_xattrs(old_fd, names, CAY_WRITE_XATTR_BYTES_MAX);
    if (len < 0)
        return (int)len;
    for (const char *name = names; name < names + len; name += strlen(name) + 1) {
        int copied = is_kept(name) ? copy_xattr(old_fd, write->fd, name, value) : 0;
        if (copied < 0)
            return copied;
    }
    return 0;
}

int cay_write_keep_attributes(const struct cay_write *write)
{
    struct stat now;
    if (fstat(write->fd, &now) < 0)
        return -errno;
    const struct stat *old = &write->old;
    if ((now.st_uid != old->st_uid || now.st_gid != old->st_gid) &&
        fchown(write->fd, old->st_uid, old->st_gid) < 0)
        return -errno;
    return copy_xattrs(write);
}

static int drop_metadata(int fd)
{
    char names[CAY_WRITE_XATTR_BYTES_MAX];
    ssize_t len = flistxattr(fd, names, sizeof(names));
    if (len < 0)
        return errno == ENOTSUP ? 0 : -errno;
    for (const char *name = names; name < names + len; name += strlen(name) + 1)
        if (cay_is_metadata(name) && fremovexattr(fd, name) < 0 && errno != ENODATA)
            return -errno;
    return 0;
}

int cay_write_set_metadata(const struct cay_write *write, int fd)
{
    int dropped = drop_metadata(fd);
    if (dropped < 0)
        return dropped;
    for (size_t i = 0; i < write->options.metadata.count; i++) {
        const struct cay_pb_pair *entry = &write->options.metadata.items[i];
        char name[XATTR_NAME_BYTES];
        int len = snprintf(name, sizeof(name), "%s%.*s",
                           write->options.is_e2b_metadata ? CAY_METADATA_PREFIX_E2B
                                                          : CAY_METADATA_PREFIX_OWN,
                           (int)entry->key.len, entry->key.ptr);
        if (len >= (int)sizeof(name))
            return -EINVAL;
        if (fsetxattr(fd, name, entry->value.ptr ? entry->value.ptr : "", entry->value.len, 0) < 0)
            /* Those clients do not expect an error where files cannot have any. */
            return errno == ENOTSUP && write->options.is_e2b_metadata ? 0 : -errno;
    }
    return 0;
}

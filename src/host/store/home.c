/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/home.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "host/store/record.h"
#include "host/store/store_ops.h"

bool cay_store_open_dir(int at_fd, const char *name, int *out_fd, struct cay_error *err)
{
    if (mkdirat(at_fd, name, 0700) < 0 && errno != EEXIST)
        return cay_store_fail(err, -errno, "make '%s'", name);
    int fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return cay_store_fail(err, -errno, "open '%s'", name);
    *out_fd = fd;
    return true;
}

static bool check_format(int root_fd, const char *format, struct cay_error *err)
{
    char text[64];
    int rc = cay_record_read(root_fd, "format", text, sizeof(text));
    if (rc == 0 && strcmp(text, format) != 0)
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "the directory holds a store of format '%s'",
                        text);
    if (rc == -ENOENT)
        rc = cay_record_add(root_fd, "format", format);
    return rc == 0 || cay_store_fail(err, rc, "read the format");
}

bool cay_store_claim(int root_fd, const char *directory, const char *format, int *out_lock_fd,
                     struct cay_error *err)
{
    /* Files that belong to the host's root with the setuid bit lie in here. */
    if (fchmod(root_fd, 0700) < 0)
        return cay_store_fail(err, -errno, "close '%s' to others", directory);
    cay_autoclose int fd = openat(root_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return cay_store_fail(err, -errno, "open lock");
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return cay_fail_errno(err, CAY_R_UNAVAILABLE, -errno, "another daemon has the store");
    if (!check_format(root_fd, format, err))
        return false;
    *out_lock_fd = cay_take_fd(fd);
    return true;
}

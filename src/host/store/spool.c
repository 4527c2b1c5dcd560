/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "host/store/store.h"

int cay_spool_open(int dir_fd)
{
    int fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
        return -errno;
    /* The file system knows no such thing: one whose name is taken away at once. */
    char id[CAY_STORE_ID_SIZE];
    char name[CAY_STORE_ID_SIZE + 8];
    cay_store_new_id(id);
    snprintf(name, sizeof(name), ".spool-%s", id);
    fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    (void)unlinkat(dir_fd, name, 0);
    return fd;
}

int cay_spool_write(int fd, const void *data, size_t len)
{
    enum { RESERVE = 50 };
    struct statvfs fs;
    if (fstatvfs(fd, &fs) < 0)
        return -errno;
    if (fs.f_bavail < fs.f_blocks / RESERVE)
        return -ENOSPC;
    for (size_t done = 0; done < len;) {
        ssize_t count = write(fd, (const char *)data + done, len - done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -errno;
        done += (size_t)count;
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>

#include "sys/raw.h"

enum { ATTEMPTS_MAX = 32 };

int cay_resolve(int dir_fd, const char *path, int flags, mode_t mode, uint64_t how)
{
    struct open_how open_how = {
        .flags = (uint64_t)(unsigned int)flags | O_CLOEXEC,
        .mode = flags & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)) ? mode : 0,
        .resolve = how,
    };
    long fd = -EAGAIN;
    for (int attempt = 0; attempt < ATTEMPTS_MAX && (fd == -EAGAIN || fd == -EINTR); attempt++)
        fd = cay_raw4(SYS_openat2, dir_fd, path, &open_how, sizeof(open_how));
    return (int)fd;
}

int cay_resolve_open(int root_fd, const char *path, int flags, mode_t mode)
{
    return cay_resolve(root_fd, path, flags, mode, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

int cay_resolve_open_plain(int root_fd, const char *path, int flags, mode_t mode)
{
    return cay_resolve(root_fd, path, flags, mode,
                       RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS);
}

int cay_resolve_open_cached(int root_fd, const char *path, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned int)flags | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_CACHED,
    };
    return (int)cay_raw4(SYS_openat2, root_fd, path, &how, sizeof(how));
}

int cay_resolve_open_here(const char *path, int flags)
{
    return cay_resolve(AT_FDCWD, path, flags, 0, RESOLVE_NO_MAGICLINKS);
}

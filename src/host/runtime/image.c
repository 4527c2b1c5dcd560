/* SPDX-License-Identifier: Apache-2.0 */
#include "host/runtime/image.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

enum { IMAGE_BYTES_MAX = 16 << 20 };

static int open_memory(void)
{
    /* Kernels before 6.3 do not know the flag, newer ones may be told to insist on it
     * (Documentation/userspace-api/mfd_noexec.rst). */
    int fd = memfd_create("cay-init", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("cay-init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd < 0 ? -errno : fd;
}

int cay_image_open(const char *path)
{
    cay_autoclose int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (file < 0 || fstat(file, &info) < 0)
        return -errno;
    if (!S_ISREG(info.st_mode) || info.st_size <= 0 || info.st_size > IMAGE_BYTES_MAX)
        return -ENOEXEC;
    cay_autoclose int memory = open_memory();
    if (memory < 0)
        return memory;
    off_t left = info.st_size;
    while (left > 0) {
        ssize_t moved = sendfile(memory, file, NULL, (size_t)left);
        if (moved <= 0)
            return moved < 0 ? -errno : -EIO;
        left -= moved;
    }
    if (fchmod(memory, 0500) < 0 ||
        fcntl(memory, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return -errno;
    return cay_take_fd(memory);
}

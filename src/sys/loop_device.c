/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/loop_device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEVICES_MAX = 4096, ATTEMPTS = 64 };

static int open_device(int number, char path[CAY_LOOP_DEVICE_PATH_BYTES])
{
    snprintf(path, CAY_LOOP_DEVICE_PATH_BYTES, "/dev/loop%d", number);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* A living sandbox keeps the device of a daemon that is gone. */
static int find_device(const struct stat *file, char path[CAY_LOOP_DEVICE_PATH_BYTES])
{
    for (int number = 0; number < DEVICES_MAX; number++) {
        cay_autoclose int fd = open_device(number, path);
        if (fd == -ENOENT)
            break;
        struct loop_info64 info;
        if (fd >= 0 && ioctl(fd, LOOP_GET_STATUS64, &info) == 0 && info.lo_inode == file->st_ino &&
            info.lo_device == file->st_dev)
            return cay_take_fd(fd);
    }
    return -ENOENT;
}

int cay_loop_device_open(int file_fd, char out_path[CAY_LOOP_DEVICE_PATH_BYTES])
{
    struct stat file;
    if (fstat(file_fd, &file) < 0)
        return -errno;
    int found = find_device(&file, out_path);
    if (found != -ENOENT)
        return found;
    cay_autoclose int control_fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control_fd < 0)
        return -errno;
    const struct loop_config config = {
        .fd = (uint32_t)file_fd,
        .info.lo_flags = LO_FLAGS_AUTOCLEAR,
    };
    for (int i = 0; i < ATTEMPTS; i++) {
        int number = ioctl(control_fd, LOOP_CTL_GET_FREE);
        if (number < 0)
            return -errno;
        cay_autoclose int fd = open_device(number, out_path);
        if (fd < 0)
            return fd;
        if (ioctl(fd, LOOP_CONFIGURE, &config) == 0)
            return cay_take_fd(fd);
        if (errno != EBUSY) /* somebody else was quicker */
            return -errno;
    }
    return -EBUSY;
}

int cay_loop_device_grow(int device_fd)
{
    return ioctl(device_fd, LOOP_SET_CAPACITY) < 0 ? -errno : 0;
}

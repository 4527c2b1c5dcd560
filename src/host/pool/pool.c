/* SPDX-License-Identifier: Apache-2.0 */
#include "host/pool/pool.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/crash.h"
#include "host/pool/pool_internal.h"
#include "sys/loop_device.h"
#include "sys/mount.h"

#define MEMORY_BYTES ((uint64_t)4 << 30) /* more is hardly ever on its way to the disk */

enum { RECORD_BYTES_MAX = 8192 };

static void set_up(struct cay_pool *pool, const char *data_dir)
{
    *pool = (struct cay_pool){
        .data_dir = cay_strdup(data_dir),
        .kind = CAY_POOL_DIRECTORY,
        .mount_fd = -1,
        .device_fd = -1,
    };
}

void cay_pool_close(struct cay_pool *pool)
{
    cay_cleanup_close(&pool->mount_fd);
    cay_cleanup_close(&pool->device_fd);
    free(cay_take_ptr(pool->store_dir));
    free(cay_take_ptr(pool->path));
    free(cay_take_ptr(pool->data_dir));
}

static uint64_t unreserved(const struct stat *image)
{
    uint64_t size = (uint64_t)image->st_size;
    uint64_t taken = (uint64_t)image->st_blocks * 512;
    return size > taken ? size - taken : 0;
}

static bool open_loop(struct cay_pool *pool, struct cay_error *err)
{
    char device[CAY_LOOP_DEVICE_PATH_BYTES];
    cay_autoclose int file_fd = open(pool->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file_fd < 0)
        return cay_fail_errno(err, CAY_R_STORE_FAILED, -errno, "open the pool's file '%s'",
                              pool->path);
    pool->device_fd = cay_loop_device_open(file_fd, device);
    if (pool->device_fd < 0)
        return cay_fail_errno(err, CAY_R_STORE_FAILED, pool->device_fd,
                              "make a loop device of '%s'", pool->path);
    /* A file system that tells the device what it has freed makes holes in the file: what was
     * reserved would be anybody's. */
    struct stat image;
    bool is_reserved = fstat(file_fd, &image) == 0 && !unreserved(&image);
    const struct cay_mount_option options[] = {{"source", device}, {"nodiscard", NULL}};
    pool->mount_fd = cay_mount_new(pool->filesystem, options, is_reserved ? 2 : 1,
                                   MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME);
    if (pool->mount_fd < 0)
        return cay_fail_errno(err, CAY_R_STORE_FAILED, pool->mount_fd, "mount the pool '%s'",
                              pool->path);
    /* No path leads to it but ours. */
    pool->store_dir = cay_asprintf("/proc/self/fd/%d/store", pool->mount_fd);
    return true;
}

bool cay_pool_open_at(const char *data_dir, enum cay_pool_kind kind, const char *filesystem,
                      const char *path, struct cay_pool *out_pool, struct cay_error *err)
{
    set_up(out_pool, data_dir);
    out_pool->kind = kind;
    out_pool->path = cay_strdup(path);
    snprintf(out_pool->filesystem, sizeof(out_pool->filesystem), "%s", filesystem);
    if (kind == CAY_POOL_DIRECTORY) {
        out_pool->store_dir = cay_asprintf("%s/store", path);
        return true;
    }
    if (open_loop(out_pool, err))
        return true;
    cay_pool_close(out_pool);
    return false;
}

/* A daemon died between the record of its pool and the name of the file. */
static void finish_keep(const char *data_dir, const char *path)
{
    cay_autofree char *own = cay_asprintf("%s/" CAY_POOL_FILE, data_dir);
    cay_autofree char *unnamed = cay_asprintf("%s/" CAY_POOL_FILE_NEW, data_dir);
    if (strcmp(path, own) == 0 && access(own, F_OK) < 0 && errno == ENOENT)
        (void)rename(unnamed, own);
}

/* What the data directory says its pool is. */
struct record {
    enum cay_pool_kind kind; /* 0: nothing */
    char filesystem[16];
    char *path;
};

static void record_finish(struct record *record)
{
    free(record->path);
}

/* "loop ext4 /var/lib/cay/pool.img" or "directory - /srv/cay". */
static bool read_record(const char *data_dir, struct record *out, struct cay_error *err)
{
    cay_autofree char *record_path = cay_asprintf("%s/" CAY_POOL_RECORD, data_dir);
    char text[RECORD_BYTES_MAX];
    cay_autoclose int fd = open(record_path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT)
        return true;
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (len < 0)
        return cay_fail_errno(err, CAY_R_STORE_FAILED, -errno, "read '%s'", record_path);
    struct cay_str rest = {text, (size_t)len};
    struct cay_str kind;
    struct cay_str filesystem;
    struct cay_str path;
    if (!cay_str_split(&rest, ' ', &kind) || !cay_str_split(&rest, ' ', &filesystem) ||
        !cay_str_split(&rest, '\n', &path) || !path.len ||
        (!cay_str_is(kind, "loop") && !cay_str_is(kind, "directory")))
        return cay_fail(err, CAY_R_DATA_LOSS, "'%s' does not say what the pool is", record_path);
    snprintf(out->filesystem, sizeof(out->filesystem), "%.*s", (int)filesystem.len, filesystem.ptr);
    /* Only the data directory itself was ever given by a relative path, and that is here. */
    out->path = path.ptr[0] == '/' ? cay_strndup(path.ptr, path.len)
                                   : cay_asprintf("%s/" CAY_POOL_FILE, data_dir);
    out->kind = cay_str_is(kind, "loop") ? CAY_POOL_LOOP : CAY_POOL_DIRECTORY;
    return true;
}

char *cay_pool_file(const char *data_dir)
{
    cay_auto(record_finish) struct record record = {};
    struct cay_error ignored = {};
    bool is_loop = read_record(data_dir, &record, &ignored) && record.kind == CAY_POOL_LOOP;
    return is_loop ? cay_take_ptr(record.path) : NULL;
}

bool cay_pool_open(const char *data_dir, struct cay_pool *out_pool, struct cay_error *err)
{
    cay_autofree char *unfinished = cay_asprintf("%s/" CAY_POOL_FILE_NEW, data_dir);
    cay_auto(record_finish) struct record record = {};
    if (!read_record(data_dir, &record, err))
        return false;
    if (record.kind)
        finish_keep(data_dir, record.path);
    if (record.kind &&
        !cay_pool_open_at(data_dir, record.kind, record.filesystem, record.path, out_pool, err))
        return false;
    /* Of a daemon that died over it. */
    (void)unlink(unfinished);
    return record.kind ||
           cay_pool_open_at(data_dir, CAY_POOL_DIRECTORY, "", data_dir, out_pool, err);
}

void cay_pool_look_behind(const char *path, struct cay_pool_space *out_space)
{
    struct statfs fs;
    struct stat image;
    if (statfs(path, &fs) < 0 || stat(path, &image) < 0)
        return;
    out_space->unreserved_bytes = unreserved(&image);
    out_space->behind_bytes = fs.f_bavail * (uint64_t)fs.f_frsize;
}

/* What the disk behind a loop pool can still take; false when there is none, or all is reserved. */
static bool look_behind(const struct cay_pool *pool, uint64_t used_bytes, uint64_t *out_available)
{
    struct statfs fs;
    struct stat image;
    if (pool->kind != CAY_POOL_LOOP || statfs(pool->path, &fs) < 0 ||
        stat(pool->path, &image) < 0 || !unreserved(&image))
        return false;
    uint64_t taken = (uint64_t)image.st_blocks * 512;
    uint64_t spare = taken > used_bytes ? taken - used_bytes : 0;
    *out_available = fs.f_bavail * (uint64_t)fs.f_frsize + spare;
    return true;
}

bool cay_pool_may_lose(const struct cay_pool *pool)
{
    uint64_t behind = 0;
    return look_behind(pool, UINT64_MAX, &behind) && behind < MEMORY_BYTES;
}

bool cay_pool_look(const struct cay_pool *pool, struct cay_pool_space *out_space,
                   struct cay_error *err)
{
    static const struct {
        long magic;
        const char *name;
    } known[] = {
        {EXT4_SUPER_MAGIC, "ext4"},
        {BTRFS_SUPER_MAGIC, "btrfs"},
        {XFS_SUPER_MAGIC, "xfs"},
        {TMPFS_MAGIC, "tmpfs"},
        {0x2FC12FC1, "zfs"},
        {FUSE_SUPER_MAGIC, "fuse"},
        {OVERLAYFS_SUPER_MAGIC, "overlay"},
    };
    struct statfs fs;
    if ((pool->mount_fd >= 0 ? fstatfs(pool->mount_fd, &fs) : statfs(pool->path, &fs)) < 0)
        return cay_fail_errno(err, CAY_R_STORE_FAILED, -errno, "look at the pool");
    uint64_t unit = (uint64_t)fs.f_frsize;
    *out_space = (struct cay_pool_space){
        .size_bytes = fs.f_blocks * unit,
        .used_bytes = (fs.f_blocks - fs.f_bfree) * unit,
        .available_bytes = fs.f_bavail * unit,
        .inodes = fs.f_files,
        .free_inodes = fs.f_ffree,
        .is_read_only = fs.f_flags & MS_RDONLY,
    };
    uint64_t behind = 0;
    if (pool->kind == CAY_POOL_LOOP)
        cay_pool_look_behind(pool->path, out_space);
    if (look_behind(pool, out_space->used_bytes, &behind))
        out_space->available_bytes = CAY_MIN(out_space->available_bytes, behind);
    for (size_t i = 0; i < CAY_COUNT(known); i++) {
        if (fs.f_type == known[i].magic)
            snprintf(out_space->filesystem, sizeof(out_space->filesystem), "%s", known[i].name);
    }
    return true;
}

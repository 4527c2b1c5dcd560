/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/tree/write.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/id.h"
#include "sys/pin.h"
#include "tool/tree/tree_internal.h"
#include "tool/tree/write_internal.h"

enum {
    ATTEMPTS_MAX = 16,
    ALLOCATE_BYTES_MIN = 1024 * 1024, /* smaller files are not worth a call */
    COPY_BYTES = 1024 * 1024,
};

#define TEMPORARY_PREFIX ".cay-"

static enum cay_v1_write_mode mode_of(const struct cay_write_options *options)
{
    return options->mode ? options->mode : CAY_V1_WRITE_MODE_REPLACE;
}

static bool works_in_place(enum cay_v1_write_mode mode)
{
    return mode == CAY_V1_WRITE_MODE_TRUNCATE || mode == CAY_V1_WRITE_MODE_APPEND ||
           mode == CAY_V1_WRITE_MODE_AT_OFFSET;
}

/* A file in the parent that has no name yet; with one where the file system cannot do that. */
static int open_nameless(struct cay_write *write)
{
    int fd = openat(write->parent_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
        return fd >= 0 ? fd : -errno;
    for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
        if (!cay_id_try(write->temporary, sizeof(write->temporary), TEMPORARY_PREFIX))
            break;
        fd = openat(write->parent_fd, write->temporary,
                    O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0)
            return fd;
        if (errno != EEXIST)
            break;
    }
    write->temporary[0] = '\0';
    return -errno;
}

/* The file that was there when the target was looked up, for writing in place. */
static int open_existing(const struct cay_write *write)
{
    int append = mode_of(&write->options) == CAY_V1_WRITE_MODE_APPEND ? O_APPEND : 0;
    cay_autoclose int fd = cay_tree_below(write->parent_fd, write->name, O_WRONLY | append);
    struct stat now;
    if (fd < 0)
        return fd == -ELOOP ? -EAGAIN : cay_take_fd(fd);
    if (fstat(fd, &now) < 0)
        return -errno;
    if (!S_ISREG(now.st_mode))
        return S_ISDIR(now.st_mode) ? -EISDIR : -ENXIO;
    return cay_take_fd(fd);
}

static int open_direct(struct cay_write *write)
{
    write->direct = true;
    return open_existing(write);
}

/* Under its own name at once: who watches the directory sees it made, and then written. */
static int create_named(struct cay_write *write)
{
    int fd = openat(write->parent_fd, write->name,
                    O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return errno == EEXIST ? -EAGAIN : -errno;
    write->direct = true;
    return fd;
}

static int open_target(struct cay_write *write)
{
    enum cay_v1_write_mode mode = mode_of(&write->options);
    if (mode == CAY_V1_WRITE_MODE_AT_OFFSET)
        write->at = write->options.offset;
    if (write->is_new)
        return mode == CAY_V1_WRITE_MODE_TRUNCATE ? create_named(write) : open_nameless(write);
    if (S_ISDIR(write->old.st_mode))
        return -EISDIR;
    if (mode == CAY_V1_WRITE_MODE_CREATE)
        return -EEXIST;
    if (!S_ISREG(write->old.st_mode))
        return -ENXIO;
    if (works_in_place(mode))
        return open_direct(write);
    /* Renaming over a file needs no right to write to it; a user expects that it does. Asked and
     * not opened for writing, since that would make an overlay copy the old file up. */
    if (faccessat(write->parent_fd, write->name, W_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    int fd = open_nameless(write);
    return fd == -EACCES || fd == -EPERM ? open_direct(write) : fd;
}

/* A disk that is too small is told before the bytes have travelled. */
static int allocate(const struct cay_write *write)
{
    int64_t size = write->options.size;
    if (size < ALLOCATE_BYTES_MIN || write->direct)
        return 0;
    /* A file system that is asked for too much may first give all it has. */
    struct statvfs fs;
    if (fstatvfs(write->fd, &fs) == 0 && (uint64_t)size / fs.f_frsize >= fs.f_bavail)
        return -ENOSPC;
    if (fallocate(write->fd, FALLOC_FL_KEEP_SIZE, write->at, size) == 0)
        return 0;
    return errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? -errno : 0;
}

static bool metadata_valid(const struct cay_write_options *options, struct cay_error *err)
{
    size_t bytes = 0;
    for (size_t i = 0; i < options->metadata.count; i++) {
        struct cay_str texts[] = {options->metadata.items[i].key, options->metadata.items[i].value};
        if (!texts[0].len)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "a key of the metadata is empty");
        for (size_t t = 0; t < CAY_COUNT(texts); t++) {
            bytes += texts[t].len;
            for (size_t at = 0; at < texts[t].len; at++)
                if (texts[t].ptr[at] < 0x20 || texts[t].ptr[at] > 0x7E)
                    return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                                    "keys and values of metadata are printable ASCII");
        }
    }
    if (bytes > CAY_WRITE_METADATA_BYTES_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "metadata has at most %d bytes in all",
                        CAY_WRITE_METADATA_BYTES_MAX);
    return true;
}

bool cay_write_open(const struct cay_tool_tree *tree, const struct cay_path *path,
                    const struct cay_write_options *options, struct cay_write *out_write,
                    struct cay_error *err)
{
    struct cay_str shown = {path->bytes, path->len};
    if (options->offset < 0 || (options->has_permissions && options->permissions > 07777))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "offset is 0 or more, and mode is between 0 and 07777");
    if (!metadata_valid(options, err))
        return false;
    struct cay_write write = {
        .options = *options, .fd = -1, .parent_fd = -1, .by_root = tree->uid == 0};
    write.parent_fd =
        cay_tree_target(tree, path->bytes, options->create_parents, write.name, &write.old);
    if (write.parent_fd < 0)
        return cay_tree_fail(err, write.parent_fd, shown);
    write.is_new = write.old.st_nlink == 0;
    write.fd = open_target(&write);
    int failed = write.fd < 0 ? write.fd : allocate(&write);
    if (failed == 0 && tree->is_as_root && !write.is_new &&
        fchown(write.fd, tree->id_base + tree->uid, tree->id_base + tree->gid) < 0)
        failed = -errno;
    if (failed < 0) {
        cay_write_abort(&write);
        return cay_tree_fail(err, failed, shown);
    }
    *out_write = write;
    return true;
}

bool cay_write_data(struct cay_write *write, struct cay_str data, struct cay_error *err)
{
    while (data.len > 0) {
        ssize_t put = pwrite(write->fd, data.ptr, data.len, write->at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return cay_tree_fail(err, -errno, cay_str(write->name));
        write->at += put;
        write->received_bytes += put;
        data.ptr += put;
        data.len -= (size_t)put;
    }
    return true;
}

/* Copies what was received over the existing file; its length is changed last. */
static int copy_in_place(struct cay_write *write)
{
    cay_autoclose int to_fd = open_existing(write);
    if (to_fd < 0)
        return to_fd;
    cay_autofree char *block = NULL;
    loff_t from = 0;
    loff_t to = 0;
    while (from < write->at) {
        size_t want = (size_t)CAY_MIN(write->at - from, (int64_t)COPY_BYTES);
        ssize_t done = copy_file_range(write->fd, &from, to_fd, &to, want, 0);
        if (done > 0)
            continue;
        if (!block)
            block = malloc(COPY_BYTES);
        if (!block)
            return -ENOMEM;
        done = pread(write->fd, block, want, from);
        if (done > 0)
            done = pwrite(to_fd, block, (size_t)done, to);
        if (done <= 0)
            return done < 0 ? -errno : -EIO;
        from += done;
        to += done;
    }
    if (ftruncate(to_fd, write->at) < 0)
        return -errno;
    int old_fd = write->fd;
    write->fd = cay_take_fd(to_fd);
    close(old_fd);
    write->direct = true;
    return 0;
}

/* Nothing had the name when it was looked up. */
static int place_new(struct cay_write *write)
{
    if (!write->temporary[0])
        return cay_pin_link(write->fd, write->parent_fd, write->name);
    int placed =
        cay_tree_rename_new(write->parent_fd, write->temporary, write->parent_fd, write->name);
    if (placed == 0)
        write->temporary[0] = '\0';
    return placed;
}

static int place_over(struct cay_write *write)
{
    for (int attempt = 0; !write->temporary[0] && attempt < ATTEMPTS_MAX; attempt++) {
        char name[CAY_TREE_NAME_BYTES];
        if (!cay_id_try(name, sizeof(name), TEMPORARY_PREFIX))
            return -errno;
        int linked = cay_pin_link(write->fd, write->parent_fd, name);
        if (linked == 0)
            memcpy(write->temporary, name, sizeof(name));
        else if (linked != -EEXIST)
            return linked;
    }
    if (renameat(write->parent_fd, write->temporary, write->parent_fd, write->name) < 0)
        return -errno;
    write->temporary[0] = '\0';
    return 0;
}

static int set_attributes(const struct cay_write *write, uint32_t permissions, bool change)
{
    const struct cay_write_options *options = &write->options;
    if (change && fchmod(write->fd, permissions) < 0)
        return -errno;
    if (options->set_metadata) {
        int set = cay_write_set_metadata(write, write->fd);
        if (set < 0)
            return set;
    }
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, options->modified_at};
    if (options->has_modified_at && futimens(write->fd, times) < 0)
        return -errno;
    if (options->durable && fsync(write->fd) < 0)
        return -errno;
    return 0;
}

/* Who is not root loses the set-uid and set-gid bits by writing, as with a write of its own. */
static uint32_t kept_permissions(const struct cay_write *write)
{
    if (write->options.has_permissions)
        return write->options.permissions;
    if (write->is_new)
        return 0644;
    return write->old.st_mode & (write->by_root ? 07777 : 01777);
}

static int place(struct cay_write *write)
{
    const struct cay_write_options *options = &write->options;
    bool over = !write->is_new;
    if (write->direct) {
        bool shorten = mode_of(options) != CAY_V1_WRITE_MODE_APPEND &&
                       mode_of(options) != CAY_V1_WRITE_MODE_AT_OFFSET;
        if (shorten && ftruncate(write->fd, write->at) < 0)
            return -errno;
        return set_attributes(write, kept_permissions(write),
                              write->is_new || options->has_permissions);
    }
    uint32_t permissions = kept_permissions(write);
    if (over && (write->old.st_nlink > 1 || cay_write_keep_attributes(write) < 0)) {
        int copied = copy_in_place(write);
        return copied < 0 ? copied
                          : set_attributes(write, options->permissions, options->has_permissions);
    }
    int set = set_attributes(write, permissions, true);
    if (set < 0)
        return set;
    int placed = over ? place_over(write) : place_new(write);
    if (placed == -EEXIST && mode_of(options) != CAY_V1_WRITE_MODE_CREATE)
        placed = place_over(write);
    return placed;
}

static int sync_parent(const struct cay_write *write)
{
    cay_autoclose int fd =
        openat(write->parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == EACCES ? 0 : -errno;
    return fsync(fd) < 0 ? -errno : 0;
}

bool cay_write_commit(struct cay_write *write, struct cay_error *err)
{
    assert(write->fd >= 0 && write->parent_fd >= 0);
    int64_t size = write->options.size;
    bool complete = size < 0 || size == write->received_bytes;
    int64_t received = write->received_bytes;
    int placed = complete ? place(write) : 0;
    if (complete && placed == 0 && write->options.durable)
        placed = sync_parent(write);
    write->created = write->is_new;
    struct cay_write done = *write;
    cay_write_abort(write);
    if (!complete)
        return cay_fail(err, CAY_R_DATA_LOSS, "%lld bytes were announced and %lld came",
                        (long long)size, (long long)received);
    if (placed < 0)
        return cay_tree_fail(err, placed, cay_str(done.name));
    return true;
}

void cay_write_abort(struct cay_write *write)
{
    if (write->temporary[0])
        (void)unlinkat(write->parent_fd, write->temporary, 0);
    write->temporary[0] = '\0';
    /* Descriptor 0 never belongs to a write: a zeroed struct holds nothing. */
    if (write->fd > 0)
        close(write->fd);
    if (write->parent_fd > 0)
        close(write->parent_fd);
    write->fd = write->parent_fd = -1;
}

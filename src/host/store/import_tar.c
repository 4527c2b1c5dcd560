/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Unpacks a tar with libarchive's reader and our own writer: every name is taken apart, its parent
 * opened inside the root (RESOLVE_IN_ROOT: a link in the archive leads nowhere else), and the last
 * part made there without following anything.
 */

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "host/store/base.h"
#include "host/store/store_ops.h"
#include "sys/resolve.h"

enum {
    READ_BYTES = 128 * 1024,
    PARTS_MAX = 256, /* names in one path */
    PROGRESS_EVERY = 64,
};

/* Times of directories are set last: filling them changes them. */
struct dir_time {
    char *path;
    struct timespec mtime;
};

struct unpack {
    int root_fd;
    const struct cay_base_options *options;
    struct cay_copy_stats *stats;
    struct cay_error *err;
    struct archive *archive;
    struct dir_time *dirs;
    size_t dirs_count, dirs_cap;
    char name[NAME_MAX + 1]; /* the last part of the entry at hand */
};

static bool refuse(struct unpack *unpack, const char *path, const char *why)
{
    return cay_fail(unpack->err, CAY_R_INVALID_ARGUMENT, "'%.80s' in the archive %s", path, why);
}

/* Cleans a path: no leading slashes, no "." and no empty parts. False for ".." and for what is too
 * long. The result is empty for the root itself. */
static bool clean_path(const char *path, char out[static PATH_MAX])
{
    size_t len = 0;
    size_t parts = 0;
    struct cay_str rest = cay_str(path);
    struct cay_str part;
    out[0] = '\0';
    while (cay_str_split(&rest, '/', &part)) {
        if (part.len == 0 || cay_str_is(part, "."))
            continue;
        if (cay_str_is(part, "..") || part.len > NAME_MAX || ++parts > PARTS_MAX ||
            len + part.len + 2 > PATH_MAX)
            return false;
        if (len)
            out[len++] = '/';
        memcpy(out + len, part.ptr, part.len);
        len += part.len;
        out[len] = '\0';
    }
    return true;
}

/* Opens a directory of the new tree, making what is missing. */
static int open_dir(struct unpack *unpack, const char *path)
{
    if (!*path)
        return fcntl(unpack->root_fd, F_DUPFD_CLOEXEC, 0);
    int fd = cay_resolve_open(unpack->root_fd, path, O_RDONLY | O_DIRECTORY, 0);
    if (fd != -ENOENT)
        return fd;
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - path) : 0, path);
    cay_autoclose int parent_fd = open_dir(unpack, parent);
    if (parent_fd < 0)
        return parent_fd;
    if (mkdirat(parent_fd, slash ? slash + 1 : path, 0755) < 0)
        return -errno; /* EEXIST: a link to nowhere stands there */
    return cay_resolve_open(unpack->root_fd, path, O_RDONLY | O_DIRECTORY, 0);
}

/* Opens the directory an entry is in and leaves its own name in unpack->name. */
static int open_parent(struct unpack *unpack, const char *path)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - path) : 0, path);
    snprintf(unpack->name, sizeof(unpack->name), "%s", slash ? slash + 1 : path);
    return open_dir(unpack, parent);
}

static uint32_t known_id(int64_t id)
{
    return id >= 0 && id < CAY_BASE_IDS ? (uint32_t)id : CAY_BASE_NOBODY;
}

static bool over_limit(struct unpack *unpack, uint64_t more_bytes)
{
    const struct cay_base_options *options = unpack->options;
    if (unpack->stats->entries > options->entries_max)
        cay_fail(unpack->err, CAY_R_RESOURCE_EXHAUSTED, "the archive has more than %llu entries",
                 (unsigned long long)options->entries_max);
    else if (more_bytes > options->bytes_max ||
             unpack->stats->bytes > options->bytes_max - more_bytes)
        cay_fail(unpack->err, CAY_R_RESOURCE_EXHAUSTED, "the archive holds more than %llu bytes",
                 (unsigned long long)options->bytes_max);
    else
        return false;
    return true;
}

static bool is_zero(const char *data, size_t len)
{
    return len == 0 || (data[0] == 0 && memcmp(data, data + 1, len - 1) == 0);
}

static bool write_content(struct unpack *unpack, int fd, const char *path)
{
    for (;;) {
        const void *block = NULL;
        size_t len = 0;
        la_int64_t offset = 0;
        int rc = archive_read_data_block(unpack->archive, &block, &len, &offset);
        if (rc == ARCHIVE_EOF)
            return true;
        if (rc < ARCHIVE_WARN)
            return refuse(unpack, path, "is damaged");
        if (over_limit(unpack, len))
            return false;
        unpack->stats->bytes += len;
        if (len == 0 || is_zero(block, len))
            continue; /* a hole */
        for (size_t done = 0; done < len;) {
            ssize_t count =
                pwrite(fd, (const char *)block + done, len - done, offset + (la_int64_t)done);
            if (count < 0)
                return cay_store_fail(unpack->err, -errno, "write '%.80s'", path);
            done += (size_t)count;
        }
        if (unpack->options->progress &&
            !unpack->options->progress(unpack->options->progress_ctx, unpack->stats->entries,
                                       unpack->stats->bytes))
            return cay_fail(unpack->err, CAY_R_CANCELED, NULL);
    }
}

/* In the order in which one does not undo the other. `fd` may be -1: a link or a fifo. */
static int set_metadata(struct unpack *unpack, struct archive_entry *entry, int fd, int parent_fd)
{
    const char *name = unpack->name;
    uint32_t uid = known_id(archive_entry_uid(entry));
    uint32_t gid = known_id(archive_entry_gid(entry));
    bool link = archive_entry_filetype(entry) == AE_IFLNK;
    if (fchownat(parent_fd, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    mode_t mode = archive_entry_perm(entry) & 07777;
    if (!link && (fd >= 0 ? fchmod(fd, mode) : fchmodat(parent_fd, name, mode, 0)) < 0)
        return -errno;
    const char *key = NULL;
    const void *value = NULL;
    size_t size = 0;
    archive_entry_xattr_reset(entry);
    while (fd >= 0 && archive_entry_xattr_next(entry, &key, &value, &size) == ARCHIVE_OK) {
        /* What the file system does not take is left out: an import is not a backup. */
        if (cay_copy_keeps_xattr(CAY_COPY_IMPORT, key))
            (void)fsetxattr(fd, key, value, size, 0);
    }
    if (!archive_entry_mtime_is_set(entry))
        return 0;
    struct timespec mtime = {archive_entry_mtime(entry), archive_entry_mtime_nsec(entry)};
    struct timespec times[2] = {mtime, mtime};
    return utimensat(parent_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static bool unpack_file(struct unpack *unpack, struct archive_entry *entry, int parent_fd,
                        const char *path)
{
    la_int64_t size = archive_entry_size_is_set(entry) ? archive_entry_size(entry) : 0;
    if (size < 0 || over_limit(unpack, 0))
        return size < 0 ? refuse(unpack, path, "has no size") : false;
    cay_autoclose int fd =
        openat(parent_fd, unpack->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return cay_store_fail(unpack->err, -errno, "make '%.80s'", path);
    if (!write_content(unpack, fd, path))
        return false;
    int rc = ftruncate(fd, size) < 0 ? -errno : set_metadata(unpack, entry, fd, parent_fd);
    return rc == 0 || cay_store_fail(unpack->err, rc, "finish '%.80s'", path);
}

static bool unpack_hard_link(struct unpack *unpack, const char *target, int parent_fd,
                             const char *path)
{
    char name[NAME_MAX + 1];
    char clean[PATH_MAX];
    memcpy(name, unpack->name, sizeof(name));
    if (!clean_path(target, clean) || !*clean)
        return refuse(unpack, path, "is a hard link that points outside");
    cay_autoclose int target_fd = open_parent(unpack, clean);
    struct stat st;
    if (target_fd < 0 || fstatat(target_fd, unpack->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        S_ISDIR(st.st_mode))
        return refuse(unpack, path, "is a hard link to what is not there");
    if (linkat(target_fd, unpack->name, parent_fd, name, 0) < 0)
        return cay_store_fail(unpack->err, -errno, "link '%.80s'", path);
    return true;
}

static bool unpack_dir(struct unpack *unpack, struct archive_entry *entry, int parent_fd,
                       const char *path)
{
    if (mkdirat(parent_fd, unpack->name, 0755) < 0 && errno != EEXIST)
        return cay_store_fail(unpack->err, -errno, "make '%.80s'", path);
    cay_autoclose int fd =
        openat(parent_fd, unpack->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return refuse(unpack, path, "is a directory where something else is");
    int rc = set_metadata(unpack, entry, fd, parent_fd);
    if (rc < 0)
        return cay_store_fail(unpack->err, rc, "finish '%.80s'", path);
    if (unpack->dirs_count == unpack->dirs_cap) {
        unpack->dirs_cap = CAY_MAX(unpack->dirs_cap * 2, (size_t)64);
        unpack->dirs = cay_realloc_array(unpack->dirs, unpack->dirs_cap, sizeof(*unpack->dirs));
    }
    unpack->dirs[unpack->dirs_count++] = (struct dir_time){
        cay_strdup(path), {archive_entry_mtime(entry), archive_entry_mtime_nsec(entry)}};
    return true;
}

static bool unpack_special(struct unpack *unpack, struct archive_entry *entry, int parent_fd,
                           const char *path)
{
    int rc = 0;
    if (archive_entry_filetype(entry) == AE_IFLNK) {
        const char *target = archive_entry_symlink(entry);
        if (!target || !*target)
            return refuse(unpack, path, "is a link without a target");
        rc = symlinkat(target, parent_fd, unpack->name) < 0 ? -errno : 0;
    } else if (archive_entry_filetype(entry) == AE_IFIFO) {
        rc = mknodat(parent_fd, unpack->name, S_IFIFO | 0600, 0) < 0 ? -errno : 0;
    } else {
        unpack->stats->skipped++; /* a device, or something tar knows and we do not */
        return true;
    }
    if (!rc)
        rc = set_metadata(unpack, entry, -1, parent_fd);
    return rc == 0 || cay_store_fail(unpack->err, rc, "make '%.80s'", path);
}

static bool unpack_root(struct unpack *unpack, struct archive_entry *entry)
{
    if (archive_entry_filetype(entry) != AE_IFDIR)
        return refuse(unpack, "/", "is not a directory");
    snprintf(unpack->name, sizeof(unpack->name), ".");
    int rc = set_metadata(unpack, entry, unpack->root_fd, unpack->root_fd);
    return rc == 0 || cay_store_fail(unpack->err, rc, "finish the root");
}

static bool unpack_entry(struct unpack *unpack, struct archive_entry *entry)
{
    /* The first is NULL for names the locale cannot spell. */
    const char *raw = archive_entry_pathname(entry);
    if (!raw)
        raw = archive_entry_pathname_utf8(entry);
    char path[PATH_MAX];
    if (!raw || !*raw || !clean_path(raw, path))
        return refuse(unpack, raw ? raw : "", "is no name inside it");
    if (!*path)
        return unpack_root(unpack, entry);
    cay_autoclose int parent_fd = open_parent(unpack, path);
    if (parent_fd < 0)
        return refuse(unpack, path, "is in what is not a directory");
    bool dir = archive_entry_filetype(entry) == AE_IFDIR && !archive_entry_hardlink(entry);
    /* A later entry replaces an earlier one, never what that one points to. */
    if (!dir && unlinkat(parent_fd, unpack->name, 0) < 0 && errno != ENOENT) {
        if (errno != EISDIR || unlinkat(parent_fd, unpack->name, AT_REMOVEDIR) < 0)
            return refuse(unpack, path, "takes the place of a directory");
    }
    if (archive_entry_hardlink(entry))
        return unpack_hard_link(unpack, archive_entry_hardlink(entry), parent_fd, path);
    if (dir)
        return unpack_dir(unpack, entry, parent_fd, path);
    if (archive_entry_filetype(entry) == AE_IFREG)
        return unpack_file(unpack, entry, parent_fd, path);
    return unpack_special(unpack, entry, parent_fd, path);
}

static bool unpack_all(struct unpack *unpack)
{
    for (;;) {
        struct archive_entry *entry = NULL;
        int rc = archive_read_next_header(unpack->archive, &entry);
        if (rc == ARCHIVE_EOF)
            break;
        if (rc < ARCHIVE_WARN)
            return cay_fail(unpack->err, CAY_R_INVALID_ARGUMENT,
                            "not a tar archive (plain, gzip, zstd, xz), or a damaged one: %.100s",
                            archive_error_string(unpack->archive));
        unpack->stats->entries++;
        if (over_limit(unpack, 0) || !unpack_entry(unpack, entry))
            return false;
        if (unpack->options->progress && unpack->stats->entries % PROGRESS_EVERY == 0 &&
            !unpack->options->progress(unpack->options->progress_ctx, unpack->stats->entries,
                                       unpack->stats->bytes))
            return cay_fail(unpack->err, CAY_R_CANCELED, NULL);
    }
    if (unpack->stats->entries == 0)
        return cay_fail(unpack->err, CAY_R_INVALID_ARGUMENT, "the archive is empty");
    for (size_t i = unpack->dirs_count; i-- > 0;) {
        struct timespec times[2] = {unpack->dirs[i].mtime, unpack->dirs[i].mtime};
        cay_autoclose int fd =
            cay_resolve_open(unpack->root_fd, unpack->dirs[i].path, O_RDONLY | O_DIRECTORY, 0);
        if (fd >= 0)
            (void)futimens(fd, times);
    }
    return true;
}

bool cay_base_unpack(int fd, int root_fd, const struct cay_base_options *options,
                     struct cay_copy_stats *out_stats, struct cay_error *err)
{
    *out_stats = (struct cay_copy_stats){};
    struct unpack unpack = {.root_fd = root_fd, .options = options, .stats = out_stats, .err = err};
    unpack.archive = archive_read_new();
    if (!unpack.archive)
        return cay_fail(err, CAY_R_INTERNAL, "no memory to read an archive");
    archive_read_support_format_tar(unpack.archive);
    archive_read_support_filter_gzip(unpack.archive);
    archive_read_support_filter_zstd(unpack.archive);
    archive_read_support_filter_xz(unpack.archive);
    bool ok = archive_read_open_fd(unpack.archive, fd, READ_BYTES) == ARCHIVE_OK
                  ? unpack_all(&unpack)
                  : cay_fail(err, CAY_R_INVALID_ARGUMENT, "not a tar archive: %.100s",
                             archive_error_string(unpack.archive));
    archive_read_free(unpack.archive);
    for (size_t i = 0; i < unpack.dirs_count; i++)
        free(unpack.dirs[i].path);
    free(unpack.dirs);
    return ok;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/pack.h"

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
#include <zstd.h>

#include "base/stop.h"
#include "host/store/copy.h"
#include "host/store/spool.h"
#include "host/store/store_ops.h"
#include "host/store/unpack.h"
#include "sys/resolve.h"

enum {
    BUF_BYTES = 256 * 1024,
    ATTRIBUTES_BYTES_MAX = 64 * 1024,
    EXTENTS_MAX = 100'000, /* of one file; the rest of it is written as data */
};

static int write_out(struct cay_pack *pack, const char *data, size_t len)
{
    int rc = cay_spool_write(pack->fd, data, len);
    if (rc < 0)
        return rc;
    cay_sha256_add(&pack->sha, data, len);
    atomic_fetch_add(&pack->bytes, len);
    return 0;
}

/* libarchive's own filter writes no checksum, and a turned bit would go unnoticed. */
static int compress(struct cay_pack *pack, const void *data, size_t len, ZSTD_EndDirective end)
{
    ZSTD_inBuffer in = {.src = data, .size = len};
    bool is_done = false;
    while (!is_done) {
        ZSTD_outBuffer out = {.dst = pack->out, .size = BUF_BYTES};
        size_t left = ZSTD_compressStream2(pack->zstd, &out, &in, end);
        if (ZSTD_isError(left))
            return -ENOMEM;
        int rc = write_out(pack, pack->out, out.pos);
        if (rc < 0)
            return rc;
        is_done = end == ZSTD_e_end ? left == 0 : in.pos == in.size;
    }
    return 0;
}

/* libarchive is not told of failures: it never frees the buffer of what could not be written. Who
 * has called it looks at the status. */
static la_ssize_t on_write(struct archive *, void *context, const void *data, size_t len)
{
    struct cay_pack *pack = context;
    if (!pack->status)
        pack->status = compress(pack, data, len, ZSTD_e_continue);
    if (!pack->status && pack->progress && !pack->progress(pack->progress_ctx))
        pack->status = -ECANCELED;
    return (la_ssize_t)len;
}

static bool fail(struct cay_pack *pack, const char *path, struct cay_error *err)
{
    if (pack->status == -ECANCELED)
        return cay_fail(err, CAY_R_CANCELED, NULL);
    if (pack->status < 0)
        return cay_store_fail(err, pack->status, "write the archive");
    const char *why = archive_error_string(pack->archive);
    return cay_fail(err, CAY_R_STORE_FAILED, "pack '%.80s': %.80s", path, why ? why : "failed");
}

bool cay_pack_open(struct cay_pack *pack, int fd, int level, cay_pack_progress *progress, void *ctx,
                   struct cay_error *err)
{
    pack->fd = fd;
    pack->progress = progress;
    pack->progress_ctx = ctx;
    cay_sha256_init(&pack->sha);
    pack->buf = cay_alloc(BUF_BYTES);
    pack->archive = archive_write_new();
    pack->out = cay_alloc(BUF_BYTES);
    pack->zstd = ZSTD_createCCtx();
    if (!pack->zstd ||
        ZSTD_isError(ZSTD_CCtx_setParameter(pack->zstd, ZSTD_c_compressionLevel, level)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(pack->zstd, ZSTD_c_checksumFlag, 1)))
        return cay_fail(err, CAY_R_INTERNAL, "zstd cannot be used");
    if (!pack->archive || archive_write_set_format_pax(pack->archive) != ARCHIVE_OK ||
        archive_write_set_format_option(pack->archive, "pax", "hdrcharset", "BINARY") !=
            ARCHIVE_OK ||
        /* The other form has odd names encoded, and no reader decodes them: they came back twice.
         */
        archive_write_set_format_option(pack->archive, "pax", "xattrheader", "LIBARCHIVE") !=
            ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(pack->archive, 1) != ARCHIVE_OK ||
        archive_write_open(pack->archive, pack, NULL, on_write, NULL) != ARCHIVE_OK)
        return cay_fail(err, CAY_R_INTERNAL, "no archive can be written: %.100s",
                        pack->archive ? archive_error_string(pack->archive) : "no memory");
    return true;
}

void cay_pack_finish(struct cay_pack *pack)
{
    if (pack->archive) {
        /* Else its end would be written, and somebody who is about to go be told of progress. */
        pack->status = -ECANCELED;
        /* An entry that is not whole is not filled up. */
        (void)archive_write_fail(pack->archive);
        (void)archive_write_close(pack->archive);
        archive_write_free(pack->archive);
    }
    cay_sha256_finish(&pack->sha);
    ZSTD_freeCCtx(pack->zstd);
    free(pack->buf);
    free(pack->out);
    pack->archive = NULL;
    pack->zstd = NULL;
    pack->buf = pack->out = NULL;
}

bool cay_pack_close(struct cay_pack *pack, char out_sha256[static CAY_SHA256_HEX_SIZE],
                    struct cay_error *err)
{
    if (archive_write_close(pack->archive) != ARCHIVE_OK || pack->status)
        return fail(pack, "the end", err);
    pack->status = compress(pack, NULL, 0, ZSTD_e_end);
    if (pack->status < 0)
        return fail(pack, "the end", err);
    cay_sha256_end(&pack->sha, out_sha256);
    return true;
}

static void free_entry(struct archive_entry **entry)
{
    archive_entry_free(*entry);
}

static bool write_header(struct cay_pack *pack, struct archive_entry *entry, const char *path,
                         struct cay_error *err)
{
    return (archive_write_header(pack->archive, entry) >= ARCHIVE_WARN && !pack->status) ||
           fail(pack, path, err);
}

bool cay_pack_text(struct cay_pack *pack, const char *name, struct cay_str text,
                   struct cay_error *err)
{
    cay_auto(free_entry) struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, name);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, (la_int64_t)text.len);
    if (!write_header(pack, entry, name, err))
        return false;
    if (text.len && archive_write_data(pack->archive, text.ptr, text.len) != (la_ssize_t)text.len)
        return fail(pack, name, err);
    return !pack->status || fail(pack, name, err);
}

static int add_attributes(struct archive_entry *entry, int fd)
{
    cay_autofree char *list = cay_alloc(ATTRIBUTES_BYTES_MAX);
    cay_autofree char *value = cay_alloc(ATTRIBUTES_BYTES_MAX);
    ssize_t len = flistxattr(fd, list, ATTRIBUTES_BYTES_MAX);
    if (len < 0)
        return errno == EOPNOTSUPP ? 0 : -errno;
    for (const char *name = list; name < list + len; name += strlen(name) + 1) {
        if (!cay_copy_keeps_xattr(CAY_COPY_IMPORT, name))
            continue;
        ssize_t size = fgetxattr(fd, name, value, ATTRIBUTES_BYTES_MAX);
        if (size < 0)
            return -errno;
        archive_entry_xattr_add_entry(entry, name, value, (size_t)size);
    }
    return 0;
}

/* Notes where a file has data; a file without holes has no such notes. */
static int add_extents(struct archive_entry *entry, int fd, const struct stat *st)
{
    size_t count = 0;
    off_t at = 0;
    if (st->st_blocks * 512 >= st->st_size)
        return 0;
    while (at < st->st_size) {
        if (cay_stop_asked())
            return -ECANCELED;
        off_t data = lseek(fd, at, SEEK_DATA);
        if (data < 0 && errno != ENXIO)
            return errno == EINVAL || errno == EOPNOTSUPP ? 0 : -errno;
        if (data < 0 || data >= st->st_size)
            break;
        off_t hole = ++count < EXTENTS_MAX ? lseek(fd, data, SEEK_HOLE) : st->st_size;
        if (hole < 0)
            return -errno;
        hole = CAY_MIN(hole, st->st_size);
        archive_entry_sparse_add_entry(entry, data, hole - data);
        at = hole;
    }
    if (!count) /* nothing but a hole */
        archive_entry_sparse_add_entry(entry, st->st_size, 0);
    return 0;
}

/* The writer leaves out what the notes call holes; it wants them all the same. */
static bool write_content(struct cay_pack *pack, int fd, const struct stat *st, const char *path,
                          struct cay_error *err)
{
    static char zeros[1 << 20]; /* never written, hardly read */
    for (off_t at = 0; at < st->st_size;) {
        /* A hole takes no room and is as long as anybody likes. */
        if (cay_stop_asked())
            return cay_store_fail(err, -ECANCELED, "read '%.80s'", path);
        off_t data = st->st_blocks * 512 < st->st_size ? lseek(fd, at, SEEK_DATA) : at;
        bool is_hole = data < 0 || data > at;
        off_t end = is_hole ? (data < 0 ? st->st_size : CAY_MIN(data, st->st_size)) : st->st_size;
        off_t most = is_hole ? (off_t)sizeof(zeros) : (off_t)BUF_BYTES;
        ssize_t len = (ssize_t)CAY_MIN(end - at, most);
        if (!is_hole)
            len = pread(fd, pack->buf, (size_t)len, at);
        if (len <= 0)
            return cay_store_fail(err, len < 0 ? -errno : -EIO, "read '%.80s'", path);
        if (archive_write_data(pack->archive, is_hole ? zeros : pack->buf, (size_t)len) < 0 ||
            pack->status)
            return fail(pack, path, err);
        at += len;
    }
    return true;
}

static bool write_file(struct cay_pack *pack, struct archive_entry *entry, int fd,
                       const struct stat *st, const char *path, struct cay_error *err)
{
    archive_entry_set_size(entry, st->st_size);
    int rc = add_attributes(entry, fd);
    if (!rc)
        rc = add_extents(entry, fd, st);
    if (rc < 0)
        return cay_store_fail(err, rc, "read '%.80s'", path);
    return write_header(pack, entry, path, err) && write_content(pack, fd, st, path, err);
}

static bool write_special(struct cay_pack *pack, struct archive_entry *entry, int dir_fd,
                          const char *name, const struct stat *st, const char *path,
                          struct cay_error *err)
{
    if (S_ISLNK(st->st_mode)) {
        char target[PATH_MAX];
        ssize_t len = readlinkat(dir_fd, name, target, sizeof(target) - 1);
        if (len < 0)
            return cay_store_fail(err, -errno, "read '%.80s'", path);
        target[len] = '\0';
        archive_entry_set_filetype(entry, AE_IFLNK);
        archive_entry_set_symlink(entry, target);
    } else if (S_ISFIFO(st->st_mode) || S_ISSOCK(st->st_mode)) {
        archive_entry_set_filetype(entry, AE_IFIFO);
        if (S_ISSOCK(st->st_mode))
            archive_entry_xattr_add_entry(entry, CAY_UNPACK_SOCKET_MARK, "1", 1);
    } else {
        return true; /* a sandbox cannot make devices */
    }
    return write_header(pack, entry, path, err);
}

/* "" is the root itself. */
static bool write_entry(struct cay_pack *pack, int root_fd, const char *prefix, const char *path,
                        struct cay_error *err)
{
    char parent[PATH_MAX];
    char full[PATH_MAX + 64];
    if (cay_stop_asked())
        return cay_store_fail(err, -ECANCELED, "pack '%.80s'", path);
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : *path ? path : ".";
    snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - path) : 0, path);
    if (snprintf(full, sizeof(full), "%s/tree/%s", prefix, path) >= (int)sizeof(full))
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "'%.80s' is too long a path", path);
    cay_autoclose int dir_fd =
        *parent ? cay_resolve_open_plain(root_fd, parent, O_RDONLY | O_DIRECTORY, 0)
                : openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    if (dir_fd < 0 || fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return cay_store_fail(err, dir_fd < 0 ? dir_fd : -errno, "look at '%.80s'", path);
    cay_auto(free_entry) struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, full);
    archive_entry_set_perm(entry, st.st_mode & 07777);
    archive_entry_set_uid(entry, st.st_uid);
    archive_entry_set_gid(entry, st.st_gid);
    archive_entry_set_mtime(entry, st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return write_special(pack, entry, dir_fd, name, &st, path, err);
    cay_autoclose int fd =
        openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOATIME);
    if (fd < 0)
        return cay_store_fail(err, -errno, "open '%.80s'", path);
    if (S_ISREG(st.st_mode)) {
        archive_entry_set_filetype(entry, AE_IFREG);
        return write_file(pack, entry, fd, &st, path, err);
    }
    archive_entry_set_filetype(entry, AE_IFDIR);
    int rc = add_attributes(entry, fd);
    return rc < 0 ? cay_store_fail(err, rc, "read '%.80s'", path)
                  : write_header(pack, entry, path, err);
}

static bool write_link(struct cay_pack *pack, const char *prefix, const struct cay_change *change,
                       struct cay_error *err)
{
    char full[PATH_MAX + 64];
    char target[PATH_MAX + 64];
    cay_auto(free_entry) struct archive_entry *entry = archive_entry_new();
    if (snprintf(full, sizeof(full), "%s/tree/%s", prefix, change->path) >= (int)sizeof(full) ||
        snprintf(target, sizeof(target), "%s/tree/%s", prefix, change->link) >= (int)sizeof(target))
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "'%.80s' is too long a path", change->path);
    archive_entry_set_pathname(entry, full);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_hardlink(entry, target);
    return write_header(pack, entry, change->path, err);
}

static bool write_deletion(struct cay_pack *pack, const char *prefix, const char *path,
                           struct cay_error *err)
{
    char full[PATH_MAX + 64];
    if (snprintf(full, sizeof(full), "%s/deleted/%s", prefix, path) >= (int)sizeof(full))
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "'%.80s' is too long a path", path);
    return cay_pack_text(pack, full, CAY_STR(""), err);
}

bool cay_pack_changes(struct cay_pack *pack, int root_fd, const char *prefix,
                      const struct cay_changes *changes, struct cay_error *err)
{
    bool is_good = true;
    for (size_t i = 0; is_good && i < changes->count; i++) {
        if (changes->items[i].is_deleted)
            is_good = write_deletion(pack, prefix, changes->items[i].path, err);
    }
    is_good = is_good && write_entry(pack, root_fd, prefix, "", err);
    for (size_t i = 0; is_good && i < changes->count; i++) {
        if (changes->items[i].is_written)
            is_good = write_entry(pack, root_fd, prefix, changes->items[i].path, err);
    }
    for (size_t i = 0; is_good && i < changes->count; i++) {
        if (changes->items[i].link)
            is_good = write_link(pack, prefix, &changes->items[i], err);
    }
    return is_good;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/image_files.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/stop.h"
#include "host/store/image_manifest.h"
#include "host/store/spool.h"
#include "host/store/store_ops.h"
#include "sys/resolve.h"

enum {
    HASH_BYTES = 128 * 1024,
    LINKS_MAX = 4, /* to follow */
};

void cay_image_files_finish(struct cay_image_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        free(files->files[i].name);
        free(files->files[i].target);
        cay_cleanup_close(&files->files[i].fd);
    }
    free(files->files);
    files->files = NULL;
    files->count = files->cap = 0;
}

static bool spool(struct cay_archive_in *in, int fd, const char *path, struct cay_error *err)
{
    for (;;) {
        const void *block = NULL;
        size_t len = 0;
        la_int64_t offset = 0;
        int rc = archive_read_data_block(in->archive, &block, &len, &offset);
        if (rc == ARCHIVE_EOF)
            return true;
        if (rc < ARCHIVE_WARN)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "'%.80s' in the image is damaged", path);
        if (cay_stop_asked())
            return cay_store_fail(err, -ECANCELED, "keep '%.80s' of the image", path);
        rc = lseek(fd, offset, SEEK_SET) < 0 ? -errno : cay_spool_write(fd, block, len);
        if (rc < 0)
            return cay_store_fail(err, rc, "keep '%.80s' of the image", path);
    }
}

/* "a/../b" of a link in "dir/name"; false when it leads outside. */
static bool join(const char *from, const char *target, char out[static PATH_MAX])
{
    char text[2 * PATH_MAX];
    const char *slash = strrchr(from, '/');
    int len =
        snprintf(text, sizeof(text), "%.*s%s", slash ? (int)(slash - from + 1) : 0, from, target);
    if (target[0] == '/' || len >= (int)sizeof(text))
        return false;
    size_t out_len = 0;
    struct cay_str rest = cay_str(text);
    struct cay_str part;
    while (cay_str_split(&rest, '/', &part)) {
        if (part.len == 0 || cay_str_is(part, "."))
            continue;
        if (cay_str_is(part, "..")) {
            if (!out_len)
                return false;
            while (out_len && out[--out_len] != '/')
                ;
            continue;
        }
        if (out_len + part.len + 2 > PATH_MAX)
            return false;
        if (out_len)
            out[out_len++] = '/';
        memcpy(out + out_len, part.ptr, part.len);
        out_len += part.len;
    }
    out[out_len] = '\0';
    return out_len > 0;
}

bool cay_image_files_add(struct cay_image_files *files, struct cay_archive_in *in,
                         struct archive_entry *entry, const char *path, struct cay_error *err)
{
    const char *hard = cay_archive_hard_link(entry);
    const char *soft =
        archive_entry_filetype(entry) == AE_IFLNK ? cay_archive_symlink(entry) : NULL;
    bool is_file = !hard && archive_entry_filetype(entry) == AE_IFREG;
    char target[PATH_MAX];
    if (!hard && !soft && !is_file)
        return true;
    if ((hard && !cay_archive_clean(hard, target)) || (!hard && soft && !join(path, soft, target)))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "'%.80s' in the image points outside", path);
    if (files->count == CAY_IMAGE_FILES_MAX)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "the image has more than %d files",
                        CAY_IMAGE_FILES_MAX);
    la_int64_t size = archive_entry_size(entry);
    if (is_file && (size < 0 || (uint64_t)size > files->bytes_max ||
                    files->bytes > files->bytes_max - (uint64_t)size))
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "the image has more than %llu bytes",
                        (unsigned long long)files->bytes_max);
    if (files->count == files->cap) {
        files->cap = CAY_MAX(files->cap * 2, (size_t)32);
        files->files = cay_realloc_array(files->files, files->cap, sizeof(*files->files));
    }
    struct cay_image_file *file = &files->files[files->count++];
    *file = (struct cay_image_file){.name = cay_strdup(path), .fd = -1};
    if (!is_file) {
        file->target = cay_strdup(target);
        return true;
    }
    file->fd = cay_spool_open(files->spool_fd);
    if (file->fd < 0)
        return cay_store_fail(err, file->fd, "keep '%.80s' of the image", path);
    file->size = (uint64_t)size;
    files->bytes += file->size;
    return spool(in, file->fd, path, err);
}

/* The last of a name counts, as tar has it. */
static const struct cay_image_file *find(const struct cay_image_files *files, const char *name)
{
    for (int step = 0; step < LINKS_MAX; step++) {
        const struct cay_image_file *found = NULL;
        for (size_t i = files->count; !found && i-- > 0;)
            found = strcmp(files->files[i].name, name) ? NULL : &files->files[i];
        if (!found || !found->target)
            return found;
        name = found->target;
    }
    return NULL;
}

static int open_in_dir(const struct cay_image_files *files, const char *name, uint64_t *out_size)
{
    int fd = cay_resolve_open(files->dir_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    struct stat st;
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return -ENOENT;
    }
    *out_size = (uint64_t)st.st_size;
    return fd;
}

bool cay_image_files_has(const struct cay_image_files *files, const char *name)
{
    uint64_t size = 0;
    if (files->dir_fd < 0)
        return find(files, name) != NULL;
    cay_autoclose int fd = open_in_dir(files, name, &size);
    return fd >= 0;
}

bool cay_image_files_open(const struct cay_image_files *files, const char *name, int *out_fd,
                          uint64_t *out_size, struct cay_error *err)
{
    int fd = -ENOENT;
    if (files->dir_fd >= 0) {
        fd = open_in_dir(files, name, out_size);
    } else {
        const struct cay_image_file *file = find(files, name);
        if (file) {
            *out_size = file->size;
            fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
        }
    }
    if (fd < 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the image has no file '%.100s'", name);
    (void)lseek(fd, 0, SEEK_SET);
    *out_fd = fd;
    return true;
}

bool cay_image_hash(int fd, char out_sha256[static CAY_SHA256_HEX_SIZE], struct cay_error *err)
{
    cay_autofree char *buf = cay_alloc(HASH_BYTES);
    cay_auto(cay_sha256_finish) struct cay_sha256 sha;
    cay_sha256_init(&sha);
    off_t at = 0;
    for (ssize_t len = 1; len > 0; at += len) {
        len = cay_stop_asked() ? -ECANCELED : pread(fd, buf, HASH_BYTES, at);
        if (len < 0)
            return cay_store_fail(err, len == -ECANCELED ? -ECANCELED : -errno, "read the image");
        cay_sha256_add(&sha, buf, (size_t)len);
    }
    cay_sha256_end(&sha, out_sha256);
    return true;
}

bool cay_image_files_read(const struct cay_image_files *files, const char *name,
                          struct cay_arena *arena, struct cay_str *out_text,
                          char out_sha256[static CAY_SHA256_HEX_SIZE], struct cay_error *err)
{
    uint64_t size = 0;
    cay_autoclose int fd = -1;
    if (!cay_image_files_open(files, name, &fd, &size, err))
        return false;
    char *text = size <= CAY_IMAGE_JSON_BYTES_MAX ? cay_arena_alloc(arena, size + 1) : NULL;
    if (!text)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "'%.80s' of the image is too large", name);
    ssize_t len = pread(fd, text, size, 0);
    if (len < 0 || (uint64_t)len != size)
        return cay_store_fail(err, len < 0 ? -errno : -EIO, "read '%.80s' of the image", name);
    *out_text = (struct cay_str){text, size};
    return cay_image_hash(fd, out_sha256, err);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/archive_in.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/store/store_ops.h"

enum {
    READ_BYTES = 128 * 1024,
    PARTS_MAX = 256, /* names in one path */
    FILTERS_MAX = 2, /* the file itself and one compression */
};

static la_ssize_t on_read(struct archive *archive, void *context, const void **out_data)
{
    struct cay_archive_in *in = context;
    ssize_t len = 0;
    do {
        len = read(in->fd, in->buf, READ_BYTES);
    } while (len < 0 && errno == EINTR);
    if (len < 0) {
        archive_set_error(archive, errno, "cannot be read");
        return -1;
    }
    in->bytes += (uint64_t)len;
    if (in->is_hashed)
        cay_sha256_add(&in->sha, in->buf, (size_t)len);
    *out_data = in->buf;
    return len;
}

static bool no_tar(const struct cay_archive_in *in, struct cay_error *err)
{
    const char *why = archive_error_string(in->archive);
    return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "not a tar archive (plain, gzip, zstd, xz), or a damaged one: %.100s",
                    why ? why : "no reason known");
}

bool cay_archive_in_open(struct cay_archive_in *in, int fd, bool is_hashed, struct cay_error *err)
{
    *in = (struct cay_archive_in){.fd = fd, .is_hashed = is_hashed};
    in->buf = cay_alloc(READ_BYTES);
    if (is_hashed)
        cay_sha256_init(&in->sha);
    in->archive = archive_read_new();
    if (!in->archive)
        return cay_fail(err, CAY_R_INTERNAL, "no memory to read an archive");
    archive_read_support_format_tar(in->archive);
    archive_read_support_filter_gzip(in->archive);
    archive_read_support_filter_zstd(in->archive);
    archive_read_support_filter_xz(in->archive);
    if (archive_read_open(in->archive, in, NULL, on_read, NULL) != ARCHIVE_OK)
        return no_tar(in, err);
    return true;
}

void cay_archive_in_finish(struct cay_archive_in *in)
{
    if (in->archive)
        archive_read_free(in->archive);
    cay_sha256_finish(&in->sha);
    free(in->buf);
    *in = (struct cay_archive_in){.fd = -1};
}

bool cay_archive_in_next(struct cay_archive_in *in, struct archive_entry **out_entry,
                         struct cay_error *err)
{
    *out_entry = NULL;
    int rc = archive_read_next_header(in->archive, out_entry);
    if (rc == ARCHIVE_EOF) {
        *out_entry = NULL;
        return true;
    }
    if (rc < ARCHIVE_WARN)
        return no_tar(in, err);
    if (!in->is_checked && archive_filter_count(in->archive) > FILTERS_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the archive is compressed more than once");
    in->is_checked = true;
    return true;
}

bool cay_archive_in_drain(struct cay_archive_in *in, char out_sha256[static CAY_SHA256_HEX_SIZE],
                          struct cay_error *err)
{
    out_sha256[0] = '\0';
    for (la_ssize_t len = 1; len > 0;) {
        const void *ignored = NULL;
        len = on_read(in->archive, in, &ignored);
        if (len < 0)
            return cay_store_fail(err, -errno, "read the archive");
    }
    if (in->is_hashed)
        cay_sha256_end(&in->sha, out_sha256);
    in->is_hashed = false;
    return true;
}

/* The first is NULL for names the locale cannot spell. */
const char *cay_archive_path(struct archive_entry *entry)
{
    const char *path = archive_entry_pathname(entry);
    return path ? path : archive_entry_pathname_utf8(entry);
}

const char *cay_archive_hard_link(struct archive_entry *entry)
{
    const char *target = archive_entry_hardlink(entry);
    return target ? target : archive_entry_hardlink_utf8(entry);
}

const char *cay_archive_symlink(struct archive_entry *entry)
{
    const char *target = archive_entry_symlink(entry);
    return target ? target : archive_entry_symlink_utf8(entry);
}

bool cay_archive_clean(const char *path, char out[static PATH_MAX])
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

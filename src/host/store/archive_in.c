/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/archive_in.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "base/stop.h"
#include "host/store/store_ops.h"

enum {
    READ_BYTES = 128 * 1024,
    PARTS_MAX = 416, /* names in one path: as deep as trees are looked into, and a prefix */
    FILTERS_MAX = 2, /* the file itself and one compression */
    AFTER_END_BYTES_MAX = 64 << 20,
};

/* Ours, because libarchive's own passes over the checksums of gzip. */
struct cay_gunzip {
    z_stream stream;
    bool is_in_member;
    bool is_over; /* what follows is no gzip, and nobody's business */
    unsigned char out[READ_BYTES];
};

static ssize_t read_raw(struct cay_archive_in *in, size_t at)
{
    ssize_t len = 0;
    do {
        len = read(in->fd, in->buf + at, READ_BYTES - at);
    } while (len < 0 && errno == EINTR);
    if (len < 0) {
        archive_set_error(in->archive, errno, "cannot be read");
        return -1;
    }
    in->bytes += (uint64_t)len;
    if (in->is_hashed)
        cay_sha256_add(&in->sha, in->buf + at, (size_t)len);
    return len;
}

/* The first bytes tell; of a pipe they may come one by one. */
static ssize_t begin(struct cay_archive_in *in)
{
    static const char magic[] = {'\x1f', '\x8b', '\x08'};
    size_t have = 0;
    ssize_t len = 1;
    in->is_begun = true;
    while (len > 0 && have < sizeof(magic)) {
        len = read_raw(in, have);
        have += len > 0 ? (size_t)len : 0;
    }
    if (len < 0 || have < sizeof(magic) || memcmp(in->buf, magic, sizeof(magic)) != 0)
        return len < 0 ? -1 : (ssize_t)have;
    in->gunzip = cay_new(struct cay_gunzip);
    in->gunzip->stream.next_in = (unsigned char *)in->buf;
    in->gunzip->stream.avail_in = (unsigned)have;
    in->gunzip->is_in_member = true;
    if (inflateInit2(&in->gunzip->stream, 16 + MAX_WBITS) == Z_OK)
        return (ssize_t)have;
    archive_set_error(in->archive, ENOMEM, "no memory to unpack it");
    return -1;
}

static bool fill(struct cay_archive_in *in)
{
    z_stream *stream = &in->gunzip->stream;
    ssize_t len = stream->avail_in ? 1 : read_raw(in, 0);
    if (!stream->avail_in && len > 0) {
        stream->next_in = (unsigned char *)in->buf;
        stream->avail_in = (unsigned)len;
    }
    return len >= 0;
}

/* The next bytes, 0 at the end, -1 for damage. Archives may be several members in a row. */
static ssize_t gunzip(struct cay_archive_in *in)
{
    struct cay_gunzip *self = in->gunzip;
    z_stream *stream = &self->stream;
    stream->next_out = self->out;
    stream->avail_out = sizeof(self->out);
    while (!self->is_over && stream->avail_out == sizeof(self->out)) {
        if (!fill(in))
            return -1;
        if (!self->is_in_member) {
            self->is_over = !stream->avail_in || *stream->next_in != 0x1F;
            self->is_in_member = !self->is_over;
            (void)inflateReset(stream);
            continue;
        }
        int rc = stream->avail_in ? inflate(stream, Z_NO_FLUSH) : Z_BUF_ERROR;
        self->is_in_member = rc != Z_STREAM_END;
        if (rc != Z_OK && rc != Z_STREAM_END) {
            archive_set_error(in->archive, EINVAL, "%s",
                              rc == Z_BUF_ERROR ? "truncated gzip input" : "damaged gzip input");
            return -1;
        }
    }
    return (ssize_t)(sizeof(self->out) - stream->avail_out);
}

static la_ssize_t on_read(struct archive *, void *context, const void **out_data)
{
    struct cay_archive_in *in = context;
    if (cay_stop_asked()) {
        archive_set_error(in->archive, ECANCELED, "nobody waits for it");
        return -1;
    }
    ssize_t len = in->is_begun ? 0 : begin(in);
    if (len >= 0 && in->gunzip)
        len = gunzip(in);
    else if (len == 0)
        len = read_raw(in, 0);
    *out_data = in->gunzip ? (const void *)in->gunzip->out : in->buf;
    return len;
}

/* The checksum comes after all else, and a reader of tar stops before. */
static bool check_end(struct cay_archive_in *in)
{
    uint64_t bytes = 0;
    for (ssize_t len = 1; in->gunzip && len > 0; bytes += (uint64_t)len) {
        len = gunzip(in);
        if (len >= 0 && bytes <= AFTER_END_BYTES_MAX)
            continue;
        if (len >= 0)
            archive_set_error(in->archive, EINVAL, "too much behind its end");
        return false;
    }
    return true;
}

static bool no_tar(const struct cay_archive_in *in, struct cay_error *err)
{
    const char *why = archive_error_string(in->archive);
    if (cay_stop_asked())
        return cay_fail(err, CAY_R_CANCELED, NULL);
    return cay_fail(
        err, CAY_R_INVALID_ARGUMENT,
        "what was sent is not a tar archive (plain, gzip, zstd, xz), or is damaged: %.100s",
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
    if (in->gunzip)
        (void)inflateEnd(&in->gunzip->stream);
    free(in->gunzip);
    cay_sha256_finish(&in->sha);
    free(in->buf);
    *in = (struct cay_archive_in){.fd = -1};
}

/* What nobody took of the last entry. The library would go over it in one go, and little that is
 * packed well unpacks to any amount. */
static bool skip_rest(struct cay_archive_in *in, struct cay_error *err)
{
    const void *block = NULL;
    size_t len = 0;
    la_int64_t offset = 0;
    int rc = ARCHIVE_OK;
    while (in->is_checked && rc != ARCHIVE_EOF) {
        rc = archive_read_data_block(in->archive, &block, &len, &offset);
        if (rc < ARCHIVE_WARN || cay_stop_asked())
            return no_tar(in, err);
    }
    return true;
}

bool cay_archive_in_next(struct cay_archive_in *in, struct archive_entry **out_entry,
                         struct cay_error *err)
{
    *out_entry = NULL;
    if (!skip_rest(in, err))
        return false;
    int rc = archive_read_next_header(in->archive, out_entry);
    if (rc == ARCHIVE_EOF) {
        *out_entry = NULL;
        return check_end(in) || no_tar(in, err);
    }
    if (rc < ARCHIVE_WARN)
        return no_tar(in, err);
    int filters = archive_filter_count(in->archive) + (in->gunzip ? 1 : 0);
    if (!in->is_checked && filters > FILTERS_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the archive is compressed more than once");
    in->is_checked = true;
    return true;
}

bool cay_archive_in_drain(struct cay_archive_in *in, char out_sha256[static CAY_SHA256_HEX_SIZE],
                          struct cay_error *err)
{
    out_sha256[0] = '\0';
    for (ssize_t len = 1; len > 0;) {
        len = read_raw(in, 0);
        if (len < 0 || cay_stop_asked())
            return cay_store_fail(err, len < 0 ? -errno : -ECANCELED, "read the archive");
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

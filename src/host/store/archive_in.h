/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reading a tar archive that somebody hands in: plain, or packed once with gzip, zstd or xz, found
 * out by its content, with the checksums of the compression. Counts and hashes the bytes as they
 * came. Packed more than once is refused: a few bytes could unpack to hours of work.
 *
 * Order: open -> next* -> drain -> finish.
 */

#include <limits.h>

#include "base/error.h"
#include "sys/sha256.h"

struct archive;
struct archive_entry;

struct cay_archive_in {
    struct archive *archive;
    int fd; /* borrowed; read from its present position on */
    uint64_t bytes;
    struct cay_sha256 sha; /* only when hashed */
    bool is_hashed;
    bool is_checked;
    bool is_begun;
    char *buf;
    struct cay_gunzip *gunzip; /* NULL: another compression, or none */
};

[[nodiscard]] bool cay_archive_in_open(struct cay_archive_in *in, int fd, bool is_hashed,
                                       struct cay_error *err);
void cay_archive_in_finish(struct cay_archive_in *in);

/* The next entry, NULL at the end. INVALID_ARGUMENT for what is no tar archive. */
[[nodiscard]] bool cay_archive_in_next(struct cay_archive_in *in, struct archive_entry **out_entry,
                                       struct cay_error *err);

/* Reads what is left behind the archive's end, so that bytes and digest are those of everything. */
[[nodiscard]] bool cay_archive_in_drain(struct cay_archive_in *in,
                                        char out_sha256[static CAY_SHA256_HEX_SIZE],
                                        struct cay_error *err);

/* Names and targets as they stand in the archive, whatever the locale; NULL when there is none. */
const char *cay_archive_path(struct archive_entry *entry);
const char *cay_archive_hard_link(struct archive_entry *entry);
const char *cay_archive_symlink(struct archive_entry *entry);

/* Cleans a path: no leading slashes, no "." and no empty parts. False for ".." and for what is too
 * long. The result is empty for the root itself. */
[[nodiscard]] bool cay_archive_clean(const char *path, char out[static PATH_MAX]);

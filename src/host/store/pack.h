/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writing a tar archive, packed by zstd, that ordinary tools read: files with their holes, modes,
 * owners, attributes and hard links. Sockets, which tar does not know, become fifos with a mark
 * (unpack.h). Counts and hashes what comes out.
 *
 * Order: open -> (text | mark | tree_entry | changes)* -> close -> finish.
 */

#include <stdatomic.h>

#include "host/store/changes.h"
#include "sys/sha256.h"

struct archive;
struct ZSTD_CCtx_s;

/* Called when more has been written; false gives up with CANCELED. */
typedef bool cay_pack_progress(void *ctx);

struct cay_pack {
    struct archive *archive;
    int fd; /* borrowed */
    int status;
    _Atomic uint64_t bytes; /* written so far; any thread may look */
    struct cay_sha256 sha;
    struct ZSTD_CCtx_s *zstd;
    char *buf; /* of a file */
    char *out; /* of the archive, packed */
    cay_pack_progress *progress;
    void *progress_ctx;
};

/* Of one that is zeroed: others may look at its bytes before it is open. */
[[nodiscard]] bool cay_pack_open(struct cay_pack *pack, int fd, int level,
                                 cay_pack_progress *progress, void *ctx, struct cay_error *err);
/* A small file of our own. */
[[nodiscard]] bool cay_pack_text(struct cay_pack *pack, const char *name, struct cay_str text,
                                 struct cay_error *err);

/* Below `prefix`: what is taken away as empty files in deleted/, what is there in tree/. */
[[nodiscard]] bool cay_pack_changes(struct cay_pack *pack, int root_fd, const char *prefix,
                                    const struct cay_changes *changes, struct cay_error *err);

/* The archive's end and everything's digest. */
[[nodiscard]] bool cay_pack_close(struct cay_pack *pack,
                                  char out_sha256[static CAY_SHA256_HEX_SIZE],
                                  struct cay_error *err);
void cay_pack_finish(struct cay_pack *pack);

/* Reads a whole archive and checks what zstd can check of it; true for what is not packed by it.
 * INVALID_ARGUMENT, RESOURCE_EXHAUSTED for more than bytes_max, CANCELED (base/stop.h). */
[[nodiscard]] bool cay_pack_verify(int fd, uint64_t bytes_max, struct cay_error *err);

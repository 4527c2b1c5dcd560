/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files of an image: in a directory, or taken out of a tar archive. An archive's files may come
 * in any order, so they are kept in unnamed files beside the new base until the image is put
 * together; they go with the process, however it ends.
 *
 * Order: (open_dir | begin -> add*) -> (open | read)* -> finish.
 */

#include "base/arena.h"
#include "base/map.h"
#include "host/store/archive_in.h"

enum { CAY_IMAGE_FILES_MAX = 4096 };

struct cay_image_file {
    char *name;
    char *target; /* of a link to another; else NULL */
    int fd;
    uint64_t size;
};

struct cay_image_files {
    int dir_fd;   /* of a layout in a directory, borrowed; -1 otherwise */
    int spool_fd; /* directory on whose file system files are kept, borrowed */
    uint64_t bytes_max;
    uint64_t bytes;
    struct cay_image_file *files;
    size_t count, cap;
};

void cay_image_files_finish(struct cay_image_files *files);

/* The entry just read, at its clean path. Directories are passed over. */
[[nodiscard]] bool cay_image_files_add(struct cay_image_files *files, struct cay_archive_in *in,
                                       struct archive_entry *entry, const char *path,
                                       struct cay_error *err);

[[nodiscard]] bool cay_image_files_has(const struct cay_image_files *files, const char *name);

/* A descriptor of its own, at the start of the file. INVALID_ARGUMENT when the image has none. */
[[nodiscard]] bool cay_image_files_open(const struct cay_image_files *files, const char *name,
                                        int *out_fd, uint64_t *out_size, struct cay_error *err);

/* A small document, with its SHA-256. */
[[nodiscard]] bool cay_image_files_read(const struct cay_image_files *files, const char *name,
                                        struct cay_arena *arena, struct cay_str *out_text,
                                        char out_sha256[static CAY_SHA256_HEX_SIZE],
                                        struct cay_error *err);

/* SHA-256 of an open file from its start on; the position is put back there. */
[[nodiscard]] bool cay_image_hash(int fd, char out_sha256[static CAY_SHA256_HEX_SIZE],
                                  struct cay_error *err);

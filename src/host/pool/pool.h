/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where the store's directory is, and how full the file system around it.
 *
 * Order: open (before the store) -> look* , create, grow -> close (after the store); a created one
 * is kept or discarded. Everything but
 * the accessors blocks. README.md says how a pool survives.
 */

#include "base/error.h"

enum cay_pool_kind {
    CAY_POOL_DIRECTORY = 1, /* a directory of the host */
    CAY_POOL_LOOP,          /* a file with a file system inside */
};

struct cay_pool {
    char *data_dir;
    enum cay_pool_kind kind;
    char filesystem[16]; /* of a loop pool: "btrfs" or "ext4" */
    char *path;          /* the directory, or the file behind a loop pool */
    int mount_fd;        /* of a loop pool: mounted, attached nowhere; else -1 */
    int device_fd;       /* its loop device; else -1 */
    char *store_dir;     /* for the store; good as long as the pool is open */
};

/* The pool that the data directory knows of; its own directory when there is none. */
[[nodiscard]] bool cay_pool_open(const char *data_dir, struct cay_pool *out_pool,
                                 struct cay_error *err);
void cay_pool_close(struct cay_pool *pool);

/* Called with what is being done and the share that is; false cancels. */
typedef bool cay_pool_progress_fn(void *ctx, const char *step, double share);

struct cay_pool_plan {
    enum cay_pool_kind kind;
    const char *path;       /* NULL: below the data directory (loop pools only) */
    const char *filesystem; /* of a loop pool; NULL: btrfs if the host can, else ext4 */
    uint64_t bytes;
    bool is_sparse; /* what is not written takes no space yet, and may find none later */
    cay_pool_progress_fn *progress;
    void *ctx;
};

enum { CAY_POOL_BYTES_MIN = 256 << 20 };

/* Makes a pool and opens it. The data directory knows of it once it is kept; who finds that its
 * store cannot be used discards it, with the file that was made. On failure nothing is left.
 * INVALID_ARGUMENT, ALREADY_EXISTS, NO_SPACE, NOT_SUPPORTED (what is missing). */
[[nodiscard]] bool cay_pool_create(const char *data_dir, const struct cay_pool_plan *plan,
                                   struct cay_pool *out_pool, struct cay_error *err);

[[nodiscard]] bool cay_pool_keep(struct cay_pool *pool, struct cay_error *err);
void cay_pool_discard(struct cay_pool *pool);

/* Larger, while it is in use. */
[[nodiscard]] bool cay_pool_grow(const struct cay_pool *pool, uint64_t bytes,
                                 struct cay_error *err);

struct cay_pool_space {
    uint64_t size_bytes;
    uint64_t used_bytes;
    uint64_t available_bytes;
    uint64_t inodes; /* that it can have; 0: as many as fit */
    uint64_t free_inodes;
    bool is_read_only;
    char filesystem[16];
    /* Of a sparse loop pool: what its file may still take of the disk behind it, and what that has.
     */
    uint64_t unreserved_bytes;
    uint64_t behind_bytes;
};
/* Of a loop pool no more is available than the disk behind its file has. */
[[nodiscard]] bool cay_pool_look(const struct cay_pool *pool, struct cay_pool_space *out_space,
                                 struct cay_error *err);

/* The file behind the loop pool that the data directory knows of, to be freed; NULL: there is none.
 */
[[nodiscard]] char *cay_pool_file(const char *data_dir);
/* The last two of struct cay_pool_space, of such a file. */
void cay_pool_look_behind(const char *path, struct cay_pool_space *out_space);

/* A file with holes on a disk that is nearly full: what programs have written, and what is in
 * memory still, may find no room on its way to the disk. Only who syncs learns of that. */
[[nodiscard]] bool cay_pool_may_lose(const struct cay_pool *pool);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ways to fill a base. Each makes a draft in the store, fills it by descriptor and commits it: a
 * failure, a cancellation or the death of the daemon leaves nothing. What is handed in is hostile
 * until proven otherwise: names that point outside are refused, devices are left out, owners beyond
 * the range of a sandbox become nobody, and the amount is bounded.
 */

#include "host/store/copy.h"
#include "host/store/store.h"

enum {
    CAY_BASE_ENTRIES_MAX = 4'000'000,
    CAY_BASE_NOBODY = 65534, /* for owners that cannot be mapped */
    CAY_BASE_IDS = 65536,
};
#define CAY_BASE_BYTES_MAX ((uint64_t)128 << 30)

struct cay_base_options {
    uint64_t entries_max; /* 0: CAY_BASE_ENTRIES_MAX */
    uint64_t bytes_max;   /* 0: CAY_BASE_BYTES_MAX */
    cay_copy_progress_fn *progress;
    void *progress_ctx;
};

/* A root file system in a directory. */
[[nodiscard]] bool cay_base_import_dir(struct cay_store *store, const char *name, int dir_fd,
                                       const struct cay_base_options *options,
                                       struct cay_copy_stats *out_stats, struct cay_error *err);

/* A tar file or stream, plain or compressed with gzip, zstd or xz, read from the current position.
 * INVALID_ARGUMENT for what is not one or reaches outside. */
[[nodiscard]] bool cay_base_import_tar(struct cay_store *store, const char *name, int fd,
                                       const struct cay_base_options *options,
                                       struct cay_copy_stats *out_stats, struct cay_error *err);

/* The built-in base "host": the machine's own /usr, hard-linked, with a small clean rest. Made once
 * per state of the machine's packages; `root` is "/" but in tests. The alias "host" then names it.
 * *out_name is the name of the base itself. Who asks while somebody else makes it waits for that.
 */
[[nodiscard]] bool cay_base_host(struct cay_store *store, const char *root,
                                 const struct cay_base_options *options,
                                 char out_name[static CAY_STORE_NAME_SIZE], struct cay_error *err);

/* --- for the importers --- */

/* Directories every root has, so that a sandbox's mounts find their places without writing. */
[[nodiscard]] bool cay_base_complete(int root_fd, struct cay_error *err);
/* Everything of the host base but /usr. */
[[nodiscard]] bool cay_base_skeleton(int host_fd, int root_fd, struct cay_error *err);
/* Unpacks into an empty directory. */
[[nodiscard]] bool cay_base_unpack(int fd, int root_fd, const struct cay_base_options *options,
                                   struct cay_copy_stats *out_stats, struct cay_error *err);

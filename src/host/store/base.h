/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ways to fill a base. Each makes a draft in the store, fills it by descriptor and commits it: a
 * failure, a cancellation or the death of the daemon leaves nothing. What is handed in is hostile
 * until proven otherwise: names that point outside are refused, devices are left out, owners beyond
 * the range of a sandbox become nobody, and the amount is bounded.
 */

#include "base/arena.h"
#include "host/store/copy.h"
#include "host/store/store.h"

enum {
    CAY_BASE_ENTRIES_MAX = 4'000'000,
    CAY_BASE_NOBODY = 65534, /* for owners that cannot be mapped */
    CAY_BASE_IDS = 65536,
};
#define CAY_BASE_BYTES_MAX ((uint64_t)128 << 30)

enum { CAY_BASE_DIGEST_SIZE = 72 }; /* "sha256:", hex digits, NUL */

enum cay_base_format {
    CAY_BASE_FORMAT_AUTO = 0, /* by content */
    CAY_BASE_FORMAT_DIRECTORY,
    CAY_BASE_FORMAT_TAR,
    CAY_BASE_FORMAT_OCI,
    CAY_BASE_FORMAT_DOCKER,
};

/* What came of an import. */
struct cay_base_info {
    char id[CAY_STORE_ID_SIZE]; /* of its draft, see cay_store_base_id */
    enum cay_base_format format;
    struct cay_copy_stats stats;
    uint64_t bytes_read;
    char digest[CAY_BASE_DIGEST_SIZE]; /* of the tree; empty when it is too deep for one */
    struct cay_arena arena;            /* of what follows; the caller finishes it */
    struct cay_str source;             /* an image's name; may be empty */
    struct cay_str architecture;       /* empty: not known */
    struct cay_str user;               /* "root", "user" or a number; empty: not said */
    struct cay_str cwd;                /* absolute, or empty */
    struct cay_str *env;               /* NAME=VALUE */
    size_t env_count;
};

struct cay_base_options {
    uint64_t entries_max; /* 0: CAY_BASE_ENTRIES_MAX */
    uint64_t bytes_max;   /* 0: CAY_BASE_BYTES_MAX */
    cay_copy_progress_fn *progress;
    void *progress_ctx;
    enum cay_base_format format;
    const char *platform; /* of an image for several: "linux/arm64"; NULL: this machine's */
    const char *sha256;   /* the data of an archive must have; NULL: any */
    bool replaces;        /* a base of that name makes way, see cay_store_base_replace */
    bool skips_digest;    /* where reading it all again is too much */
    /* Asked before the host's files are copied because they cannot be linked: with what that takes
     * of the disk. The context is that of progress. */
    bool (*room)(void *ctx, const struct cay_copy_stats *cost, struct cay_error *err);
    /* Called when all is there and before the base gets its name: the caller writes it down. */
    bool (*ready)(void *ctx, const struct cay_base_info *info, struct cay_error *err);
    void *ready_ctx;
};

/* A base of whatever the descriptor is: a directory or an archive (also a pipe), a root file system
 * or a container image. INVALID_ARGUMENT for what is none, reaches outside or does not have its
 * digest; RESOURCE_EXHAUSTED for what is too large; BASE_EXISTS; CANCELED. */
[[nodiscard]] bool cay_base_import(struct cay_store *store, const char *name, int fd,
                                   const struct cay_base_options *options,
                                   struct cay_base_info *out_info, struct cay_error *err);

/* Completes a draft, asks options->ready and commits; consumes the draft in any case. */
[[nodiscard]] bool cay_base_keep(struct cay_store *store, struct cay_store_base_draft *draft,
                                 const char *name, const struct cay_base_options *options,
                                 struct cay_base_info *info, struct cay_error *err);

/* The built-in base "host": the machine's own /usr, hard-linked, with a small clean rest. Made once
 * per state of the machine's packages; `root` is "/" but in tests. The alias "host" then names it.
 * *out_name is the name of the base itself. Who asks while somebody else makes it waits for that.
 */
[[nodiscard]] bool cay_base_host(struct cay_store *store, const char *root,
                                 const struct cay_base_options *options,
                                 char out_name[static CAY_STORE_NAME_SIZE], struct cay_error *err);

/* What it is at present, cheaply. */
struct cay_base_host_state {
    char name[CAY_STORE_NAME_SIZE]; /* that it would have */
    int64_t changed_ns; /* when packages last changed, on the wall clock; 0: not known */
};
[[nodiscard]] bool cay_base_host_state(const char *root, struct cay_base_host_state *out_state,
                                       struct cay_error *err);
/* What it takes of the store's disk: nothing where files can be linked. NULL: as a copy. Looks at
 * all of /usr; CANCELED (base/stop.h). */
[[nodiscard]] bool cay_base_host_cost(struct cay_store *store, const char *root,
                                      struct cay_copy_stats *out_stats, struct cay_error *err);

/* --- for the importers --- */

/* Directories every root has, so that a sandbox's mounts find their places without writing. */
[[nodiscard]] bool cay_base_complete(int root_fd, struct cay_error *err);
/* Everything of the host base but /usr. */
[[nodiscard]] bool cay_base_skeleton(int host_fd, int root_fd, struct cay_error *err);
/* Of the host: its directories at the top besides /usr, which are links into that on most. */
#define CAY_BASE_HOST_TOP "bin", "sbin", "lib", "lib32", "lib64", "libx32"
/* As cay_base_host_cost, of a draft's root. */
[[nodiscard]] bool cay_base_host_cost_in(int host_fd, int root_fd, struct cay_copy_stats *out_stats,
                                         struct cay_error *err);
/* Digest of a tree's content, "sha256:…". */
[[nodiscard]] bool cay_base_digest(int root_fd, const struct cay_base_options *options,
                                   char out_digest[static CAY_BASE_DIGEST_SIZE],
                                   struct cay_error *err);

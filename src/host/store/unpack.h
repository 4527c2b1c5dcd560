/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writing entries of an archive into a tree, by descriptor: each name is taken apart, its parent
 * opened inside the root, and the last part made there without following anything. A later entry
 * replaces an earlier one, never what that one points to. Devices are left out, amounts bounded.
 *
 * Order: fill in the first part -> (entry | remove | clear)* -> times -> finish.
 */

#include <limits.h>

#include "host/store/archive_in.h"
#include "host/store/copy.h"

/* Asked before anything is added to the disk: whole blocks and attributes count, and what is
 * replaced is not given back. False: there is no room for it. */
typedef bool cay_unpack_take_fn(void *ctx, uint64_t bytes, uint64_t entries);

struct cay_unpack {
    int root_fd;
    uint32_t id_base; /* added to owners: of a root that is mounted for a session */
    bool is_plain;    /* a link in the way of a name is refused; else it stays in the root */
    bool replaces;    /* also directories make way for what comes later */
    /* In the name of the user that this thread sees files as: what is made is that user's, without
     * set-uid bits and attributes but the user's own; directories that are there stay as they are;
     * no link is followed and no mount entered or taken away. */
    bool is_guest;
    uint64_t entries_max; /* 0: no bound */
    uint64_t bytes_max;
    cay_unpack_take_fn *take; /* NULL: there is room for all */
    void *take_ctx;
    cay_copy_progress_fn *progress; /* may be NULL */
    void *progress_ctx;
    struct cay_copy_stats stats;

    /* The rest is its own. */
    struct cay_unpack_dir *dirs;
    size_t dirs_count, dirs_cap;
    char name[NAME_MAX + 1]; /* the last part of the entry at hand */
    struct cay_error *err;
};

/* The entry just read from `in`, at a clean path; the empty one is the root itself.
 * INVALID_ARGUMENT, RESOURCE_EXHAUSTED, QUOTA_EXCEEDED, CANCELED, STORE_FAILED, NO_SPACE. */
[[nodiscard]] bool cay_unpack_entry(struct cay_unpack *unpack, struct cay_archive_in *in,
                                    struct archive_entry *entry, const char *path,
                                    struct cay_error *err);
/* The same for a hard link whose clean target is given apart. */
[[nodiscard]] bool cay_unpack_link(struct cay_unpack *unpack, const char *path, const char *target,
                                   struct cay_error *err);

/* Takes away a path with all below it, or all below it. What is not there is gone. */
[[nodiscard]] bool cay_unpack_remove(struct cay_unpack *unpack, const char *path,
                                     struct cay_error *err);
[[nodiscard]] bool cay_unpack_clear(struct cay_unpack *unpack, const char *path,
                                    struct cay_error *err);

/* Times of directories are set last: filling them changes them. */
void cay_unpack_times(struct cay_unpack *unpack);
void cay_unpack_finish(struct cay_unpack *unpack);

/* An entry with this attribute stands for a socket, which tar cannot hold. */
#define CAY_UNPACK_SOCKET_MARK "user.cay.socket"

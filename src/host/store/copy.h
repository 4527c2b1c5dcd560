/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Copies a tree: content with its holes, modes, owners, times, extended attributes, hard links,
 * fifos and sockets. Three users with three rules:
 *
 *   LAYER   the upper layer of an overlay while its processes are frozen: whiteouts and the marks
 *           for opaque and redirected directories are kept, those that name inodes are dropped.
 *   IMPORT  a directory somebody hands in: devices are left out, only harmless attributes are kept.
 *   LINK    as IMPORT, and files are hard-linked where that is possible; only what everybody on the
 *           host may read is taken, because the sandbox's root may read all of its base.
 *
 * With an index of the previous copy, LAYER hard-links the files that have not changed since.
 */

#include <sys/stat.h>

#include "base/error.h"

struct cay_copy_index;

enum cay_copy_rule {
    CAY_COPY_LAYER = 1,
    CAY_COPY_IMPORT,
    CAY_COPY_LINK,
};

/* Asked now and then; false cancels the copy. */
typedef bool cay_copy_progress_fn(void *ctx, uint64_t entries, uint64_t bytes);

struct cay_copy_request {
    enum cay_copy_rule rule;
    int from_fd;
    int to_fd;            /* an empty directory; gets the metadata of from_fd too */
    bool public_only;     /* leave out what not everybody may read; LINK always does */
    uint64_t entries_max; /* 0: no bound */
    uint64_t bytes_max;
    cay_copy_progress_fn *progress;
    void *progress_ctx;
    /* LAYER only: the previous copy and what was written down of it, or -1 and NULL. */
    int previous_fd;
    const struct cay_copy_index *previous;
    struct cay_copy_index *index; /* filled when not NULL */
};

struct cay_copy_stats {
    uint64_t entries;
    uint64_t bytes;   /* of content, copied or linked */
    uint64_t linked;  /* files hard-linked instead of copied */
    uint64_t skipped; /* devices, unreadable files */
    uint64_t foreign; /* owners or groups that became nobody */
};

/* Ends with CANCELED when nobody wants it any more (base/stop.h). */
[[nodiscard]] bool cay_copy_tree(const struct cay_copy_request *request,
                                 struct cay_copy_stats *out_stats, struct cay_error *err);

/* Adds what such a copy would take of the disk, when nothing can be linked: entries and bytes; with
 * `is_cloned`, large files share their data. -errno, -ECANCELED. */
[[nodiscard]] int cay_copy_measure(const struct cay_copy_request *request, bool is_cloned,
                                   struct cay_copy_stats *in_out_stats);
/* Whether files in the directory can share data with that one, which is not empty. */
[[nodiscard]] bool cay_copy_clones(int from_fd, int dir_fd);

/* --- one entry, for the walk and for other importers --- */

/* One read and one write of so much beat everything else: it is not shared, but copied. */
enum { CAY_COPY_SMALL_BYTES = 64 * 1024 };

/* Content of a regular file, holes kept, by reflink when the file system can. -errno; -ECANCELED
 * when nobody wants it any more (base/stop.h). */
[[nodiscard]] int cay_copy_data(int from_fd, int to_fd, const struct stat *st);

/* Attributes of what is open, or pinned (sys/pin.h). -errno. */
[[nodiscard]] int cay_copy_xattrs(enum cay_copy_rule rule, int from_fd, int to_fd);
[[nodiscard]] bool cay_copy_keeps_xattr(enum cay_copy_rule rule, const char *name);

/* Whether two entries have the same attributes of those the rule keeps. 1, 0 or -errno. */
[[nodiscard]] int cay_copy_same_xattrs(enum cay_copy_rule rule, int a_fd, int b_fd);

/* The mark of a deleted name in an upper layer. */
static inline bool cay_copy_is_whiteout(const struct stat *st)
{
    return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

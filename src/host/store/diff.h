/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What changed between two points. Only directories in which the two differ are looked into: the
 * cost grows with the change, not with the tree (entries_visited shows it).
 */

#include <sys/stat.h>

#include "host/store/store.h"

enum cay_diff_kind {
    CAY_DIFF_ADDED = 1,
    CAY_DIFF_MODIFIED, /* content of a file, target of a link; of a directory that is too deep */
    CAY_DIFF_DELETED,
    CAY_DIFF_TYPE, /* file, directory, link, fifo, socket, device: one became another */
    CAY_DIFF_META, /* mode, owner or extended attributes only */
};

struct cay_diff_side {
    struct stat st; /* of a side that has the path */
    int dir_fd;     /* where the entry is, for reading it; -1 when the side has not the path */
    const char *name;
};

/* Valid during the callback only. Paths have no leading slash and may hold any byte but NUL. */
struct cay_diff_entry {
    enum cay_diff_kind kind;
    const char *path;
    const char *renamed_from; /* a hint: the path this directory had; else NULL */
    bool is_too_deep;         /* a directory of which nothing below it is told */
    struct cay_diff_side before;
    struct cay_diff_side after;
};
typedef bool cay_diff_fn(void *ctx, const struct cay_diff_entry *entry);

struct cay_diff_request {
    struct cay_store_ref from;
    struct cay_store_ref to;
    bool expand_deleted; /* else a deleted directory is one entry */
    cay_diff_fn *visit;  /* in the order of paths, bytewise by component; false stops */
    /* For what was compared and is the same, but for directories. May be NULL. */
    void (*same)(void *ctx, const struct stat *after);
    void *ctx;
};

struct cay_diff_stats {
    uint64_t entries_visited; /* names looked at */
    uint64_t bytes_compared;
    uint64_t changes;
};

/* A session that is a side should be frozen or quiet: else files that change meanwhile may be
 * reported in either state. */
[[nodiscard]] bool cay_store_diff(struct cay_store *store, const struct cay_diff_request *request,
                                  struct cay_diff_stats *out_stats, struct cay_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Everything that must be done to one tree to make it another, as a list: what to take away, what
 * to write anew, and which names to link. Applied in this order (deletions, contents, links) to the
 * first tree, it gives the second.
 */

#include "host/store/links.h"
#include "host/store/store.h"

struct cay_change {
    char *path;
    bool is_deleted; /* take away first what is there */
    bool is_written; /* then write it */
    char *link;      /* or link it to this path; else NULL */
};

struct cay_changes {
    struct cay_change *items;
    size_t count, cap;
    struct cay_map by_path; /* index + 1 */
    /* What lies too deep, or has too long a path: not in the list. */
    uint64_t left_out;
    char *left_out_first; /* NULL: none, or nobody noted it */
    char *left_out_last;
};

void cay_changes_init(struct cay_changes *changes);
void cay_changes_finish(struct cay_changes *changes);

/* From one point to another. The links of the first must be known; those of the other are found,
 * by its view `to_fd`. The whole of it is looked through only when files with several names are
 * among what was touched. */
[[nodiscard]] bool cay_changes_find(struct cay_changes *changes, struct cay_store *store,
                                    const struct cay_store_ref *from,
                                    const struct cay_store_ref *to, int to_fd,
                                    const struct cay_links *before, struct cay_links *out_after,
                                    struct cay_error *err);

/* All of a tree; `links` is filled on the way. */
[[nodiscard]] bool cay_changes_all(struct cay_changes *changes, int root_fd,
                                   struct cay_links *links, struct cay_error *err);

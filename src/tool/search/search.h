/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Searching one file after the other for lines that match. One searcher per thread: it owns the
 * block that files are read into and the text of what it found. Files are read, not mapped: one
 * that shrinks meanwhile must not kill the daemon.
 */

#include "base/buf.h"
#include "tool/search/pattern.h"

enum {
    CAY_SEARCH_BLOCK_BYTES = 1024 * 1024, /* a longer line is taken as several */
    CAY_SEARCH_LINE_CHARACTERS = 500,
    CAY_SEARCH_TEXT_BYTES_MAX = 64 * 1024 * 1024, /* of found lines that one searcher holds */
};

/* One matching line, with the context that stands before it and, for the last of a file, behind. */
struct cay_search_hit {
    size_t file; /* its place in the order of the walk */
    size_t text_at;
    size_t text_len; /* in searcher->text */
};

struct cay_searcher {
    struct cay_matcher matcher;
    unsigned context_lines;
    char *block;
    struct cay_buf text;
    struct cay_search_hit *hits;
    size_t hit_count, hit_cap;
    int64_t files;   /* searched */
    int64_t matches; /* matching lines, shown or not */
    int64_t cut_lines;
    int64_t binary; /* files left out */
    int64_t unreadable;
    int64_t deadline_ms;
    bool late;
    bool failed; /* there was no memory: what was found is not whole */
};

/* False when there is no memory; finish is called all the same. */
[[nodiscard]] bool cay_searcher_init(struct cay_searcher *searcher,
                                     const struct cay_pattern *pattern, unsigned context_lines,
                                     int64_t deadline_ms);
void cay_searcher_finish(struct cay_searcher *searcher);

/* Searches an open file and keeps up to `shown_max` matching lines as `PATH:LINE: TEXT`. Returns
 * how many lines matched. `size` is what fstat said, `shown_path` is what to write before each. */
int64_t cay_searcher_file(struct cay_searcher *searcher, int fd, int64_t size, size_t file,
                          struct cay_str shown_path, int64_t shown_max);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A walk through everything below a directory, in a fixed order, without following links and
 * without crossing mounts. Directories are read whole, one at a time, and opened by their path from
 * the start (no link in it can be followed), so a walk holds at most one descriptor per level where
 * it was asked for one and none otherwise. What cannot be visited is counted, never an error.
 *
 *     struct cay_walk walk;
 *     cay_walk_init(&walk, dir_fd, &options);
 *     for (struct cay_walk_entry entry; cay_walk_next(&walk, &entry);)
 *         ...
 *     cay_walk_finish(&walk);
 */

#include "base/base.h"
#include "tool/tree/path.h"

enum {
    CAY_WALK_BYTES_MAX = 64 * 1024 * 1024,   /* of names held at one time */
    CAY_WALK_DEPTH_MAX = CAY_PATH_BYTES_MAX, /* the length of paths ends a walk before this */
};

struct cay_walk_options {
    unsigned depth_max; /* levels of entries; 0: as many as paths can have */
    bool hidden;        /* also go into directories whose name begins with a dot */
    /* Siblings by name. Otherwise a directory counts as if its name ended in a slash, which is the
     * order of whole paths. */
    bool by_name;
};

struct cay_walk_entry {
    struct cay_str path; /* from the start, plain bytes with a NUL behind; valid until next */
    struct cay_str name; /* its end */
    unsigned char type;  /* DT_REG, DT_DIR, ... never DT_UNKNOWN */
    unsigned depth;      /* 1: in the start itself */
};

struct cay_walk_frame;

struct cay_walk {
    int start_fd; /* borrowed */
    struct cay_walk_options options;
    struct cay_walk_frame *frames;
    size_t frame_count, frame_cap;
    size_t held_bytes;
    bool descend; /* into the entry given last, a directory */
    struct cay_path path;
    int64_t unreadable; /* directories the user may not read, or that were gone */
    int64_t left_out;   /* directories too deep or too large */
    bool failed;        /* there was no memory, and the walk ended there */
};

void cay_walk_init(struct cay_walk *walk, int start_fd, const struct cay_walk_options *options);
void cay_walk_finish(struct cay_walk *walk);

/* False at the end. A start that cannot be read is counted as unreadable. */
[[nodiscard]] bool cay_walk_next(struct cay_walk *walk, struct cay_walk_entry *out_entry);

/* Do not go into the directory that was given last. */
void cay_walk_skip(struct cay_walk *walk);

/* The directory that holds the entry given last; the walk keeps it. -errno when it is gone. */
[[nodiscard]] int cay_walk_dir_fd(struct cay_walk *walk);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a live upper layer looked like when it was copied: per file the inode, its change time and
 * where its copy is; for the tree as a whole a fingerprint. The next snapshot asks it which files
 * need not be copied again, and whether anything changed at all.
 *
 * A change time is only believed when it is older than the copy by more than the clock's grain: a
 * file written twice within one tick keeps its time. Stores through a shared mapping do not touch
 * the time while their page is dirty, so whoever copies a file starts its write-back, which makes
 * the next store fault and take the time (sync_file_range; checked by a test).
 */

#include <sys/stat.h>

#include "base/base.h"

struct cay_copy_record {
    uint64_t ino;
    int64_t ctime_ns; /* 0: not to be believed */
    uint64_t size;
    uint32_t path_at; /* into paths */
    uint32_t mode;
};

struct cay_copy_index {
    struct cay_copy_record *records; /* sorted by ino once sealed */
    size_t count;
    size_t cap;
    char *paths;
    size_t paths_len;
    size_t paths_cap;
    int64_t taken_ns; /* coarse wall clock when the tree stood still */
    uint64_t fingerprint[2];
    uint64_t entries;
    bool racy; /* some entry was too young: the fingerprint proves nothing */
};

void cay_copy_index_init(struct cay_copy_index *index);
void cay_copy_index_finish(struct cay_copy_index *index);

/* Counts one entry of any type into the fingerprint. */
void cay_copy_index_see(struct cay_copy_index *index, uint64_t parent_ino, const char *name,
                        const struct stat *st);
/* Remembers where a regular file's copy is. */
void cay_copy_index_add(struct cay_copy_index *index, const struct stat *st, const char *path);
void cay_copy_index_seal(struct cay_copy_index *index);

/* The path of an unchanged file's copy, or NULL. */
const char *cay_copy_index_find(const struct cay_copy_index *index, const struct stat *st);
[[nodiscard]] bool cay_copy_index_same(const struct cay_copy_index *a,
                                       const struct cay_copy_index *b);

/* Only stats: fills the fingerprint of a tree. -errno. */
[[nodiscard]] int cay_copy_index_scan(struct cay_copy_index *index, int root_fd);

/* -errno; a file that is not an index is -EBADMSG. */
[[nodiscard]] int cay_copy_index_save(const struct cay_copy_index *index, int dir_fd,
                                      const char *name);
[[nodiscard]] int cay_copy_index_load(struct cay_copy_index *index, int dir_fd, const char *name);

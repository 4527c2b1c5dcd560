/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The names in a directory, read at once, so that no stream stays open while the tree below is
 * walked. Several directories may be read into one list; equal names are kept once by sort.
 *
 * Order: zeroed -> read* -> sort -> names/count -> finish. */

#include "base/error.h"

struct cay_dir_list {
    char *text; /* all names, each with its NUL */
    size_t text_len;
    size_t text_cap;
    size_t *offsets;
    size_t count;
    size_t cap;
    bool has_inodes; /* set before reading: eight bytes before each name are its inode */
};

/* Adds all names but "." and "..". Reads a directory of its own, so the position of fd is not
 * touched and fd may be O_PATH. -errno; -E2BIG past CAY_STORE_DIR_BYTES_MAX. */
[[nodiscard]] int cay_dir_list_read(struct cay_dir_list *list, int dir_fd);
[[nodiscard]] int cay_dir_list_add(struct cay_dir_list *list, const char *name);
void cay_dir_list_sort(struct cay_dir_list *list);
void cay_dir_list_finish(struct cay_dir_list *list);

static inline const char *cay_dir_list_name(const struct cay_dir_list *list, size_t at)
{
    return list->text + list->offsets[at];
}

static inline uint64_t cay_dir_list_ino(const struct cay_dir_list *list, size_t at)
{
    uint64_t ino = 0;
    memcpy(&ino, cay_dir_list_name(list, at) - sizeof(ino), sizeof(ino));
    return ino;
}

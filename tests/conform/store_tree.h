/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Trees for the store tests: how to write into a session as its root, how to write everything down
 * that a snapshot promises to keep, and how to change a tree in all the ways that have gone wrong
 * somewhere.
 */

#include "base/base.h"
#include "base/buf.h"
#include "host/store/store.h"

enum { TREE_ID_BASE = 1000000, TREE_ID_COUNT = 65536 };

static const struct cay_store_owner tree_owner = {TREE_ID_BASE, TREE_ID_COUNT, -1};

/* An empty directory of the test's own below $TMPDIR; and away with it, whatever is in it. */
enum { TREE_DIRECTORY_SIZE = 256 };
void tree_make_directory(char out[static TREE_DIRECTORY_SIZE]);
void tree_remove_directory(const char *directory);

/* Destroys everything in a store and collects it. */
void tree_empty_store(struct cay_store *store);

/* True when the store takes snapshots. One that does not must refuse, with the reason that says so:
 * the case that needed them asserts this and ends. */
bool tree_has_snapshots(struct cay_store *store);

/* Between these two, files made in a mapped tree belong to the sandbox's root. */
void tree_enter(uint32_t uid);
void tree_leave(void);

void tree_write(int root_fd, const char *path, const char *text);
void tree_append(int root_fd, const char *path, const char *text);
char *tree_read(int root_fd, const char *path); /* malloc'd; NULL when absent */
void tree_mkdir(int root_fd, const char *path, mode_t mode);

/* One line per entry: path, type, mode, owner, size, times, attributes, names of the same file,
 * content. Owners are given as inside when the tree is mapped. The result is malloc'd. */
char *tree_dump(int root_fd, uint32_t id_base);

/* A base with a bit of everything (natural owners). */
void tree_fill_base(int root_fd);

/* Changes it, as the sandbox's root, in step `step` of TREE_STEPS. id_base as in the mount. */
enum { TREE_STEPS = 6 };
void tree_change(int root_fd, int step, uint32_t id_base);

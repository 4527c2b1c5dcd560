/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The verbs of FileService on one tree. All block and belong on a worker; each enters the tree with
 * the user's rights and leaves it. Paths are text as in the API. Answers are in the arena. Reasons:
 * FILE_NOT_FOUND, FILE_EXISTS, NOT_A_DIRECTORY, IS_A_DIRECTORY, NOT_A_REGULAR_FILE, ACCESS_DENIED,
 * INVALID_PATH, NO_SPACE, QUOTA_EXCEEDED, NOT_SUPPORTED (another file system),
 * FAILED_PRECONDITION (not empty, busy, changed meanwhile), RESOURCE_EXHAUSTED.
 */

#include "api/cay_v1.h"
#include "base/arena.h"
#include "base/error.h"
#include "tool/tree/tree.h"
#include "tool/tree/write.h"

enum {
    CAY_FILES_DEPTH_MAX = 64,
    CAY_FILES_PAGE_MAX = 10000,
    CAY_FILES_PAGE_DEFAULT = 1000,
    CAY_FILES_REMOVE_BYTES_MAX = 64 * 1024 * 1024, /* of names of directories on the way down */
};

[[nodiscard]] bool cay_files_stat(const struct cay_tool_tree *tree, struct cay_str path,
                                  bool follow, struct cay_arena *arena,
                                  struct cay_v1_file_info *out_info, struct cay_error *err);

/* Uses the request's path, depth, page_size and page_token. */
[[nodiscard]] bool cay_files_list(const struct cay_tool_tree *tree,
                                  const struct cay_v1_list_dir_request *request,
                                  struct cay_arena *arena,
                                  struct cay_v1_list_dir_response *out_response,
                                  struct cay_error *err);

/* Uses the request's path, mode, create_parents and exist_ok. */
[[nodiscard]] bool cay_files_make_symlink(const struct cay_tool_tree *tree,
                                          const struct cay_v1_make_symlink_request *request,
                                          struct cay_arena *arena,
                                          struct cay_v1_make_symlink_response *out_response,
                                          struct cay_error *err);

[[nodiscard]] bool cay_files_make_dir(const struct cay_tool_tree *tree,
                                      const struct cay_v1_make_dir_request *request,
                                      struct cay_arena *arena,
                                      struct cay_v1_make_dir_response *out_response,
                                      struct cay_error *err);

/* Uses the request's source, destination, create_parents and no_replace. */
[[nodiscard]] bool cay_files_move(const struct cay_tool_tree *tree,
                                  const struct cay_v1_move_file_request *request,
                                  struct cay_arena *arena,
                                  struct cay_v1_move_file_response *out_response,
                                  struct cay_error *err);

/* Counts what is gone also when it fails on the way. */
[[nodiscard]] bool cay_files_remove(const struct cay_tool_tree *tree, struct cay_str path,
                                    bool recursive, bool missing_ok, int64_t *out_removed,
                                    struct cay_error *err);

/* A regular file to read from; the descriptor is the caller's. `info` may be NULL. */
[[nodiscard]] bool cay_files_open(const struct cay_tool_tree *tree, struct cay_str path,
                                  struct cay_arena *arena, struct cay_v1_file_info *out_info,
                                  int *out_fd, struct cay_error *err);

/* Streamed writing (tool/write.h) by calls that each may come from another thread. Data needs no
 * identity: cay_write_data does. */
[[nodiscard]] bool cay_files_write_open(const struct cay_tool_tree *tree, struct cay_str path,
                                        const struct cay_write_options *options,
                                        struct cay_write *out_write, struct cay_error *err);

/* Done either way. `path` is as given at open. */
[[nodiscard]] bool cay_files_write_commit(const struct cay_tool_tree *tree, struct cay_str path,
                                          struct cay_write *write, struct cay_arena *arena,
                                          struct cay_v1_write_file_response *out_response,
                                          struct cay_error *err);
void cay_files_write_abort(const struct cay_tool_tree *tree, struct cay_write *write);

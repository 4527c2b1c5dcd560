/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Copying between this machine and a session. Remote paths are text as in the API (cay_names.h),
 * local ones are bytes. What one entry of a tree cannot give does not end the copy: it is warned of
 * and counted.
 */

#include "cli/command.h"
#include "cli/progress.h"

struct cay_v1_file_info;

struct cay_cp {
    struct cay_cli *cli;
    struct cay_client *client;
    struct cay_str session_id;
    struct cay_str user;
    struct cay_str snapshot; /* empty: the live files */
    struct cay_progress progress;
    int64_t directories;
    int64_t links;
    int64_t skipped; /* of a kind that cannot be copied */
    int64_t failed;
};

enum {
    CAY_CP_PIECE_BYTES = 256 * 1024,
    CAY_CP_DEPTH_MAX = 200, /* directories inside each other: one descriptor each */
};

/* From here to there. */
[[nodiscard]] bool cay_cp_upload(struct cay_cp *cp, const char *local, const char *remote,
                                 struct cay_error *err);
[[nodiscard]] bool cay_cp_download(struct cay_cp *cp, const char *remote, const char *local,
                                   struct cay_error *err);

/* "cay: skipped PATH: WHY", below or beside the progress line. */
void cay_cp_warn(struct cay_cp *cp, const char *path, const char *why);

/* Is it an error of this one entry, so that the rest can go on? Then it is warned of. */
[[nodiscard]] bool cay_cp_forgive(struct cay_cp *cp, const char *path, const struct cay_error *err);

/* What is at the remote path, links followed; NULL when nothing is. */
[[nodiscard]] bool cay_cp_stat(struct cay_cp *cp, struct cay_str path,
                               const struct cay_v1_file_info **out_info, struct cay_error *err);

/* The text of `path`, or of `directory`/`name` as bytes; NULL when the arena is full. */
[[nodiscard]] const char *cay_cp_encode(struct cay_arena *arena, const char *path);
[[nodiscard]] const char *cay_cp_join(struct cay_arena *arena, const char *directory,
                                      const char *name);

/* SESSION:PATH, or SESSION@SNAPSHOT:PATH: its path; NULL for what is none. There is no '/' before
 * the colon: ./a:b is a local file. */
[[nodiscard]] const char *cay_cp_place(const char *word, struct cay_str *out_session,
                                       struct cay_str *out_snapshot);

/* The last name of a path: "b" of "a/b/". Empty for "/", ".", ".." and what ends in "/.": then the
 * content is meant. */
[[nodiscard]] struct cay_str cay_cp_last_name(const char *path);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Archives that clients hand in for COPY steps of builds to come. Each is a file without a name:
 * the end of the daemon, however it comes, is the end of them. One that nobody asked for or used
 * for a quarter of an hour goes; so does the one least recently used when an owner has too many.
 * Builds hold what they use. All of it on the loop thread.
 */

#include "api/call.h"
#include "base/id.h"
#include "base/list.h"
#include "host/owner/passing.h"
#include "io/loop.h"

enum {
    CAY_BUILD_FILES_OF_OWNER = 64,
    CAY_BUILD_FILES_IN_ALL = 512, /* each holds a descriptor */
    CAY_BUILD_FILES_AT_ONCE = 64, /* being put */
    CAY_BUILD_KEY_BYTES = 64,
};
#define CAY_BUILD_FILES_BYTES_OF_OWNER ((int64_t)8 << 30)

struct cay_build_file {
    struct cay_list_node in_table; /* in none once it made way */
    char owner[CAY_ID_SIZE];
    char key[CAY_BUILD_KEY_BYTES + 1];
    struct cay_passing passing;
    int64_t bytes;
    uint64_t used_ms;
    unsigned refs; /* the table's, and those of builds */
};

struct cay_build_files {
    struct cay_loop *loop;
    struct cay_list list; /* the least recently used first */
    struct cay_timer timer;
    size_t putting; /* that are on their way here */
};

[[nodiscard]] struct cay_build_files *cay_build_files_create(struct cay_loop *loop);
void cay_build_files_destroy(struct cay_build_files *files);

/* Takes what was kept over. One of the same owner and key makes way. */
void cay_build_files_put(struct cay_build_files *files, const char *owner, struct cay_str key,
                         struct cay_passing *passing, int64_t bytes);
/* The one of an owner's that was used least recently, and by no build now, goes; false: there is
 * none. */
[[nodiscard]] bool cay_build_files_drop_one(struct cay_build_files *files, const char *owner);
/* NULL when there is none; it counts as used. */
const struct cay_build_file *cay_build_files_find(struct cay_build_files *files, const char *owner,
                                                  struct cay_str key);
/* The same, and it stays until it is let go. */
struct cay_build_file *cay_build_files_ref(struct cay_build_files *files, const char *owner,
                                           struct cay_str key);
void cay_build_file_unref(struct cay_build_file *file);

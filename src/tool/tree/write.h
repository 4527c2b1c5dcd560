/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writing a file of the tree. The bytes go to a nameless file beside the target (O_TMPFILE), and
 * commit puts it in place in one step: readers see the old file or the new one, and a daemon that
 * dies before the commit leaves nothing behind. Owner, mode, access list and user attributes of a
 * file that is replaced are kept; set-uid and set-gid are dropped as the kernel does for a write by
 * that user.
 *
 * Replacing in one step makes a new file, so it cannot keep a second name of the old one, nor an
 * owner the user cannot give files to, nor work where the user may write to the file but not to its
 * directory. In these cases the content of the existing file is overwritten at commit (in the last
 * one: already while data comes), without emptying it first; a crash in that moment can leave a
 * mixture, as with any program that writes in place.
 *
 * Nothing is synced unless asked for: an answer survives the daemon, not a power cut.
 *
 * Order: open -> data* -> commit | abort, all inside cay_tree_enter with the same user.
 */

#include "api/cay_v1.h"
#include "base/base.h"
#include "base/error.h"
#include "tool/tree/path.h"
#include "tool/tree/tree.h"

enum {
    CAY_WRITE_METADATA_BYTES_MAX = 4096, /* keys and values together */
    CAY_WRITE_XATTR_BYTES_MAX = 65536,   /* the kernel's own limit for a list and for a value */
};

/* The attributes of a file that are its metadata. Both prefixes have the same length. */
#define CAY_METADATA_PREFIX_OWN   "user.cay."
#define CAY_METADATA_PREFIX_E2B   "user.e2b."
#define CAY_METADATA_PREFIX_BYTES (sizeof(CAY_METADATA_PREFIX_OWN) - 1)

static inline bool cay_is_metadata(const char *name)
{
    return strncmp(name, CAY_METADATA_PREFIX_OWN, CAY_METADATA_PREFIX_BYTES) == 0 ||
           strncmp(name, CAY_METADATA_PREFIX_E2B, CAY_METADATA_PREFIX_BYTES) == 0;
}

struct cay_write_options {
    enum cay_v1_write_mode mode; /* unspecified: replace */
    bool create_parents;
    bool has_permissions;
    uint32_t permissions; /* without has_: 0644 for a new file, unchanged for an old one */
    int64_t offset;       /* with AT_OFFSET */
    int64_t size;         /* bytes that will come; -1: not known */
    bool has_modified_at;
    struct timespec modified_at;
    bool durable;
    bool set_metadata;
    struct cay_pb_pairs metadata;
    bool is_e2b_metadata; /* kept where clients made for E2B look for it */
};

struct cay_write {
    struct cay_write_options options;
    int fd;        /* where data goes */
    int parent_fd; /* O_PATH */
    int64_t at;    /* where the next data goes in fd */
    int64_t received_bytes;
    bool created; /* after commit: the file is new */
    bool direct;  /* fd is the file itself */
    bool is_new;  /* there was no file when it was opened */
    bool by_root; /* the sandbox's */
    char name[CAY_TREE_NAME_BYTES];
    char temporary[CAY_TREE_NAME_BYTES]; /* the name of fd, where nameless files do not exist */
    struct stat old;
};

/* `path` is plain bytes. On failure nothing is left to abort. */
[[nodiscard]] bool cay_write_open(const struct cay_tool_tree *tree, const struct cay_path *path,
                                  const struct cay_write_options *options,
                                  struct cay_write *out_write, struct cay_error *err);
[[nodiscard]] bool cay_write_data(struct cay_write *write, struct cay_str data,
                                  struct cay_error *err);

/* Done either way: a failed commit has been aborted. */
[[nodiscard]] bool cay_write_commit(struct cay_write *write, struct cay_error *err);

/* The target is as it was, except where data went straight into it. Accepts a zeroed struct. */
void cay_write_abort(struct cay_write *write);

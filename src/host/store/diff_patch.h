/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Text patches ("unified diff", as git apply and patch read them). Pure but for reading the two
 * files of an entry. Everything is bounded: a file too large or too different is still described
 * rightly, only not minimally or not in text.
 */

#include "base/buf.h"
#include "host/store/diff.h"

enum {
    CAY_PATCH_FILE_BYTES_MAX = 4 << 20, /* larger files are told of like binary ones */
    CAY_PATCH_LINES_MAX = 200'000,
    CAY_PATCH_EDITS_MAX = 1500, /* the search for a shortest script gives up here */
    CAY_PATCH_CONTEXT = 3,      /* unchanged lines around a change, unless somebody says */
    CAY_PATCH_CONTEXT_MAX = 100,
    CAY_PATCH_BINARY_PROBE_BYTES = 8000,
};

/* True when a NUL is among the first bytes. */
[[nodiscard]] bool cay_patch_is_binary(struct cay_str text);

/* The hunks that turn one text into the other, each with `context` unchanged lines around it;
 * nothing when they are equal. False when a text has too many lines. The buffer's ceiling is the
 * caller's; look at out->failed. */
[[nodiscard]] bool cay_patch_hunks(struct cay_str before, struct cay_str after, size_t context,
                                   struct cay_buf *out);

/* The patch of one entry of a diff, with its header. Directories, fifos and sockets have none.
 * Reasons: STORE_FAILED. */
[[nodiscard]] bool cay_diff_patch(const struct cay_diff_entry *entry, size_t context,
                                  struct cay_buf *out, struct cay_error *err);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Paths: bytes on disk, text in the API. A byte 0xNN that is not part of valid UTF-8 travels as the
 * character U+EFNN, and so does each byte of the characters U+EF80 to U+EFFF themselves; every name
 * has exactly one text and comes back as the same bytes.
 */

#include "base/arena.h"
#include "base/base.h"
#include "base/buf.h"
#include "base/error.h"

struct cay_tool_tree;

enum { CAY_PATH_BYTES_MAX = 4096 }; /* with its NUL, as in the kernel */

/* Plain bytes with a NUL behind them. */
struct cay_path {
    size_t len;
    char bytes[CAY_PATH_BYTES_MAX];
};

/* The path that a client wrote, as plain bytes: absolute, `.` and double slashes left out, `..`
 * kept (what it means depends on links). Relative ones begin at the tree's cwd, `~` is the user's
 * home. INVALID_PATH for an empty one, one with a NUL and one that is too long. Reads
 * /etc/passwd for `~`, so enter the tree first. */
[[nodiscard]] bool cay_path_resolve(const struct cay_tool_tree *tree, struct cay_str text,
                                    struct cay_path *out_path, struct cay_error *err);

/* From text to plain bytes, nothing else. */
[[nodiscard]] bool cay_path_decode(struct cay_str text, struct cay_path *out_path,
                                   struct cay_error *err);

/* From plain bytes to text. */
[[nodiscard]] size_t cay_path_encoded_len(struct cay_str bytes);
void cay_path_encode(struct cay_str bytes, char *out);

/* The same in an arena; ptr is NULL when it is full. */
[[nodiscard]] struct cay_str cay_path_text(struct cay_arena *arena, struct cay_str bytes);

/* For texts that are read line by line: control characters are written as \n, \t or \xNN. */
void cay_path_append_shown(struct cay_buf *buf, struct cay_str bytes);

/* For error texts: printable, and cut in the middle when it does not fit. */
void cay_path_excerpt(struct cay_str bytes, char *out, size_t size);

/* Takes off the last name: what stands after the last slash. */
[[nodiscard]] struct cay_str cay_path_name(struct cay_str path);

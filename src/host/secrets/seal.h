/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The key of this host under which secrets are kept, and how they are sealed with it: AES-256-GCM.
 * The key is in a file of its own, never in the database.
 */

#include "base/buf.h"
#include "base/error.h"
#include "base/secret.h"

enum {
    CAY_SEAL_KEY_BYTES = 32,
    CAY_SEAL_EXTRA_BYTES = 1 + 12 + 16, /* version, nonce and tag, around what is sealed */
};

struct cay_seal {
    char *path; /* owned; relative ones from dir_fd */
    int dir_fd; /* somebody else's */
    bool has_key;
    unsigned char key[CAY_SEAL_KEY_BYTES];
};

/* Reads the key if it is there. A file that others can read is refused. `path` NULL or empty: its
 * usual name in the directory. */
[[nodiscard]] bool cay_seal_open(struct cay_seal *seal, int dir_fd, const char *path,
                                 struct cay_error *err);
void cay_seal_finish(struct cay_seal *seal);

/* Makes the key if there is none. Blocks for a moment, once in the life of a host. */
[[nodiscard]] bool cay_seal_need(struct cay_seal *seal, struct cay_error *err);

/* `about` is what the value belongs to: it opens with the same only. */
[[nodiscard]] bool cay_seal_wrap(const struct cay_seal *seal, struct cay_str about,
                                 struct cay_str value, struct cay_buf *out, struct cay_error *err);
/* Reason: DATA_LOSS: without the key, by another one, or damaged. */
[[nodiscard]] bool cay_seal_unwrap(const struct cay_seal *seal, struct cay_str about,
                                   struct cay_str sealed, struct cay_secret *out_value,
                                   struct cay_error *err);

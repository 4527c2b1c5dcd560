/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bytes that must not end up anywhere by accident: API keys, tokens, passwords. A struct cannot be
 * passed to %s, the log prints *** for it, and its memory is overwritten before it is freed. To
 * read it, ask for the view, which a reviewer can search for.
 *
 * Order: init -> set* -> view -> finish. A zeroed struct is valid and empty.
 */

#include "base/base.h"

struct cay_secret {
    char *bytes; /* owned; NUL-terminated for libraries that want that */
    size_t len;
};

void cay_secret_init(struct cay_secret *secret);
void cay_secret_finish(struct cay_secret *secret);

/* Copies; the former bytes are wiped. The caller wipes its own copy. */
void cay_secret_set(struct cay_secret *secret, struct cay_str bytes);

/* The same where memory may run out: false then, and nothing has changed. */
[[nodiscard]] bool cay_secret_try_set(struct cay_secret *secret, struct cay_str bytes);

/* Borrowed until the next set or finish. */
[[nodiscard]] struct cay_str cay_secret_view(const struct cay_secret *secret);

/* The time taken depends on the lengths only. An empty secret equals nothing. */
[[nodiscard]] bool cay_secret_equal(const struct cay_secret *secret, struct cay_str other);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tokens of sessions: credentials that open one session and nothing else. They are not stored but
 * derived, from a secret of this host and from what no two sessions share; so they stay the same
 * for the life of a session, over restarts too, and are worth nothing to the next session of that
 * name.
 */

#include "base/error.h"

enum {
    CAY_TOKEN_SECRET_BYTES = 32,
    CAY_TOKEN_SIZE = sizeof("cst__") + 128 + 40, /* prefix, session, digits and NUL */
    CAY_PLACEHOLDER_SIZE = sizeof("cay-secret-") + 32,
};

enum cay_token_kind {
    CAY_TOKEN_ACCESS = 1, /* calls on the session */
    CAY_TOKEN_TRAFFIC,    /* requests to its private ports */
};

struct cay_tokens {
    unsigned char secret[CAY_TOKEN_SECRET_BYTES];
};

/* Reads the secret from the data directory, or makes it. */
[[nodiscard]] bool cay_tokens_init(struct cay_tokens *tokens, int data_fd, struct cay_error *err);
void cay_tokens_finish(struct cay_tokens *tokens);

/* `born_ns` tells sessions apart that have had the same name. */
void cay_token_make(const struct cay_tokens *tokens, enum cay_token_kind kind,
                    const char *session_id, int64_t born_ns, char out[CAY_TOKEN_SIZE]);

/* What stands in a session's environment for a secret that it uses: worth nothing anywhere, and
 * another for each session and variable. */
void cay_token_placeholder(const struct cay_tokens *tokens, const char *session_id, int64_t born_ns,
                           struct cay_str variable, char out[CAY_PLACEHOLDER_SIZE]);

/* The session that an access token says it is of; empty when it is no such token. To be believed
 * only after cay_token_is. */
[[nodiscard]] struct cay_str cay_token_session(struct cay_str token);
/* In a time that does not depend on where they differ. */
[[nodiscard]] bool cay_token_is(const struct cay_tokens *tokens, enum cay_token_kind kind,
                                const char *session_id, int64_t born_ns, struct cay_str token);

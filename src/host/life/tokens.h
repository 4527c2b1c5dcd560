/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sessions and the tokens that open one of them: see host/keys/tokens.h. */

#include "api/call.h"
#include "api/cay_v1.h"
#include "api/service.h"
#include "base/id.h"

struct cay_host;
struct cay_session;

/* Since when the tokens are those that they are: it goes into them. */
[[nodiscard]] int64_t cay_session_tokens_born_ns(const struct cay_session *session);

/* Both, as clients see them. NULL when the arena is full. */
[[nodiscard]] struct cay_v1_session_tokens *cay_session_tokens(const struct cay_session *session,
                                                               struct cay_arena *arena);

/* Who holds this key or this token of a session? UNAUTHENTICATED when nobody does. */
[[nodiscard]] bool cay_host_authenticate(struct cay_host *host, struct cay_str secret,
                                         struct cay_caller *out_caller, struct cay_error *err);

/* Its access token, which is made once. */
[[nodiscard]] const char *cay_session_access_token(struct cay_session *session);

extern const struct cay_session_part cay_tokens_part; /* who calls by them */

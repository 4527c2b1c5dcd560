/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Sessions and the tokens that open one of them: see host/keys/tokens.h. */

#include "api/call.h"
#include "api/cay_v1.h"
#include "api/service.h"
#include "base/id.h"

struct cay_host;
struct cay_session;

/* Both, as clients see them. NULL when the arena is full. */
[[nodiscard]] struct cay_v1_session_tokens *cay_session_tokens(const struct cay_session *session,
                                                               struct cay_arena *arena);

/* The caller who holds this access token; false when it is nobody's. */
[[nodiscard]] bool cay_session_token_caller(struct cay_host *host, struct cay_str token,
                                            struct cay_caller *out_caller);

/* See api/service.h. */
[[nodiscard]] bool cay_session_find_token(struct cay_service *service,
                                          bool (*is_it)(void *context, struct cay_str token),
                                          void *context, char out_session_id[CAY_ID_SIZE]);

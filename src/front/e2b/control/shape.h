/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How sessions look to clients of the control plane. */

#include "front/e2b/sandbox.h"
#include "front/e2b/visit.h"

/* What envd a client may count on: it switches features by this. */
#define CAY_E2B_ENVD_VERSION "0.6.13"

/* One of a list; and everything there is to know of one. */
void cay_e2b_write_listed(struct cay_json_writer *json, const struct cay_e2b *door,
                          const struct cay_v1_session *session);
void cay_e2b_write_detail(struct cay_json_writer *json, const struct cay_e2b *door,
                          const struct cay_v1_session *session,
                          const struct cay_v1_session_tokens *tokens);

/* The answer to create, connect and fork: what a client needs to talk to it. */
void cay_e2b_write_sandbox(struct cay_json_writer *json, const struct cay_e2b *door,
                           const struct cay_v1_session *session,
                           const struct cay_v1_session_tokens *tokens);
/* That as a whole answer. */
void cay_e2b_reply_sandbox_made(struct cay_rest_request *request, int status,
                                const struct cay_v1_session *session,
                                const struct cay_v1_session_tokens *tokens);

/* "key": "2026-01-02T03:04:05.123Z"; not rounded up, so that it can be asked for again. */
void cay_e2b_write_time(struct cay_json_writer *json, const char *key, int64_t wall_ns);

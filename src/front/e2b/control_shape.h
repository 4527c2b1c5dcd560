/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How sessions look to clients of the control plane. */

#include "front/e2b/visit.h"

/* What envd a client may count on: it switches features by this. */
#define CAY_E2B_ENVD_VERSION "0.6.13"

/* A snapshot is a session that nobody takes for a sandbox: it has CAY_LABEL_HIDDEN with this
 * value, and labels of ours that clients neither see nor set. */
#define CAY_E2B_SNAPSHOT     "e2b-snapshot"
#define CAY_E2B_LABEL        "cay.e2b/"
#define CAY_E2B_LABEL_SOURCE CAY_E2B_LABEL "source" /* the sandbox it was taken of */
#define CAY_E2B_LABEL_NAME   CAY_E2B_LABEL "name"   /* as its maker called it; may be empty */

/* The value of a label; an empty string with a NULL ptr when it is absent. */
[[nodiscard]] struct cay_str cay_e2b_label(const struct cay_v1_session *session, const char *key);

/* A label that is not a client's business. */
[[nodiscard]] bool cay_e2b_is_own_label(struct cay_str key);

/* Would clients of this wire take it for a sandbox? Its id fits into a host name, and it is not a
 * snapshot. */
[[nodiscard]] bool cay_e2b_is_sandbox(const struct cay_v1_session *session);

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

/* Cores and memory, for shapes and metrics: limits, or the machine's where there are none. */
[[nodiscard]] int64_t cay_e2b_cpu_count(const struct cay_v1_session *session);
[[nodiscard]] int64_t cay_e2b_memory_bytes(const struct cay_v1_session *session);

/* "key": "2026-01-02T03:04:05.123Z"; not rounded up, so that it can be asked for again. */
void cay_e2b_write_time(struct cay_json_writer *json, const char *key, int64_t wall_ns);

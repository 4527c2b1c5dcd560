/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a session is to clients of this wire. */

#include "api/cay_v1.h"

/* A snapshot is a session that nobody takes for a sandbox: it has CAY_LABEL_HIDDEN with this
 * value, and labels of ours that clients neither see nor set. */
#define CAY_E2B_SNAPSHOT      "e2b-snapshot"
#define CAY_E2B_LABEL         "cay.e2b/"
#define CAY_E2B_LABEL_RUNTIME "cay.runtime"          /* the client's: what is to isolate it */
#define CAY_E2B_LABEL_SOURCE  CAY_E2B_LABEL "source" /* the sandbox it was taken of */
#define CAY_E2B_LABEL_NAME    CAY_E2B_LABEL "name"   /* as its maker called it; may be empty */

/* The value of a label; an empty string with a NULL ptr when it is absent. */
[[nodiscard]] struct cay_str cay_e2b_label(const struct cay_v1_session *session, const char *key);

/* A label that is not a client's business. */
[[nodiscard]] bool cay_e2b_is_own_label(struct cay_str key);

/* Would clients of this wire take it for a sandbox? Its id fits into a host name, and it is not a
 * snapshot. */
[[nodiscard]] bool cay_e2b_is_sandbox(const struct cay_v1_session *session);

/* Cores and memory, for shapes and metrics: limits, or the machine's where there are none. */
[[nodiscard]] int64_t cay_e2b_cpu_count(const struct cay_v1_session *session);
[[nodiscard]] int64_t cay_e2b_memory_bytes(const struct cay_v1_session *session);

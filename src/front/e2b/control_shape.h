/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How sessions look to clients of the control plane. */

#include "front/e2b/request.h"

/* What envd a client may count on: it switches features by this. */
#define CAY_E2B_ENVD_VERSION "0.6.13"

/* The answer to create, connect and fork: what a client needs to talk to it. */
void cay_e2b_write_sandbox(struct cay_json_writer *json, const struct cay_e2b_door *door,
                           const struct cay_v1_session *session,
                           const struct cay_v1_session_tokens *tokens);

/* The template a session was made from, as its creator named it. */
[[nodiscard]] struct cay_str cay_e2b_template_of(const struct cay_v1_session *session);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the helper of a session's filtered network puts into requests. It is asked for whenever a
 * helper is told: at its start, after a restart of the daemon, and by cay_network_serve when
 * something has changed. */

#include "host/session/session.h"
#include "wire/egress/secrets.h"

/* On the loop thread. Copies (cay_egress_secrets_add); the caller finishes them. */
void cay_network_secrets_list(const struct cay_session *session,
                              struct cay_egress_secrets *out_secrets);
/* The helper has put the value of this placeholder into a request. */
void cay_network_secret_used(const struct cay_session *session, struct cay_str placeholder);
/* Would there be any? */
[[nodiscard]] bool cay_network_has_secrets(const struct cay_session *session);

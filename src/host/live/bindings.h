/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Secrets that a session uses: which variable of its environment stands for which secret of its
 * owner, at which host and in which header. Part of its record; the values are in the vault
 * (host/secrets) and go from there to the helper of its network only.
 */

#include "host/session/session.h"

enum { CAY_BINDING_PORT = 443 };

/* What a session with this network comes to have, that has `now` and asks for more, or less:
 * written in one way, in the order in which they came. Reasons: INVALID_ARGUMENT,
 * FAILED_PRECONDITION: the network is not filtered. */
[[nodiscard]] bool
cay_bindings_choose(const struct cay_v1_secret_binding_array *now,
                    const struct cay_v1_secret_binding_array *set, struct cay_pb_strs remove,
                    const struct cay_v1_network_policy *network, struct cay_arena *arena,
                    struct cay_v1_secret_binding_array *out_bindings, struct cay_error *err);

/* "api.openai.com:443": a rule of its network, as `allow` has them. */
[[nodiscard]] struct cay_str cay_binding_rule(const struct cay_v1_secret_binding *binding,
                                              struct cay_arena *arena);

void cay_binding_placeholder(const struct cay_session *session,
                             const struct cay_v1_secret_binding *binding,
                             char out[CAY_PLACEHOLDER_SIZE]);

/* Variables of every command of the session: the placeholders, and where programs find the
 * certificates that they are to trust. False without memory. */
[[nodiscard]] bool cay_bindings_env(const struct cay_session *session, struct cay_arena *arena,
                                    struct cay_pb_pairs *out_env);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* From a session's policy, and what the host's configuration adds to it, to rules that can be
 * asked (egress/rules). */

#include "egress/rules/rules.h"
#include "host/session/session.h"

/* The rules of a filtered network; cay_policy_destroy. Reasons: those of cay_policy_create. */
[[nodiscard]] bool cay_network_rules_make(const struct cay_host *host,
                                          const struct cay_v1_network_policy *policy,
                                          struct cay_policy **out_rules, struct cay_error *err);
/* What secrets allow: the names that they are bound to, but those of which the policy allows some
 * requests only. In the arena. */
[[nodiscard]] bool cay_network_secret_rules(const struct cay_host *host,
                                            const struct cay_v1_network_policy *policy,
                                            const struct cay_v1_secret_binding_array *secrets,
                                            struct cay_arena *arena, struct cay_pb_strs *out_rules,
                                            struct cay_error *err);
/* The same with what the secrets allow that it puts into requests. */
[[nodiscard]] bool cay_network_rules_with(const struct cay_host *host,
                                          const struct cay_v1_network_policy *policy,
                                          const struct cay_v1_secret_binding_array *secrets,
                                          struct cay_policy **out_rules, struct cay_error *err);

/* Are the sets of the configuration good? Reason: INVALID_ARGUMENT. */
[[nodiscard]] bool cay_network_sets_check(const struct cay_host *host, struct cay_error *err);
/* The same of the rules of sessions that choose no network. */
[[nodiscard]] bool cay_network_default_check(const struct cay_host *host, struct cay_error *err);

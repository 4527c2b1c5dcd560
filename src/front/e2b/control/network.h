/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Network rules of sandboxes. What the host cannot enforce it refuses; nothing is just noted. */

#include "front/e2b/control/handlers.h"
#include "wire/e2b/e2b.h"

/*
 * The policy that these rules ask for, in the arena. `network` may be NULL; `is_open` is what
 * counts without rules. NULL, with a sentence, for rules that nobody here enforces.
 */
[[nodiscard]] struct cay_v1_network_policy *
cay_e2b_network_policy(const struct e2b_network *network, int mode, struct cay_arena *arena,
                       const char **out_fault);

/* Does it reach whatever it does not deny? */
[[nodiscard]] bool cay_e2b_network_is_wide(const struct cay_v1_network_policy *policy);

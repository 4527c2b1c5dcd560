/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Network rules of sandboxes. What the host cannot enforce it refuses; nothing is just noted. */

#include "front/e2b/control.h"
#include "wire/e2b/e2b.h"

/*
 * The policy that these rules ask for, in the arena. `network` may be NULL. Without any rule the
 * host's default counts, also when access to the internet is allowed in so many words: what a
 * sandbox may reach at most is for the host's configuration to say. NULL, with a sentence, for
 * rules that nobody here enforces.
 */
[[nodiscard]] struct cay_v1_network_policy *
cay_e2b_network_policy(const struct e2b_network *network, bool is_internet_denied,
                       struct cay_arena *arena, const char **out_fault);

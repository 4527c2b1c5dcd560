/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Gives up everything that the helper does not need, before it has read a byte that is not the
 * daemon's: files, other namespaces, its uid for one that is nobody's, capabilities, and
 * nearly all system calls. Called once, as root, in the network namespace that it is to dial
 * from. 0, or -errno and the caller must end.
 */

#include "base/base.h"

[[nodiscard]] int egress_confine(uint32_t uid);
/* The last step, by itself: a call that is not on the list ends the process. */
[[nodiscard]] int egress_confine_calls(void);

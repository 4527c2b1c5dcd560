/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Gives up what the daemon never needs, before it has threads: a hole in it is worth less then.
 * Never fails: somebody who has no rights has none to give up. */
void cayd_harden(void);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the commands of bases share. */

struct cay_completion;

/* Completion of the first argument: the names of bases, by asking the daemon. */
void cay_base_offer(struct cay_completion *completion);

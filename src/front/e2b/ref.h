/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What E2B's doors share is made with the first of them and goes with the last. */

#include "front/e2b/e2b.h"

/* For each door when it is made, and when it goes: their `self`. NULL: they are shut. */
void *cay_e2b_ref(struct cay_porch *porch);
void cay_e2b_unref(void *self);

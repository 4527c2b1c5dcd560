/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A sort that looks at base/stop.h: names of a directory are as many as its owner likes. */

#include "base/base.h"

/* Like qsort_r, and stable. When this thread is asked to stop it ends early, and the items are all
 * there in any order: whoever goes on with them must look, too. Without memory for a second copy it
 * is slower, and not stable. */
void cay_sort(void *items, size_t count, size_t size,
              int (*compare)(const void *a, const void *b, void *context), void *context);

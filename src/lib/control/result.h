/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the library gives its caller: a struct, and behind it an arena with all that it points to.
 * Running out of memory is an error here, never the end of the process.
 */

#include "base/arena.h"

/* Zeroed. NULL: there is not enough memory. */
[[nodiscard]] void *cay_result_new(size_t size);
void cay_result_free(void *result); /* accepts NULL */

/* Of everything that the result points to. */
[[nodiscard]] struct cay_arena *cay_result_arena(void *result);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Structs of a program that was built with another version of a header: they begin with their
 * `size`, and what that does not reach is unset.
 */

#include "base/error.h"

enum { CAY_SIZED_BYTES_MAX = 4096 }; /* of a struct of any version: what is larger is not set */

/* Copies `given` to `out`: fields that an older caller does not know are unset, and those of a
 * newer one that are set, but not known here, are an error (not_supported). A NULL gives a struct
 * of which nothing is set. `what` is how the caller knows it. */
[[nodiscard]] bool cay_sized_take(const void *given, void *out, size_t size, const char *what,
                                  struct cay_error *err);

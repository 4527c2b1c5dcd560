/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Paths and queries as REST clients escape them. */

#include "base/arena.h"

enum { CAY_PATH_PARAMS_MAX = 3 };

/* Does the path fit the pattern ("/sandboxes/{}/timeout")? A `{}` takes one segment, which is
 * unescaped after the path is split: it may hold slashes then. False also when it is badly escaped
 * or does not fit into the arena. */
[[nodiscard]] bool cay_path_match(struct cay_str path, const char *pattern, struct cay_arena *arena,
                                  struct cay_str out_params[CAY_PATH_PARAMS_MAX]);

/* %XX, and nothing else: a '+' is a plus. False as above. */
[[nodiscard]] bool cay_path_unescape(struct cay_str text, struct cay_arena *arena,
                                     struct cay_str *out_text);

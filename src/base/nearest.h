/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * "Did you mean …?": the name a mistyped word most likely stands for. Distance is that of Damerau
 * and Levenshtein (insert, drop, replace, swap two neighbours); case and the choice between '-' and
 * '_' do not count.
 */

#include "base/base.h"

/* The nearest of `names`, the first one of equals; NULL when none is near enough to be worth
 * saying. */
[[nodiscard]] const char *cay_nearest(struct cay_str word, const char *const *names, size_t count);

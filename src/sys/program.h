/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Becoming a program, in a child that may share its parent's memory: raw system calls only. */

#include "base/base.h"

/* -errno. Both arrays end with NULL. A name without a slash is looked for along PATH of `env`, and
 * where that has none along the usual one. "Not there" gives way to the most telling other failure.
 */
int cay_program_exec(const char *const *args, const char *const *env);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What resolve.h does, for a kernel that has no openat2 or a sandbox whose filter refuses it: name
 * by name, each opened in the directory before it and never followed by the kernel. A link is read
 * and its text walked like the rest of the path; `..` takes a name away from those walked so far
 * and walks them again from the root. So nothing above the root is ever opened, whatever is renamed
 * meanwhile.
 */

#include "base/base.h"

/* cay_resolve with RESOLVE_BENEATH or RESOLVE_IN_ROOT and any of NO_XDEV, NO_SYMLINKS and
 * NO_MAGICLINKS. It is stricter in three things: no link of a /proc is followed, a link in a
 * directory where all may write must be the caller's or the directory's owner's, and a path that
 * ends in `.` or `..` needs search permission there. */
[[nodiscard]] int cay_resolve_steps(int dir_fd, const char *path, int flags, mode_t mode,
                                    uint64_t how);

/* cay_resolve, and the same by steps where the kernel refuses all of openat2. */
[[nodiscard]] int cay_resolve_anywhere(int dir_fd, const char *path, int flags, mode_t mode,
                                       uint64_t how);

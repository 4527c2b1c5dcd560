/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Opening by path under a root that somebody hostile can write to. Symbolic links, `..` and
 * absolute paths stay inside the root; links of /proc are refused.
 */

#include "base/base.h"

/* openat2(2) with any of the kernel's rules. A lookup that raced with a rename, and
 * an open that waits for a lease, are tried again a few times; then -EAGAIN. */
[[nodiscard]] int cay_resolve(int dir_fd, const char *path, int flags, mode_t mode, uint64_t how);

/* openat2(RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS). Returns a descriptor (O_CLOEXEC is added) or
 * -errno. */
[[nodiscard]] int cay_resolve_open(int root_fd, const char *path, int flags, mode_t mode);

/* The same without following any symbolic link. */
[[nodiscard]] int cay_resolve_open_plain(int root_fd, const char *path, int flags, mode_t mode);

/* Like cay_resolve_open of an existing thing, but never waits for a disk: -EAGAIN when the kernel
 * does not have all of the path at hand (RESOLVE_CACHED). */
[[nodiscard]] int cay_resolve_open_cached(int root_fd, const char *path, int flags);

/* From the caller's own root, links of /proc refused: for the working directory of a command. */
[[nodiscard]] int cay_resolve_open_here(const char *path, int flags);

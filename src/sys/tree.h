/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Directory trees by descriptor: opening beneath a root without following anything out of it, and
 * removing whatever somebody else has built there, however deep.
 */

#include "base/base.h"

/* Opens `path` beneath dir_fd; a path that would leave it (by "..", a link, a mount's magic link)
 * is -EXDEV or -ELOOP. flags and mode as for open(2); O_CLOEXEC is added. */
[[nodiscard]] int cay_tree_open(int dir_fd, const char *path, int flags, mode_t mode);

/* The same, where symlinks anywhere on the way are refused. */
[[nodiscard]] int cay_tree_open_no_links(int dir_fd, const char *path, int flags, mode_t mode);

/* Removes `name` in dir_fd and everything in it; does not cross into other mounts. Absent is fine.
 * Takes away at most *budget entries (counted down) and returns -EAGAIN when that was not enough:
 * call again. NULL budget: no bound. */
[[nodiscard]] int cay_tree_remove(int dir_fd, const char *name, uint64_t *budget);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One entry of a tree that somebody hostile writes to, held by a descriptor. Between two looks at a
 * name it can become a link to anywhere on this machine, and a call that takes the name would
 * follow it with our rights. So a name is looked up once, and all that is done to what was found is
 * done to the descriptor. tests/check/paths.py keeps the calls that take names in here.
 *
 * The functions that take `fd` work on any descriptor, also one that is O_PATH and of a link.
 */

#include <sys/stat.h>
#include <sys/types.h>

#include "base/base.h"

/* What has the name in that directory, O_PATH, a link itself included. -errno. */
[[nodiscard]] int cay_pin_open(int dir_fd, const char *name);

/* The same, when it is of that type (S_IF…); -EAGAIN when it is something else by now. */
[[nodiscard]] int cay_pin_open_type(int dir_fd, const char *name, mode_t type);

/* Makes a directory with exactly that mode and owner; -EEXIST when something has the name. */
[[nodiscard]] int cay_pin_make_dir(int dir_fd, const char *name, mode_t mode, uid_t uid, gid_t gid);

/* 0 or -errno. The mode of a link cannot be changed. */
[[nodiscard]] int cay_pin_chown(int fd, uid_t uid, gid_t gid);
[[nodiscard]] int cay_pin_chmod(int fd, mode_t mode);
[[nodiscard]] int cay_pin_set_times(int fd, const struct timespec times[2]);

/* Another name for it. */
[[nodiscard]] int cay_pin_link(int fd, int dir_fd, const char *name);

/* An ordinary descriptor of it, O_CLOEXEC added; or -errno. Not for links. */
[[nodiscard]] int cay_pin_reopen(int fd, int flags);

/* Its path by the kernel's word, which is only good to be shown. The length, or -errno. */
[[nodiscard]] ssize_t cay_pin_path(int fd, char *out, size_t size);

/* Extended attributes, as the *xattr functions: a length, or -errno. */
[[nodiscard]] ssize_t cay_pin_list_xattrs(int fd, char *list, size_t size);
[[nodiscard]] ssize_t cay_pin_get_xattr(int fd, const char *name, void *value, size_t size);
[[nodiscard]] int cay_pin_set_xattr(int fd, const char *name, const void *value, size_t size);

/* Watches the directory: inotify_add_watch. */
[[nodiscard]] int cay_pin_watch(int inotify_fd, int fd, uint32_t mask);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The mount interface by descriptor. A mount is made detached, dressed, then attached; nothing is
 * named by a path that a sandbox could have changed. All return a descriptor (O_CLOEXEC) or 0, or
 * -errno.
 */

#include <linux/mount.h>

#include "base/base.h"

/* One option of a new file system: a flag when value is NULL. */
struct cay_mount_option {
    const char *key;
    const char *value;
};

/* fsopen + fsconfig + fsmount: a new file system, mounted nowhere yet. attr is of MOUNT_ATTR_*. */
[[nodiscard]] int cay_mount_new(const char *type, const struct cay_mount_option *options,
                                size_t option_count, unsigned int attr);

/* A detached copy of the mount (tree) at path. */
[[nodiscard]] int cay_mount_clone(int dir_fd, const char *path, bool recursive);

/* Attaches mount_fd on the directory or file that target_fd is open on (O_PATH is enough). */
[[nodiscard]] int cay_mount_attach(int mount_fd, int target_fd);

[[nodiscard]] int cay_mount_set(int mount_fd, uint64_t attr_set, bool recursive);

/* Shows ids through the map of the user namespace. For a detached mount. */
[[nodiscard]] int cay_mount_set_idmap(int mount_fd, int userns_fd);

/* 0 when the name is the root of a mount of the file system that mount_fd is on; -EXDEV when it is
 * not: something else is where the mount was meant to be. */
[[nodiscard]] int cay_mount_verify(int dir_fd, const char *name, int mount_fd);

/* No mount made here or elsewhere travels between this mount namespace and its origin. */
[[nodiscard]] int cay_mount_make_private(void);

/* Makes the mount that the working directory is on the root, and detaches the old one. */
[[nodiscard]] int cay_mount_pivot_here(void);

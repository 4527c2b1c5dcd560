/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Overlay mounts made of layer directories that all live in one directory, id-mapped as a whole and
 * never attached anywhere: what comes back is a descriptor of a detached mount, which vanishes with
 * its last user. Layers keep natural owners on disk; the mount shows them in the range of the given
 * user namespace.
 *
 * Order: cay_userns_open (once per range) -> cay_layer_mount*.
 */

#include "base/base.h"

struct cay_layer_stack {
    int layers_fd;            /* the directory that holds all layers */
    const char *const *lower; /* paths in it, the top one first; at least one */
    size_t lower_count;
    const char *upper; /* paths in it; work is empty and on the same file system as upper. Without
                          an upper the mount is read-only, and needs two lower layers or more */
    const char *work;
    int userns_fd;     /* how to map owners; -1: not at all */
    uint32_t root_uid; /* what 0 is mapped to: the mount is made with this file-system uid */
};

/* Which way of mounting to use. AUTO tries descriptors (Linux 6.15;
 * Documentation/filesystems/overlayfs.rst) and falls back for good to paths in a mount namespace of
 * a short-lived thread. */
enum cay_layer_way {
    CAY_LAYER_AUTO = 0,
    CAY_LAYER_BY_FD,
    CAY_LAYER_BY_PATH,
};

/* The detached mount (O_PATH semantics) or -errno. Needs CAP_SYS_ADMIN. */
[[nodiscard]] int cay_layer_mount(const struct cay_layer_stack *stack, enum cay_layer_way way);

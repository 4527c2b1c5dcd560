/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * User namespaces as descriptors, with their maps written and no process left in them.
 *
 * A session has one range of host ids: BASE .. BASE + CAY_USERNS_COUNT - 1. Sandbox id 0 is BASE;
 * the last id of the range is its init's and has no name inside. The kernel charges what a
 * namespace uses (inotify instances, keys, namespaces: namespaces(7)) to the uid that made it: here
 * always the last id of the range, never the daemon's.
 *
 *     int outer = cay_userns_open(base, CAY_USERNS_COUNT);     commands and init, and id-mapped
 * layers
 */

#include "base/base.h"

enum {
    CAY_USERNS_INNER_COUNT = 65536,  /* ids a command can have */
    CAY_USERNS_COUNT = 65537,        /* and init's */
    CAY_USERNS_RANGE_ALIGN = 131072, /* distance between the ranges of two sessions */
};

/* A user namespace that maps 0..count-1 to host ids base..base+count-1, owned by host uid
 * base+count-1. The caller needs CAP_SETUID and CAP_SETGID on the host. Returns the descriptor
 * (O_CLOEXEC) or -errno. May be called from any thread. */
[[nodiscard]] int cay_userns_open(uint32_t base, uint32_t count);

/* A user namespace inside the caller's own, whose map is 0..count-1 to the same ids outside. Owned
 * by the caller's effective uid. For a process with one thread. */
[[nodiscard]] int cay_userns_open_inner(uint32_t count);

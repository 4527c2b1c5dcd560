/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Snapshots that a record names and the store does not have. A crash of the daemon leaves none: the
 * store comes first. A loss of power may, since records and trees reach the disk in an order of
 * their own unless a snapshot is durable.
 */

#include "host/session/host.h"

/* Forgets those of all sessions, at start; `stored` has the store's ids of what is there. Those
 * that followed a lost one, and a tree that stood on it, follow its predecessor from then on. */
[[nodiscard]] bool cay_lost_forget(struct cay_host *host, const struct cay_map *stored,
                                   struct cay_error *err);

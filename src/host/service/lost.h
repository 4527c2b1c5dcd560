/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Snapshots that a record names and the store does not have. A crash of the daemon leaves none: the
 * store comes first. A loss of power may, since records and trees reach the disk in an order of
 * their own unless a snapshot is durable.
 */

#include "host/session/host.h"

/* A store that holds nothing at all is not the one that the records speak of: its disk is not
 * mounted, or it was moved. DATA_LOSS then: nothing may be forgotten of what is still somewhere. */
[[nodiscard]] bool cay_lost_check_store(const struct cay_host *host, size_t item_count,
                                        struct cay_error *err);

/* The same the other way round: opens the database, and begins a new one only where the store has
 * no sessions. Without their records they would all be rubbish, and that is removed. */
[[nodiscard]] bool cay_lost_open_records(struct cay_store *store, const char *db_path,
                                         struct cay_db **out_db, struct cay_error *err);

/* Forgets those of all sessions, at start; `stored` has the store's ids of what is there. Those
 * that followed a lost one, and a tree that stood on it, follow its predecessor from then on. */
void cay_lost_forget(struct cay_host *host, const struct cay_map *stored);

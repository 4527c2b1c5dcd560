/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The journal on disk, for the next daemon: the newest events in the files `events` and `events.1`
 * of the data directory, each with its length before it. Loop thread only; a worker writes.
 */

#include "base/buf.h"
#include "io/loop.h"

struct cay_journal_file;

/* The directory stays the caller's. Calls `visit` for each event that is there, oldest first. */
[[nodiscard]] struct cay_journal_file *
cay_journal_file_open(struct cay_loop *loop, int dir_fd,
                      void (*visit)(void *context, struct cay_str event), void *context);
/* After the jobs of the loop are done. Writes what is left. Accepts NULL. */
void cay_journal_file_close(struct cay_journal_file *file);

/* Never blocks; beyond a bound events are not written. */
void cay_journal_file_add(struct cay_journal_file *file, struct cay_str event);

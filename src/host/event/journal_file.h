/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The journal on disk, for the next daemon: the newest events in the files `events` and `events.1`
 * of the data directory, each with its length before it. When the first is full, what fits of both
 * becomes the second, of every owner a part. Loop thread only; a worker writes.
 */

#include "base/buf.h"
#include "io/loop.h"

struct cay_journal_file;

/* An event as an earlier daemon wrote it. */
struct cay_journal_old {
    uint64_t mark; /* of the daemon */
    uint64_t number;
    struct cay_str owner;
    bool is_receipt; /* of a network */
    struct cay_str bytes;
};

/* What a cursor says. False for a text that is none. */
[[nodiscard]] bool cay_journal_cursor_read(struct cay_str cursor, uint64_t *out_mark,
                                           uint64_t *out_number);

/* The directory stays the caller's. Calls `visit` for each event that is there, oldest first. */
[[nodiscard]] struct cay_journal_file *
cay_journal_file_open(struct cay_loop *loop, int dir_fd,
                      void (*visit)(void *context, const struct cay_journal_old *old),
                      void *context);
/* After the jobs of the loop are done. Writes what is left. Accepts NULL. */
void cay_journal_file_close(struct cay_journal_file *file);

/* Never blocks; beyond a bound events are not written. */
void cay_journal_file_add(struct cay_journal_file *file, struct cay_str event);

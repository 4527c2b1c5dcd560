/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a door has workers do, in the lane of whose call it is. Decoding, encoding and packing are
 * quick for what people send, but a peer chooses the bytes: a message of the largest size takes
 * some tenths of a second, and one of a hundred packed kilobytes unpacks to it. The loop thread is
 * everybody's.
 *
 * Order: set work and done -> send -> done, on the loop thread, when it may be sent again.
 * Meanwhile what `work` touches is the worker's.
 */

#include "io/share.h"

struct cay_away {
    struct cay_job job;
    struct cay_shares *shares; /* of the caller, meanwhile */
    void (*work)(struct cay_away *away);
    void (*done)(struct cay_away *away);
    bool is_away;
    bool is_unwanted; /* nobody waits any more: cay_away_leave; workers watch it */
};

/* Whether bytes keep the loop thread for longer than a turn of it may take. */
[[nodiscard]] bool cay_is_dear(size_t len, bool is_packed);
/* The same for a message in memory, by what was made in its arena. */
[[nodiscard]] bool cay_is_dear_in_memory(size_t len);

void cay_away_send(struct cay_away *away, struct cay_loop *loop, const char *owner);

/* `done` still comes. */
void cay_away_leave(struct cay_away *away);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The output of one call: the last `size` bytes, with the offset each has in all that was ever
 * written, and which stream it came from. Memory is mapped once.
 *
 * Order: open -> (reserve, claim)* with peek at any offset that is kept -> close.
 */

#include "base/base.h"

enum { CAY_RING_PIECES_MAX = 4096 };

/* From `from` on the bytes are of `stream`, until the next piece. */
struct cay_ring_piece {
    uint64_t from;
    uint8_t stream;
};

struct cay_ring {
    uint8_t *data;
    uint32_t size;                 /* a power of two */
    uint64_t start;                /* oldest byte kept */
    uint64_t end;                  /* all bytes ever written */
    struct cay_ring_piece *pieces; /* CAY_RING_PIECES_MAX, in the same mapping */
    uint32_t piece_first;
    uint32_t piece_count;
};

[[nodiscard]] int cay_ring_open(struct cay_ring *ring, uint32_t size);
void cay_ring_close(struct cay_ring *ring);
/* Empty again, in the same memory. */
void cay_ring_reset(struct cay_ring *ring);

/* Bytes that can be written without losing anything from offset `keep` on. */
[[nodiscard]] uint32_t cay_ring_room(const struct cay_ring *ring, uint64_t keep);

/* Room for up to len bytes at the end, in one piece; what was there is lost. Returns how many. */
[[nodiscard]] uint32_t cay_ring_reserve(struct cay_ring *ring, uint32_t len, uint8_t **out_at);

/* len bytes of the reserved room were filled from the stream. */
void cay_ring_claim(struct cay_ring *ring, uint8_t stream, uint32_t len);

/* Bytes of one stream and in one piece at `offset`, which is moved up to the oldest byte kept. 0
 * when there are none. */
[[nodiscard]] uint32_t cay_ring_peek(const struct cay_ring *ring, uint64_t *offset,
                                     uint32_t len_max, uint8_t *out_stream, const uint8_t **out_at);

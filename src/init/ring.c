/* SPDX-License-Identifier: Apache-2.0 */
#include "init/ring.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

enum { PIECES_BYTES = CAY_RING_PIECES_MAX * sizeof(struct cay_ring_piece) };

int cay_ring_open(struct cay_ring *ring, uint32_t size)
{
    assert(size && (size & (size - 1)) == 0);
    size_t mapped = size + PIECES_BYTES;
    void *data = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return -errno;
    ring->data = data;
    ring->pieces = (struct cay_ring_piece *)(void *)(ring->data + size);
    ring->size = size;
    cay_ring_reset(ring);
    return 0;
}

void cay_ring_reset(struct cay_ring *ring)
{
    ring->start = ring->end = 0;
    ring->piece_first = ring->piece_count = 0;
}

void cay_ring_close(struct cay_ring *ring)
{
    if (ring->data)
        munmap(ring->data, ring->size + PIECES_BYTES);
    ring->data = NULL;
}

uint32_t cay_ring_room(const struct cay_ring *ring, uint64_t keep)
{
    uint64_t kept = ring->end - CAY_MAX(keep, ring->start);
    return ring->size - (uint32_t)kept;
}

static struct cay_ring_piece *piece_at(struct cay_ring *ring, uint32_t index)
{
    return &ring->pieces[(ring->piece_first + index) % CAY_RING_PIECES_MAX];
}

static const struct cay_ring_piece *piece_const(const struct cay_ring *ring, uint32_t index)
{
    return &ring->pieces[(ring->piece_first + index) % CAY_RING_PIECES_MAX];
}

/* Forgets bytes below `start`, and the pieces that lie wholly there. */
static void drop_below(struct cay_ring *ring, uint64_t start)
{
    ring->start = CAY_MAX(ring->start, start);
    while (ring->piece_count > 1 && piece_at(ring, 1)->from <= ring->start) {
        ring->piece_first = (ring->piece_first + 1) % CAY_RING_PIECES_MAX;
        ring->piece_count--;
    }
}

uint32_t cay_ring_reserve(struct cay_ring *ring, uint32_t len, uint8_t **out_at)
{
    uint32_t at = (uint32_t)(ring->end & (ring->size - 1));
    len = CAY_MIN(len, ring->size - at);
    if (ring->end + len > ring->size)
        drop_below(ring, ring->end + len - ring->size);
    *out_at = ring->data + at;
    return len;
}

void cay_ring_claim(struct cay_ring *ring, uint8_t stream, uint32_t len)
{
    if (!len)
        return;
    if (!ring->piece_count || piece_at(ring, ring->piece_count - 1)->stream != stream) {
        /* Streams that alternate byte by byte: the list of pieces is the limit then. */
        if (ring->piece_count == CAY_RING_PIECES_MAX)
            drop_below(ring, piece_at(ring, 1)->from);
        *piece_at(ring, ring->piece_count++) =
            (struct cay_ring_piece){.from = ring->end, .stream = stream};
    }
    ring->end += len;
}

uint32_t cay_ring_peek(const struct cay_ring *ring, uint64_t *offset, uint32_t len_max,
                       uint8_t *out_stream, const uint8_t **out_at)
{
    *offset = CAY_MAX(*offset, ring->start);
    if (*offset >= ring->end)
        return 0;
    uint64_t stop = ring->end;
    uint32_t index = ring->piece_count - 1;
    while (index > 0 && piece_const(ring, index)->from > *offset) {
        stop = piece_const(ring, index)->from;
        index--;
    }
    uint32_t at = (uint32_t)(*offset & (ring->size - 1));
    uint64_t len = CAY_MIN(stop - *offset, (uint64_t)(ring->size - at));
    *out_stream = piece_const(ring, index)->stream;
    *out_at = ring->data + at;
    return (uint32_t)CAY_MIN(len, (uint64_t)len_max);
}

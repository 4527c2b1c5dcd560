/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <stdlib.h>

#include "base/base.h"
#include "init/ring.h"

enum { SIZE = 4096, OUT = 1, ERR = 2 };

static void put(struct cay_ring *ring, uint8_t stream, const char *data, uint32_t len)
{
    while (len) {
        uint8_t *at = NULL;
        uint32_t room = cay_ring_reserve(ring, len, &at);
        assert_true(room > 0 && room <= len);
        memcpy(at, data, room);
        cay_ring_claim(ring, stream, room);
        data += room;
        len -= room;
    }
}

static void pieces_come_back_in_order_with_their_stream(void **)
{
    struct cay_ring ring;
    assert_int_equal(cay_ring_open(&ring, SIZE), 0);
    put(&ring, OUT, "aaa", 3);
    put(&ring, OUT, "bb", 2);
    put(&ring, ERR, "c", 1);
    put(&ring, OUT, "dd", 2);
    uint64_t offset = 0;
    uint8_t stream = 0;
    const uint8_t *at = NULL;
    assert_int_equal(cay_ring_peek(&ring, &offset, 100, &stream, &at), 5);
    assert_int_equal(stream, OUT);
    assert_memory_equal(at, "aaabb", 5);
    offset = 5;
    assert_int_equal(cay_ring_peek(&ring, &offset, 100, &stream, &at), 1);
    assert_int_equal(stream, ERR);
    offset = 6;
    assert_int_equal(cay_ring_peek(&ring, &offset, 1, &stream, &at), 1);
    assert_int_equal(stream, OUT);
    offset = 8;
    assert_int_equal(cay_ring_peek(&ring, &offset, 100, &stream, &at), 0);
    cay_ring_close(&ring);
}

static void the_oldest_goes_first_and_offsets_stay(void **)
{
    struct cay_ring ring;
    assert_int_equal(cay_ring_open(&ring, SIZE), 0);
    char byte[1];
    for (uint32_t i = 0; i < 3 * SIZE; i++) {
        byte[0] = (char)(i % 251);
        put(&ring, OUT, byte, 1);
    }
    assert_int_equal(ring.end, 3 * SIZE);
    assert_int_equal(ring.start, 2 * SIZE);
    assert_int_equal(cay_ring_room(&ring, 0), 0);
    assert_int_equal(cay_ring_room(&ring, ring.end), SIZE);
    assert_int_equal(cay_ring_room(&ring, ring.end - 10), SIZE - 10);
    uint64_t offset = 0;
    uint8_t stream = 0;
    const uint8_t *at = NULL;
    assert_true(cay_ring_peek(&ring, &offset, 10, &stream, &at) > 0);
    assert_int_equal(offset, 2 * SIZE);
    assert_int_equal(at[0], (2 * SIZE) % 251);
    cay_ring_close(&ring);
}

static void streams_that_alternate_without_end_stay_bounded(void **)
{
    struct cay_ring ring;
    assert_int_equal(cay_ring_open(&ring, SIZE), 0);
    for (uint32_t i = 0; i < 10 * CAY_RING_PIECES_MAX; i++)
        put(&ring, i % 2 ? OUT : ERR, i % 2 ? "o" : "e", 1);
    assert_true(ring.piece_count <= CAY_RING_PIECES_MAX);
    uint64_t offset = ring.start;
    assert_true(ring.end - ring.start >= CAY_RING_PIECES_MAX - 1);
    while (offset < ring.end) {
        uint8_t stream = 0;
        const uint8_t *at = NULL;
        assert_int_equal(cay_ring_peek(&ring, &offset, 10, &stream, &at), 1);
        assert_int_equal(at[0], stream == OUT ? 'o' : 'e');
        assert_int_equal(stream == OUT, offset % 2);
        offset++;
    }
    cay_ring_close(&ring);
}

/* Against a plain array that forgets nothing. */
static void it_agrees_with_a_plain_log(void **)
{
    static char bytes[1 << 20];
    static uint8_t streams[1 << 20];
    struct cay_ring ring;
    assert_int_equal(cay_ring_open(&ring, SIZE), 0);
    uint32_t state = 5;
    size_t len = 0;
    while (len < sizeof(bytes) - 3000) {
        state = state * 1664525u + 1013904223u;
        uint32_t count = 1 + (state >> 9) % 3000;
        uint8_t stream = (uint8_t)(1 + (state >> 20) % 2);
        for (uint32_t i = 0; i < count; i++) {
            bytes[len + i] = (char)(state >> (i % 24));
            streams[len + i] = stream;
        }
        put(&ring, stream, bytes + len, count);
        len += count;
        assert_int_equal(ring.end, len);
        for (uint64_t offset = ring.start; offset < ring.end;) {
            uint8_t got = 0;
            const uint8_t *at = NULL;
            uint32_t piece = cay_ring_peek(&ring, &offset, 700, &got, &at);
            assert_true(piece > 0);
            assert_memory_equal(at, bytes + offset, piece);
            assert_int_equal(got, streams[offset]);
            assert_int_equal(got, streams[offset + piece - 1]);
            offset += piece;
        }
    }
    cay_ring_close(&ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_come_back_in_order_with_their_stream),
        cmocka_unit_test(the_oldest_goes_first_and_offsets_stay),
        cmocka_unit_test(streams_that_alternate_without_end_stay_bounded),
        cmocka_unit_test(it_agrees_with_a_plain_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/gzip.h"

enum { BIG_BYTES = 1 << 20 };

/* Bytes that do not pack. */
static void fill(char *bytes, size_t len)
{
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i < len; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes[i] = (char)state;
    }
}

static void check_round_trip(struct cay_str bytes)
{
    cay_auto(cay_buf_finish) struct cay_buf packed;
    cay_auto(cay_buf_finish) struct cay_buf plain;
    cay_buf_init(&packed, 2 * BIG_BYTES);
    cay_buf_init(&plain, bytes.len); /* exactly enough */
    assert_int_equal(cay_gzip(bytes, &packed), 0);
    assert_int_equal(cay_gunzip(cay_buf_str(&packed), &plain), 0);
    assert_true(cay_str_equal(cay_buf_str(&plain), bytes));
    if (!bytes.len)
        return;
    cay_auto(cay_buf_finish) struct cay_buf tight;
    cay_buf_init(&tight, bytes.len - 1);
    assert_int_equal(cay_gunzip(cay_buf_str(&packed), &tight), -EMSGSIZE);
    assert_true(tight.cap <= bytes.len);
}

static void what_goes_in_comes_out(void **)
{
    static const size_t sizes[] = {0, 1, 100, 16383, 16384, 16385, 32768, 100000, BIG_BYTES};
    cay_autofree char *bytes = cay_alloc(BIG_BYTES);
    for (size_t i = 0; i < CAY_COUNT(sizes); i++)
        check_round_trip((struct cay_str){bytes, sizes[i]});
    fill(bytes, BIG_BYTES);
    for (size_t i = 0; i < CAY_COUNT(sizes); i++)
        check_round_trip((struct cay_str){bytes, sizes[i]});
}

static void a_bomb_goes_off_in_a_bounded_buffer(void **)
{
    cay_autofree char *bytes = cay_alloc(16 * BIG_BYTES);
    cay_auto(cay_buf_finish) struct cay_buf packed;
    cay_auto(cay_buf_finish) struct cay_buf plain;
    cay_buf_init(&packed, 17 * BIG_BYTES);
    cay_buf_init(&plain, 100000);
    assert_int_equal(cay_gzip((struct cay_str){bytes, 16 * BIG_BYTES}, &packed), 0);
    assert_true(packed.len < BIG_BYTES / 8);
    assert_int_equal(cay_gunzip(cay_buf_str(&packed), &plain), -EMSGSIZE);
    assert_true(plain.cap <= 100000);
}

static void it_appends_and_counts_what_is_there(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf packed;
    cay_auto(cay_buf_finish) struct cay_buf plain;
    cay_buf_init(&packed, 4096);
    cay_buf_append_text(&packed, "head");
    cay_buf_init(&plain, 9);
    cay_buf_append_text(&plain, "1234");
    assert_int_equal(cay_gzip(CAY_STR("hello"), &packed), 0);
    assert_memory_equal(packed.data, "head\x1F\x8B", 6);
    struct cay_str member = {packed.data + 4, packed.len - 4};
    assert_int_equal(cay_gunzip(member, &plain), 0);
    assert_true(cay_str_is(cay_buf_str(&plain), "1234hello"));
    assert_int_equal(cay_gunzip(member, &plain), -EMSGSIZE);
}

static void every_cut_and_every_flipped_bit_is_noticed(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf packed;
    cay_buf_init(&packed, 4096);
    struct cay_str text = CAY_STR("hello hello hello, who is there?");
    assert_int_equal(cay_gzip(text, &packed), 0);
    for (size_t len = 0; len < packed.len; len++) {
        cay_auto(cay_buf_finish) struct cay_buf plain;
        cay_buf_init(&plain, 4096);
        cay_autofree char *copy = cay_alloc(len ? len : 1);
        memcpy(copy, packed.data, len);
        assert_int_equal(cay_gunzip((struct cay_str){copy, len}, &plain), -EBADMSG);
    }
    for (size_t bit = 0; bit < packed.len * 8; bit++) {
        cay_auto(cay_buf_finish) struct cay_buf plain;
        cay_buf_init(&plain, 4096);
        packed.data[bit / 8] = (char)(packed.data[bit / 8] ^ 1 << bit % 8);
        /* A few bits of the header and of the padding mean nothing. */
        if (cay_gunzip(cay_buf_str(&packed), &plain) == 0)
            assert_true(cay_str_equal(cay_buf_str(&plain), text));
        packed.data[bit / 8] = (char)(packed.data[bit / 8] ^ 1 << bit % 8);
    }
}

static void one_member_and_nothing_behind_it(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf packed;
    cay_buf_init(&packed, 4096);
    assert_int_equal(cay_gzip(CAY_STR("a"), &packed), 0);
    size_t one = packed.len;
    assert_int_equal(cay_gzip(CAY_STR("b"), &packed), 0);
    cay_auto(cay_buf_finish) struct cay_buf plain;
    cay_buf_init(&plain, 4096);
    assert_int_equal(cay_gunzip(cay_buf_str(&packed), &plain), -EBADMSG);
    cay_buf_clear(&plain, 0);
    packed.data[one] = 0;
    assert_int_equal(cay_gunzip((struct cay_str){packed.data, one + 1}, &plain), -EBADMSG);
}

static void zlib_and_raw_streams_are_not_gzip(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf plain;
    cay_buf_init(&plain, 4096);
    assert_int_equal(cay_gunzip(CAY_STR("x\x9CK\x04\0\0b\0b"), &plain), -EBADMSG);
    assert_int_equal(cay_gunzip(CAY_STR("{}"), &plain), -EBADMSG);
}

static void a_full_buffer_takes_no_packed_bytes(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf packed;
    cay_buf_init(&packed, 8);
    assert_int_equal(cay_gzip(CAY_STR("hello"), &packed), -ENOMEM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_goes_in_comes_out),
        cmocka_unit_test(a_bomb_goes_off_in_a_bounded_buffer),
        cmocka_unit_test(it_appends_and_counts_what_is_there),
        cmocka_unit_test(every_cut_and_every_flipped_bit_is_noticed),
        cmocka_unit_test(one_member_and_nothing_behind_it),
        cmocka_unit_test(zlib_and_raw_streams_are_not_gzip),
        cmocka_unit_test(a_full_buffer_takes_no_packed_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "base/buf.h"

static void appending_grows_and_keeps_what_was_there(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, 1 << 20);
    for (unsigned i = 0; i < 5000; i++)
        cay_buf_append_byte(&buf, (unsigned char)i);
    cay_buf_append_text(&buf, "text");
    cay_buf_append_str(&buf, CAY_STR("str"));
    cay_buf_append(&buf, NULL, 0);
    assert_false(buf.failed);
    assert_int_equal(buf.len, 5007);
    for (unsigned i = 0; i < 5000; i++)
        assert_int_equal((unsigned char)buf.data[i], i & 0xFF);
    assert_memory_equal(buf.data + 5000, "textstr", 7);
    assert_int_equal(cay_buf_str(&buf).len, 5007);
}

static void the_ceiling_can_be_reached_but_not_passed(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, 1000);
    for (size_t i = 0; i < 1000; i++)
        cay_buf_append_byte(&buf, 'x');
    assert_false(buf.failed);
    assert_true(buf.cap <= 1000);
    cay_buf_append_byte(&buf, 'x');
    assert_true(buf.failed);
    assert_int_equal(buf.len, 1000);
}

static void failure_is_sticky_until_clear(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, 8);
    cay_buf_append_text(&buf, "abcd");
    cay_buf_append_text(&buf, "efghi");
    assert_true(buf.failed);
    /* This one would fit, but the text would have a hole. */
    cay_buf_append_text(&buf, "x");
    cay_buf_printf(&buf, "%d", 1);
    assert_null(cay_buf_reserve(&buf, 1));
    assert_int_equal(buf.len, 4);
    cay_buf_clear(&buf, 4096);
    assert_false(buf.failed);
    cay_buf_append_text(&buf, "x");
    assert_int_equal(buf.len, 1);
}

static void lengths_that_wrap_fail(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, SIZE_MAX);
    cay_buf_append_text(&buf, "abc");
    assert_null(cay_buf_reserve(&buf, SIZE_MAX - 1));
    assert_true(buf.failed);
    assert_int_equal(buf.len, 3);
}

static void printing_works_for_short_and_long_texts(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, 4096);
    cay_buf_printf(&buf, "%s=%d;", "a", 5);
    cay_buf_printf(&buf, "%300d", 7);
    cay_buf_printf(&buf, "%s", "");
    assert_false(buf.failed);
    assert_int_equal(buf.len, 4 + 300);
    assert_memory_equal(buf.data, "a=5;", 4);
    assert_int_equal(buf.data[303], '7');
    cay_buf_printf(&buf, "%5000d", 7);
    assert_true(buf.failed);
    assert_int_equal(buf.len, 304);
}

static void reserved_room_is_claimed(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, 4096);
    char *room = cay_buf_reserve(&buf, 1000);
    assert_non_null(room);
    assert_int_equal(buf.len, 0);
    memset(room, 'r', 1000);
    cay_buf_grew(&buf, 10);
    assert_int_equal(buf.len, 10);
    assert_memory_equal(buf.data, "rrrrrrrrrr", 10);
}

static void consuming_drops_the_front(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, 64);
    cay_buf_consume(&buf, 0);
    cay_buf_append_text(&buf, "abcdef");
    cay_buf_consume(&buf, 2);
    assert_true(cay_str_is(cay_buf_str(&buf), "cdef"));
    cay_buf_consume(&buf, 4);
    assert_int_equal(buf.len, 0);
}

static void clearing_keeps_only_as_much_memory_as_asked(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, 1 << 20);
    assert_non_null(cay_buf_reserve(&buf, 100'000));
    cay_buf_clear(&buf, 1 << 20);
    assert_true(buf.cap >= 100'000);
    cay_buf_clear(&buf, 4096);
    assert_int_equal(buf.cap, 0);
    assert_int_equal(buf.size_bytes_max, 1 << 20);
    cay_buf_append_text(&buf, "again");
    assert_false(buf.failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(appending_grows_and_keeps_what_was_there),
        cmocka_unit_test(the_ceiling_can_be_reached_but_not_passed),
        cmocka_unit_test(failure_is_sticky_until_clear),
        cmocka_unit_test(lengths_that_wrap_fail),
        cmocka_unit_test(printing_works_for_short_and_long_texts),
        cmocka_unit_test(reserved_room_is_claimed),
        cmocka_unit_test(consuming_drops_the_front),
        cmocka_unit_test(clearing_keeps_only_as_much_memory_as_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

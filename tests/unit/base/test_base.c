/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"

static void taking_leaves_nothing_behind(void **)
{
    char *owned = cay_strdup("text");
    cay_autofree char *taken = cay_take_ptr(owned);
    assert_null(owned);
    assert_string_equal(taken, "text");
    int fd = 7;
    assert_int_equal(cay_take_fd(fd), 7);
    assert_int_equal(fd, -1);
}

static void a_closed_scope_closes_its_descriptor_and_keeps_errno(void **)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    {
        cay_autoclose int scoped = fd;
        errno = EBUSY;
        (void)scoped;
    }
    assert_int_equal(errno, EBUSY);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

static void allocated_memory_is_zero_and_empty_sizes_work(void **)
{
    cay_autofree char *memory = cay_alloc(64);
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(memory[i], 0);
    cay_autofree char *nothing = cay_alloc(0);
    assert_non_null(nothing);
    cay_autofree char *empty = cay_strndup(NULL, 0);
    assert_string_equal(empty, "");
    cay_autofree char *formatted = cay_asprintf("%d-%s", 4, "x");
    assert_string_equal(formatted, "4-x");
}

static void equality_in_constant_time_is_equality(void **)
{
    assert_true(cay_equal_constant_time("abc", 3, "abc", 3));
    assert_false(cay_equal_constant_time("abc", 3, "abd", 3));
    assert_false(cay_equal_constant_time("xbc", 3, "abc", 3));
    assert_false(cay_equal_constant_time("abc", 3, "abcd", 4));
    assert_true(cay_equal_constant_time("", 0, NULL, 0));
    /* Differences that cancel under addition or xor of all bytes must still be seen. */
    assert_false(cay_equal_constant_time("\x01\x01", 2, "\x00\x00", 2));
    assert_false(cay_equal_constant_time("ab", 2, "ba", 2));
}

static void wiping_overwrites(void **)
{
    char secret[] = "hunter2";
    cay_wipe(secret, sizeof(secret));
    for (size_t i = 0; i < sizeof(secret); i++)
        assert_int_equal(secret[i], 0);
    cay_wipe(NULL, 0);
}

static void strings_compare_by_all_their_bytes(void **)
{
    assert_true(cay_str_equal((struct cay_str){}, CAY_STR("")));
    assert_true(cay_str_equal((struct cay_str){"a\0b", 3}, (struct cay_str){"a\0b", 3}));
    assert_false(cay_str_equal((struct cay_str){"a\0b", 3}, (struct cay_str){"a\0c", 3}));
    assert_true(cay_str_is(CAY_STR("abc"), "abc"));
    assert_false(cay_str_is(CAY_STR("abc"), "ab"));
    assert_true(cay_str_starts(CAY_STR("abc"), "ab"));
    assert_true(cay_str_starts(CAY_STR("abc"), ""));
    assert_false(cay_str_starts(CAY_STR("a"), "ab"));
    assert_int_equal(cay_str(NULL).len, 0);
}

static void case_folding_is_ascii_only(void **)
{
    assert_true(cay_str_equal_nocase(CAY_STR("Content-TYPE"), CAY_STR("content-type")));
    assert_false(cay_str_equal_nocase(CAY_STR("a"), CAY_STR("ab")));
    /* '@' and '`', '[' and '{' differ by the same bit as 'A' and 'a'. */
    assert_false(cay_str_equal_nocase(CAY_STR("@["), CAY_STR("`{")));
    assert_false(cay_str_equal_nocase(CAY_STR("\xC4"), CAY_STR("\xE4")));
}

static void trimming_takes_blanks_off_both_ends(void **)
{
    assert_true(cay_str_is(cay_str_trim(CAY_STR(" \t a b\t ")), "a b"));
    assert_int_equal(cay_str_trim(CAY_STR(" \t ")).len, 0);
    assert_int_equal(cay_str_trim((struct cay_str){}).len, 0);
    assert_true(cay_str_is(cay_str_trim(CAY_STR("\na")), "\na"));
}

static void splitting_gives_every_part_also_the_empty_ones(void **)
{
    static const char *const want[] = {"a", "", "bc", ""};
    struct cay_str rest = CAY_STR("a,,bc,");
    struct cay_str part;
    for (size_t i = 0; i < CAY_COUNT(want); i++) {
        assert_true(cay_str_split(&rest, ',', &part));
        assert_true(cay_str_is(part, want[i]));
    }
    assert_false(cay_str_split(&rest, ',', &part));
    rest = CAY_STR("");
    assert_true(cay_str_split(&rest, ',', &part));
    assert_int_equal(part.len, 0);
    assert_false(cay_str_split(&rest, ',', &part));
}

static void numbers_are_whole_and_bounded(void **)
{
    uint64_t value = 0;
    assert_int_equal(cay_str_to_u64(CAY_STR("18446744073709551615"), UINT64_MAX, &value), 0);
    assert_true(value == UINT64_MAX);
    assert_int_equal(cay_str_to_u64(CAY_STR("007"), 7, &value), 0);
    assert_int_equal(value, 7);
    assert_int_equal(cay_str_to_u64(CAY_STR("18446744073709551616"), UINT64_MAX, &value), -ERANGE);
    assert_int_equal(cay_str_to_u64(CAY_STR("99999999999999999999"), UINT64_MAX, &value), -ERANGE);
    assert_int_equal(cay_str_to_u64(CAY_STR("8"), 7, &value), -ERANGE);
    static const char *const bad[] = {"", "-1", "+1", " 1", "1 ", "0x1", "1e3", "a"};
    for (size_t i = 0; i < CAY_COUNT(bad); i++)
        assert_int_equal(cay_str_to_u64(cay_str(bad[i]), UINT64_MAX, &value), -EINVAL);
    assert_int_equal(value, 7);
}

struct outer {
    int first;
    int second;
};

static void the_container_is_found_from_its_member(void **)
{
    struct outer outer = {1, 2};
    int *second = &outer.second;
    assert_ptr_equal(CAY_CONTAINER_OF(second, struct outer, second), &outer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taking_leaves_nothing_behind),
        cmocka_unit_test(a_closed_scope_closes_its_descriptor_and_keeps_errno),
        cmocka_unit_test(allocated_memory_is_zero_and_empty_sizes_work),
        cmocka_unit_test(equality_in_constant_time_is_equality),
        cmocka_unit_test(wiping_overwrites),
        cmocka_unit_test(strings_compare_by_all_their_bytes),
        cmocka_unit_test(case_folding_is_ascii_only),
        cmocka_unit_test(trimming_takes_blanks_off_both_ends),
        cmocka_unit_test(splitting_gives_every_part_also_the_empty_ones),
        cmocka_unit_test(numbers_are_whole_and_bounded),
        cmocka_unit_test(the_container_is_found_from_its_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

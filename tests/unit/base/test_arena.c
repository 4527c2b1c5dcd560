/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "base/arena.h"

static void allocations_are_aligned_zeroed_and_apart(void **)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, 1 << 20);
    char *last = NULL;
    for (size_t size = 1; size < 300; size++) {
        char *memory = cay_arena_alloc(&arena, size);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(memory[i], 0);
        memset(memory, 0xAA, size);
        if (last)
            assert_int_equal((unsigned char)last[size - 2], 0xAA);
        last = memory;
    }
}

static void an_empty_allocation_is_still_a_pointer_of_its_own(void **)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, 4096);
    void *first = cay_arena_alloc(&arena, 0);
    void *second = cay_arena_alloc(&arena, 0);
    assert_non_null(first);
    assert_non_null(second);
    assert_ptr_not_equal(first, second);
}

static void the_ceiling_counts_everything_and_holds(void **)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, 10'000);
    size_t count = 0;
    while (cay_arena_alloc(&arena, 100)) {
        assert_true(arena.used_bytes <= 10'000);
        assert_true(++count < 1000);
    }
    assert_in_range(count, 70, 100);
    /* What no longer fits does not take away what still does. */
    assert_null(cay_arena_alloc(&arena, 5000));
    assert_true(arena.used_bytes <= 10'000);
}

static void a_large_allocation_gets_a_chunk_of_its_size(void **)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, 2'000'000);
    char *large = cay_arena_alloc(&arena, 1'900'000);
    assert_non_null(large);
    large[1'899'999] = 1;
    assert_true(arena.used_bytes < 1'901'000);
    assert_null(cay_arena_alloc(&arena, 200'000));
}

static void impossible_sizes_fail_instead_of_wrapping(void **)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, SIZE_MAX);
    assert_null(cay_arena_alloc(&arena, SIZE_MAX));
    assert_null(cay_arena_alloc(&arena, SIZE_MAX - 8));
    assert_null(cay_arena_array(&arena, SIZE_MAX / 2, 4));
    assert_null(cay_arena_array(&arena, SIZE_MAX / 4 + 1, 4));
    assert_int_equal(arena.used_bytes, 0);
}

static void copies_are_terminated_and_may_hold_any_byte(void **)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, 4096);
    char *copy = cay_arena_copy(&arena, (struct cay_str){"a\0b", 3});
    assert_memory_equal(copy, "a\0b\0", 4);
    assert_string_equal(cay_arena_copy(&arena, (struct cay_str){}), "");
    assert_string_equal(cay_arena_printf(&arena, "%s-%d", "x", 12), "x-12");
    struct cay_str text = cay_arena_str(&arena, CAY_STR("abc"));
    assert_true(cay_str_is(text, "abc"));
    assert_null(cay_arena_printf(&arena, "%5000d", 1));
    assert_int_equal(cay_arena_str(&arena, (struct cay_str){copy, 8000}).len, 0);
}

static void a_finished_arena_can_be_used_again(void **)
{
    struct cay_arena arena;
    cay_arena_init(&arena, 2048);
    assert_non_null(cay_arena_alloc(&arena, 1000));
    assert_null(cay_arena_alloc(&arena, 1500));
    cay_arena_finish(&arena);
    assert_int_equal(arena.used_bytes, 0);
    assert_non_null(cay_arena_alloc(&arena, 1500));
    cay_arena_finish(&arena);
    cay_arena_finish(&arena);
}

static void what_is_reserved_is_used_to_the_byte(void **)
{
    cay_auto(cay_arena_finish) struct cay_arena trial;
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&trial, 8192);
    cay_arena_init(&arena, 8192);
    static const size_t sizes[] = {3, 1000, 16, 700};
    for (size_t i = 0; i < CAY_COUNT(sizes); i++)
        assert_non_null(cay_arena_alloc(&trial, sizes[i]));
    size_t taken = cay_arena_taken(&trial);
    assert_true(taken >= 1719 && taken < 1719 + 4 * sizeof(max_align_t));
    assert_true(cay_arena_reserve(&arena, taken));
    size_t used_bytes = arena.used_bytes;
    for (size_t i = 0; i < CAY_COUNT(sizes); i++)
        assert_non_null(cay_arena_alloc(&arena, sizes[i]));
    assert_int_equal(arena.used_bytes, used_bytes);
    assert_int_equal(cay_arena_taken(&arena), taken);
    assert_true(used_bytes < trial.used_bytes);
    assert_false(cay_arena_reserve(&arena, 8192));
    assert_false(cay_arena_reserve(&arena, SIZE_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_aligned_zeroed_and_apart),
        cmocka_unit_test(an_empty_allocation_is_still_a_pointer_of_its_own),
        cmocka_unit_test(the_ceiling_counts_everything_and_holds),
        cmocka_unit_test(a_large_allocation_gets_a_chunk_of_its_size),
        cmocka_unit_test(impossible_sizes_fail_instead_of_wrapping),
        cmocka_unit_test(copies_are_terminated_and_may_hold_any_byte),
        cmocka_unit_test(what_is_reserved_is_used_to_the_byte),
        cmocka_unit_test(a_finished_arena_can_be_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

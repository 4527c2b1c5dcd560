/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "base/sort.h"
#include "base/stop.h"

enum { COUNT = 100'000 };

static int by_number(const void *a, const void *b, void *calls)
{
    ++*(size_t *)calls;
    uint32_t left = *(const uint32_t *)a / 2;
    uint32_t right = *(const uint32_t *)b / 2;
    return left < right ? -1 : left > right;
}

static uint32_t *make(size_t count)
{
    uint32_t *items = cay_realloc_array(NULL, count + 1, sizeof(*items));
    uint32_t number = 1;
    for (size_t i = 0; i < count; i++)
        items[i] = number = number * 1664525 + 1013904223;
    return items;
}

/* Of all lengths around those that are sorted in one go. */
static void sorts(void **)
{
    static const size_t counts[] = {0, 1, 2, 4095, 4096, 4097, 8192, 12'289, COUNT};
    for (size_t c = 0; c < CAY_COUNT(counts); c++) {
        size_t calls = 0;
        cay_autofree uint32_t *items = make(counts[c]);
        cay_sort(items, counts[c], sizeof(*items), by_number, &calls);
        for (size_t i = 1; i < counts[c]; i++)
            assert_true(items[i - 1] / 2 <= items[i] / 2);
    }
}

static uint64_t sum(const uint32_t *items)
{
    uint64_t total = 0;
    for (size_t i = 0; i < COUNT; i++)
        total += items[i];
    return total;
}

/* After however many looks: little is done from then on, and nothing is lost. */
static void stops(void **)
{
    size_t whole = 0;
    cay_autofree uint32_t *once = make(COUNT);
    cay_sort(once, COUNT, sizeof(*once), by_number, &whole);
    for (uint32_t looks = 1; looks < 60; looks++) {
        size_t calls = 0;
        cay_autofree uint32_t *items = make(COUNT);
        cay_stop_after(looks);
        cay_sort(items, COUNT, sizeof(*items), by_number, &calls);
        cay_stop_after(0);
        assert_int_equal(sum(items), sum(once));
        if (looks == 1)
            assert_true(calls < whole / 8);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorts),
        cmocka_unit_test(stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

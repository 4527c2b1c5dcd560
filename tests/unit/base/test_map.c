/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/map.h"

struct item {
    char name[16];
    bool present;
    unsigned seen;
};

static void the_hash_gives_the_published_values(void **)
{
    /* SipHash-1-3 as CPython computes it with an all-zero key. */
    static const uint64_t zero[2] = {};
    assert_true(cay_hash(zero, CAY_STR("a")) == 0x407448d2b89b1813);
    assert_true(cay_hash(zero, CAY_STR("abcdefg")) == 0x6db12aae9070f506);
    assert_true(cay_hash(zero, CAY_STR("abcdefgh")) == 0x3f7b849c0b8e35ea);
    assert_true(cay_hash(zero, CAY_STR("abcdefghi")) == 0xf89b34a3d11eb6e5);
    char bytes[63];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)i;
    assert_true(cay_hash(zero, (struct cay_str){bytes, 63}) == 0x385d3e39e5f37359);
    /* And with the key of the specification's own vectors, 00 01 .. 0f. */
    static const uint64_t counted[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    assert_true(cay_hash(counted, (struct cay_str){}) == 0xabac0158050fc4dc);
    assert_true(cay_hash(counted, (struct cay_str){bytes, 1}) == 0xc9f49bf37d57ca93);
}

static void put_get_and_remove(void **)
{
    cay_auto(cay_map_finish) struct cay_map map;
    cay_map_init(&map);
    int one = 1;
    int two = 2;
    assert_null(cay_map_get(&map, CAY_STR("a")));
    assert_null(cay_map_remove(&map, CAY_STR("a")));
    assert_null(cay_map_put(&map, CAY_STR("a"), &one));
    assert_ptr_equal(cay_map_get(&map, CAY_STR("a")), &one);
    assert_ptr_equal(cay_map_put(&map, CAY_STR("a"), &two), &one);
    assert_int_equal(cay_map_count(&map), 1);
    assert_ptr_equal(cay_map_remove(&map, CAY_STR("a")), &two);
    assert_null(cay_map_get(&map, CAY_STR("a")));
    assert_int_equal(cay_map_count(&map), 0);
}

static void keys_are_bytes(void **)
{
    cay_auto(cay_map_finish) struct cay_map map = {};
    int values[3] = {};
    cay_map_put(&map, (struct cay_str){}, &values[0]);
    cay_map_put(&map, (struct cay_str){"\0", 1}, &values[1]);
    cay_map_put(&map, (struct cay_str){"\0\0", 2}, &values[2]);
    assert_ptr_equal(cay_map_get(&map, CAY_STR("")), &values[0]);
    assert_ptr_equal(cay_map_get(&map, (struct cay_str){"\0", 1}), &values[1]);
    assert_ptr_equal(cay_map_get(&map, (struct cay_str){"\0\0", 2}), &values[2]);
}

static void replacing_borrows_the_key_of_the_new_value(void **)
{
    cay_auto(cay_map_finish) struct cay_map map = {};
    struct item old = {.name = "x"};
    struct item fresh = {.name = "x"};
    cay_map_put(&map, cay_str(old.name), &old);
    cay_map_put(&map, cay_str(fresh.name), &fresh);
    memset(&old, 0xFF, sizeof(old));
    assert_ptr_equal(cay_map_get(&map, CAY_STR("x")), &fresh);
}

enum { ITEMS = 2000 };

static void assert_agrees(const struct cay_map *map, struct item *items)
{
    size_t present = 0;
    for (size_t i = 0; i < ITEMS; i++) {
        void *want = items[i].present ? &items[i] : NULL;
        assert_ptr_equal(cay_map_get(map, cay_str(items[i].name)), want);
        present += items[i].present;
        items[i].seen = 0;
    }
    assert_int_equal(cay_map_count(map), present);
    size_t cursor = 0;
    for (struct item *item; (item = cay_map_next(map, &cursor));)
        item->seen++;
    for (size_t i = 0; i < ITEMS; i++)
        assert_int_equal(items[i].seen, items[i].present);
}

static void many_random_changes_agree_with_a_plain_array(void **)
{
    static struct item items[ITEMS];
    cay_auto(cay_map_finish) struct cay_map map = {};
    for (size_t i = 0; i < ITEMS; i++)
        snprintf(items[i].name, sizeof(items[i].name), "key-%zu", i);
    uint32_t random = 12345;
    for (unsigned step = 0; step < 200'000; step++) {
        random = random * 1664525 + 1013904223;
        struct item *item = &items[(random >> 8) % ITEMS];
        /* Fills and empties in waves, so that runs grow long and holes open everywhere. */
        bool put = (random >> 24) < (step / 20'000 % 2 ? 64u : 192u);
        void *before = put ? cay_map_put(&map, cay_str(item->name), item)
                           : cay_map_remove(&map, cay_str(item->name));
        assert_ptr_equal(before, item->present ? item : NULL);
        item->present = put;
        if (step % 10'000 == 0)
            assert_agrees(&map, items);
    }
    assert_agrees(&map, items);
}

static void turnover_does_not_grow_the_table(void **)
{
    cay_auto(cay_map_finish) struct cay_map map = {};
    static struct item items[8];
    for (unsigned i = 0; i < 100'000; i++) {
        struct item *item = &items[i % 8];
        cay_map_remove(&map, cay_str(item->name));
        snprintf(item->name, sizeof(item->name), "%u", i);
        assert_null(cay_map_put(&map, cay_str(item->name), item));
    }
    assert_int_equal(cay_map_count(&map), 8);
    assert_int_equal(map.cap, 16);
}

static void every_map_has_a_hash_of_its_own(void **)
{
    cay_auto(cay_map_finish) struct cay_map one = {};
    cay_auto(cay_map_finish) struct cay_map two = {};
    cay_map_put(&one, CAY_STR("a"), &one);
    cay_map_put(&two, CAY_STR("a"), &two);
    assert_memory_not_equal(one.hash_key, two.hash_key, sizeof(one.hash_key));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hash_gives_the_published_values),
        cmocka_unit_test(put_get_and_remove),
        cmocka_unit_test(keys_are_bytes),
        cmocka_unit_test(replacing_borrows_the_key_of_the_new_value),
        cmocka_unit_test(many_random_changes_agree_with_a_plain_array),
        cmocka_unit_test(turnover_does_not_grow_the_table),
        cmocka_unit_test(every_map_has_a_hash_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

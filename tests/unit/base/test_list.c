/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <stdlib.h>

#include "base/list.h"

struct item {
    int number;
    struct cay_list_node in_list;
};

static void assert_numbers(const struct cay_list *list, const int *numbers, size_t count)
{
    size_t at = 0;
    cay_list_for_each (struct item, item, list, in_list) {
        assert_true(at < count);
        assert_int_equal(item->number, numbers[at++]);
    }
    assert_int_equal(at, count);
}

static void items_come_out_in_the_order_they_were_put(void **)
{
    struct cay_list list;
    cay_list_init(&list);
    assert_true(cay_list_empty(&list));
    assert_null(cay_list_first(&list));
    assert_numbers(&list, NULL, 0);
    struct item items[] = {{.number = 1}, {.number = 2}, {.number = 3}};
    cay_list_push_back(&list, &items[1].in_list);
    cay_list_push_back(&list, &items[2].in_list);
    cay_list_push_front(&list, &items[0].in_list);
    assert_false(cay_list_empty(&list));
    assert_numbers(&list, (int[]){1, 2, 3}, 3);
    assert_ptr_equal(cay_list_pop_front(&list), &items[0].in_list);
    assert_numbers(&list, (int[]){2, 3}, 2);
}

static void removing_twice_is_harmless_and_linking_anew_works(void **)
{
    struct cay_list list;
    cay_list_init(&list);
    struct item items[] = {{.number = 1}, {.number = 2}};
    cay_list_push_back(&list, &items[0].in_list);
    cay_list_push_back(&list, &items[1].in_list);
    assert_true(cay_list_linked(&items[0].in_list));
    cay_list_remove(&items[0].in_list);
    cay_list_remove(&items[0].in_list);
    assert_false(cay_list_linked(&items[0].in_list));
    assert_numbers(&list, (int[]){2}, 1);
    cay_list_push_back(&list, &items[0].in_list);
    assert_numbers(&list, (int[]){2, 1}, 2);
    cay_list_remove(&items[0].in_list);
    cay_list_remove(&items[1].in_list);
    assert_true(cay_list_empty(&list));
    assert_null(cay_list_pop_front(&list));
}

static void the_loop_survives_freeing_the_item_it_is_at(void **)
{
    struct cay_list list;
    cay_list_init(&list);
    for (int i = 0; i < 10; i++) {
        struct item *item = cay_new(struct item);
        item->number = i;
        cay_list_push_back(&list, &item->in_list);
    }
    cay_list_for_each (struct item, item, &list, in_list) {
        if (item->number % 2) {
            cay_list_remove(&item->in_list);
            free(item);
        }
    }
    assert_numbers(&list, (int[]){0, 2, 4, 6, 8}, 5);
    cay_list_for_each (struct item, item, &list, in_list) {
        cay_list_remove(&item->in_list);
        free(item);
    }
    assert_true(cay_list_empty(&list));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_come_out_in_the_order_they_were_put),
        cmocka_unit_test(removing_twice_is_harmless_and_linking_anew_works),
        cmocka_unit_test(the_loop_survives_freeing_the_item_it_is_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "front/http/places.h"
#include "tests/unit/test.h"

enum { MOST = 160, HELD_BACK = 10, SHARED = MOST - HELD_BACK };

static int setup(void **state)
{
    struct cay_places *places = cay_new(struct cay_places);
    cay_places_init(places, MOST);
    *state = places;
    return 0;
}

static int teardown(void **state)
{
    struct cay_places *places = *state;
    cay_places_finish(places);
    free(places);
    return 0;
}

/* As many as it gets. */
static size_t take_all(struct cay_places *places, const char *name, bool is_admin)
{
    size_t count = 0;
    bool is_full = false;
    while (cay_places_take(places, name, is_admin, &is_full))
        count++;
    return count;
}

static void leave_all(struct cay_places *places, const char *name)
{
    struct cay_party *party = cay_places_find(places, name);
    for (size_t left = party ? party->connections : 0; left > 0; left--)
        cay_places_leave(places, party);
}

static void nobody_gets_all_of_them(void **state)
{
    struct cay_places *places = *state;
    size_t first = take_all(places, "a", false);
    assert_in_range(first, SHARED * 3 / 4, SHARED * 3 / 4 + 1);
    assert_int_equal(take_all(places, "a", false), 0);
    size_t second = take_all(places, "b", false);
    assert_true(second > (SHARED - first) / 2 && second + first < SHARED);
    assert_true(take_all(places, "c", false) > 0);
    leave_all(places, "a");
    assert_true(take_all(places, "b", false) > 0);
    leave_all(places, "b");
    leave_all(places, "c");
    assert_int_equal(places->taken, 0);
}

static void the_last_ones_are_for_administrators(void **state)
{
    struct cay_places *places = *state;
    char names[40][8];
    for (size_t i = 0; i < CAY_COUNT(names); i++) {
        snprintf(names[i], sizeof(names[i]), "p%zu", i);
        (void)take_all(places, names[i], false);
    }
    assert_int_equal(places->taken, SHARED);
    assert_int_equal(take_all(places, "root", true), HELD_BACK);
    bool is_full = false;
    assert_null(cay_places_take(places, "root", true, &is_full));
    assert_true(is_full);
    for (size_t i = 0; i < CAY_COUNT(names); i++)
        leave_all(places, names[i]);
    leave_all(places, "root");
}

static bool call(struct cay_places *places, const char *owner, bool is_admin,
                 struct cay_party **connection, struct cay_party **out_call, struct cay_error *err)
{
    *out_call = NULL;
    *err = (struct cay_error){};
    return cay_places_begin_call(places, owner, is_admin, connection, out_call, err);
}

static void who_calls_is_counted_and_not_where_it_comes_from(void **state)
{
    struct cay_places *places = *state;
    struct cay_party *connections[SHARED] = {};
    struct cay_party *calls[SHARED] = {};
    struct cay_error err = {};
    bool is_full = false;
    size_t count = 0;
    /* Behind one proxy: each is known as soon as it has come. */
    while ((connections[count] = cay_places_take(places, "proxy", false, &is_full)) &&
           call(places, "evil", false, &connections[count], &calls[count], &err))
        count++;
    assert_non_null(connections[count]);
    assert_in_range(count, SHARED * 3 / 4, SHARED * 3 / 4 + 1);
    assert_int_equal(err.reason, CAY_R_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(err.text, "owner 'evil' has"));
    assert_non_null(strstr(err.text, "close some"));
    /* The connection is as it was; another owner may use it. */
    assert_ptr_equal(connections[count], cay_places_find(places, "proxy"));
    assert_true(call(places, "polite", false, &connections[count], &calls[count], &err));
    assert_null(cay_places_find(places, "proxy"));
    count++;
    for (size_t i = 0; i < count; i++) {
        cay_places_end_call(places, calls[i]);
        cay_places_leave(places, connections[i]);
    }
    assert_int_equal(places->taken, 0);
}

static void calls_over_few_connections_are_bounded(void **state)
{
    struct cay_places *places = *state;
    struct cay_party *calls[MOST + 2] = {};
    struct cay_error err = {};
    bool is_full = false;
    struct cay_party *connection = cay_places_take(places, "peer", false, &is_full);
    size_t count = 0;
    while (count < CAY_COUNT(calls) &&
           call(places, "evil", false, &connection, &calls[count], &err))
        count++;
    assert_int_equal(count, MOST);
    assert_non_null(strstr(err.text, "calls under way"));
    assert_true(call(places, "root", true, &connection, &calls[count], &err));
    count++;
    /* A second look at the same call is not another one. */
    assert_true(cay_places_begin_call(places, "root", true, &connection, &calls[MOST], &err));
    assert_int_equal(calls[MOST]->calls, 1);
    for (size_t i = 0; i < count; i++)
        cay_places_end_call(places, calls[i]);
    cay_places_leave(places, connection);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(nobody_gets_all_of_them),
        CASE(the_last_ones_are_for_administrators),
        CASE(who_calls_is_counted_and_not_where_it_comes_from),
        CASE(calls_over_few_connections_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

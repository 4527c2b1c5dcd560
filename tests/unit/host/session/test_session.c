/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/session.h"
#include "tests/unit/test.h"

#include "host/session/host.h"

static unsigned freed_count;

static void count_free(struct cay_session *)
{
    freed_count++;
}

static const struct cay_session_part counted_part = {.free = count_free};
static const struct cay_session_part *const parts[] = {&counted_part, NULL};

static int setup(void **state)
{
    struct cay_host *host = cay_new(struct cay_host);
    host->parts = parts;
    cay_sessions_init(&host->sessions);
    freed_count = 0;
    *state = host;
    return 0;
}

static int teardown(void **state)
{
    struct cay_host *host = *state;
    cay_sessions_finish(&host->sessions);
    free(host);
    return 0;
}

static void one_that_is_there_needs_nobody_to_hold_it(void **state)
{
    struct cay_host *host = *state;
    struct cay_session *session = cay_session_new(host, "one", "me");
    cay_session_ref(session);
    cay_session_unref(session);
    assert_int_equal(freed_count, 0);
    assert_ptr_equal(cay_map_get(&host->sessions.by_id, CAY_STR("one")), session);
}

static void what_is_forgotten_goes_with_the_last_who_holds_it(void **state)
{
    struct cay_host *host = *state;
    struct cay_session *session = cay_session_new(host, "one", "me");
    cay_session_ref(session);
    cay_session_ref(session);
    cay_session_forget(session);
    assert_null(cay_map_get(&host->sessions.by_id, CAY_STR("one")));
    cay_session_unref(session);
    assert_int_equal(freed_count, 0);
    cay_session_unref(session);
    assert_int_equal(freed_count, 1);
    assert_true(cay_list_empty(&host->sessions.list));
}

static void what_nobody_holds_goes_when_it_is_forgotten(void **state)
{
    struct cay_host *host = *state;
    cay_session_forget(cay_session_new(host, "one", "me"));
    assert_int_equal(freed_count, 1);
}

static void a_name_is_free_while_the_old_one_is_held(void **state)
{
    struct cay_host *host = *state;
    struct cay_session *old = cay_session_new(host, "one", "me");
    cay_session_ref(old);
    cay_session_forget(old);
    struct cay_session *young = cay_session_new(host, "one", "me");
    cay_session_unref(old);
    assert_int_equal(freed_count, 1);
    assert_ptr_equal(cay_map_get(&host->sessions.by_id, CAY_STR("one")), young);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(one_that_is_there_needs_nobody_to_hold_it),
        CASE(what_is_forgotten_goes_with_the_last_who_holds_it),
        CASE(what_nobody_holds_goes_when_it_is_forgotten),
        CASE(a_name_is_free_while_the_old_one_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

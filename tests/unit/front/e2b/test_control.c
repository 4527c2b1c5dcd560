/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "tests/unit/front/e2b/world.h"

#define KEY(key) "X-API-Key: " key "\r\n"

static int create(struct world *world, const char *body)
{
    return world_ask(world, "POST", "/v2/sandboxes", KEY("good"), body);
}

static void a_template_is_created_by_the_name_that_fits(void **state)
{
    struct world *world = *state;
    static const struct {
        const char *base; /* the one that is there */
        const char *body;
        const char *calls;
    } cases[] = {
        {"usual", "{}", "CreateSession(base:default) CreateSession(base) CreateSession(usual)"},
        {"base", "{\"templateID\":\"base\"}", "CreateSession(base:default) CreateSession(base)"},
        {"my-tools:default", "{\"templateID\":\"my-tools\"}",
         "ListSessions(my-tools) CreateSession(my-tools:default)"},
        {"my-tools:v1", "{\"templateID\":\"my-tools:v1\"}", "CreateSession(my-tools:v1)"},
        {"debian", "{\"templateID\":\"debian\"}",
         "GetSession(debian) ListSessions(debian) CreateSession(debian:default) "
         "CreateSession(debian)"},
        {"alice/x:default", "{\"templateID\":\"alice/x\"}", "CreateSession(alice/x:default)"},
        {"x-y:default", "{\"templateID\":\"bob/x-y\"}",
         "ListSessions(x-y) CreateSession(bob/x-y:default) CreateSession(x-y:default)"},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        world->hall.base = cases[i].base;
        assert_int_equal(create(world, cases[i].body), 201);
        assert_string_equal(world->hall.calls, cases[i].calls);
        assert_true(world_heard(world, "\"sandboxID\":\"made\""));
    }
}

static void a_snapshot_is_forked(void **state)
{
    struct world *world = *state;
    world->hall.snapshot = "snap1";
    assert_int_equal(create(world, "{\"templateID\":\"snap1:default\"}"), 201);
    assert_string_equal(world->hall.calls, "GetSession(snap1) ForkSession(snap1)");
}

static void what_is_not_there_is_not_found(void **state)
{
    struct world *world = *state;
    assert_int_equal(create(world, "{\"templateID\":\"my-tools\"}"), 404);
    assert_true(world_heard(world, "\"code\":404"));
    assert_string_equal(world->hall.calls, "ListSessions(my-tools) CreateSession(my-tools:default) "
                                           "CreateSession(my-tools)");
}

static void timeouts_become_lifecycles(void **state)
{
    struct world *world = *state;
    world->hall.base = "usual";
    assert_int_equal(create(world, "{}"), 201);
    assert_int_equal(world->hall.timeout_ms, 300'000);
    assert_int_equal(world->hall.on_expiry, CAY_V1_EXPIRY_ACTION_DESTROY);
    assert_int_equal(create(world, "{\"timeout\":30,\"autoPause\":true}"), 201);
    assert_int_equal(world->hall.timeout_ms, 30'000);
    assert_int_equal(world->hall.on_expiry, CAY_V1_EXPIRY_ACTION_PAUSE);
    assert_int_equal(create(world, "{\"autoPause\":true,\"autoPauseMemory\":false}"), 201);
    assert_int_equal(world->hall.on_expiry, CAY_V1_EXPIRY_ACTION_STOP);
}

static void what_makes_no_sense_calls_nobody(void **state)
{
    struct world *world = *state;
    static const char *const bodies[] = {
        "{\"timeout\":0}",
        "{\"autoPauseMemory\":false}",
        "{\"metadata\":{\"cay.e2b/name\":\"x\"}}",
        "{\"templateID\":",
        "{\"templateID\":5}",
    };
    for (size_t i = 0; i < CAY_COUNT(bodies); i++) {
        assert_int_equal(create(world, bodies[i]), 400);
        assert_string_equal(world->hall.calls, "");
    }
}

static void reasons_have_the_statuses_that_clients_know(void **state)
{
    struct world *world = *state;
    static const struct {
        enum cay_reason reason;
        int status;
    } cases[] = {
        {CAY_R_SESSION_NOT_FOUND, 404}, {CAY_R_SESSION_PAUSED, 409},
        {CAY_R_INVALID_STATE, 409},     {CAY_R_SESSION_DESTROYING, 404},
        {CAY_R_MESSAGE_TOO_LARGE, 413}, {CAY_R_RESOURCE_EXHAUSTED, 429},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        char code[32];
        snprintf(code, sizeof(code), "\"code\":%d", cases[i].status);
        world->hall.fault = cases[i].reason;
        assert_int_equal(world_ask(world, "GET", "/sandboxes/abc", KEY("good"), ""),
                         cases[i].status);
        assert_true(world_heard(world, code));
        assert_true(world_heard(world, cay_reason_info(cases[i].reason)->text));
    }
}

static void what_is_wrong_with_labels_is_told_of_metadata(void **state)
{
    struct world *world = *state;
    struct cay_error *refusal = &world->hall.refusal;
    world->hall.base = "usual";
    cay_fail(refusal, CAY_R_INVALID_ARGUMENT, "whatever the hallway says");
    assert_int_equal(create(world, "{}"), 400);
    assert_true(world_heard(world, "whatever the hallway says"));
    cay_error_fact(refusal, "field", "env");
    assert_int_equal(create(world, "{}"), 400);
    assert_true(world_heard(world, "whatever the hallway says"));
    cay_fail(refusal, CAY_R_INVALID_ARGUMENT, "whatever the hallway says");
    cay_error_fact(refusal, "field", "labels");
    assert_int_equal(create(world, "{}"), 400);
    assert_true(world_heard(world, "\"message\":\"metadata: a key has 1 to 128 bytes"));
    assert_false(world_heard(world, "whatever"));
}

static void nobody_is_heard_without_a_key_or_a_route(void **state)
{
    struct world *world = *state;
    assert_int_equal(world_ask(world, "GET", "/sandboxes/abc", KEY("bad"), ""), 401);
    assert_int_equal(world_ask(world, "GET", "/sandboxes/a/b/c", KEY("bad"), ""), 401);
    assert_int_equal(world_ask(world, "GET", "/sandboxes/a/b/c", KEY("good"), ""), 404);
    assert_int_equal(world_ask(world, "PATCH", "/sandboxes/abc", KEY("good"), ""), 405);
    assert_int_equal(world_ask(world, "GET", "/volumes/abc", KEY("good"), ""), 501);
    assert_string_equal(world->hall.calls, "");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_template_is_created_by_the_name_that_fits),
        CASE(a_snapshot_is_forked),
        CASE(what_is_not_there_is_not_found),
        CASE(timeouts_become_lifecycles),
        CASE(what_makes_no_sense_calls_nobody),
        CASE(reasons_have_the_statuses_that_clients_know),
        CASE(what_is_wrong_with_labels_is_told_of_metadata),
        CASE(nobody_is_heard_without_a_key_or_a_route),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

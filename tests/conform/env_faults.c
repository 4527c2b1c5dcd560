/* SPDX-License-Identifier: Apache-2.0 */
/* What environments that stand on a daemon do when the world around them breaks. */
#include <pthread.h>

#include "tests/conform/env_world.h"

/* A command under way, on a thread of its own, until the file `go` is there. */
struct under_way {
    pthread_t thread;
    struct cay_env *env;
    const char *log;
    const char *go;
    char params[512];
    bool is_done;
    struct cay_tool_response *response;
    struct cay_error err;
    int64_t took_ms;
};

static void *run(void *context)
{
    struct under_way *call = context;
    struct cay_tool_request request = CAY_TOOL_REQUEST;
    request.tool_name = "bash";
    request.params = call->params;
    int64_t begun_ms = world_now_ms();
    call->is_done = cay_env_execute_tool(call->env, &request, NULL, &call->response, &call->err);
    call->took_ms = world_now_ms() - begun_ms;
    return NULL;
}

static bool is_logged(void *context)
{
    const struct under_way *call = context;
    struct cay_tool_response *response =
        world_tool(call->env, "bash", "{\"cmd\":\"test -s %s\"}", call->log);
    bool is_there = !response->is_error;
    cay_tool_response_free(response);
    return is_there;
}

static void begin(struct under_way *call, struct cay_env *env)
{
    *call = (struct under_way){.env = env, .log = world_name("log"), .go = world_name("go")};
    snprintf(call->params, sizeof(call->params),
             "{\"cmd\":\"echo x >> %s; until [ -e %s ]; do sleep 0.05; done; echo said\"}",
             call->log, call->go);
    assert_int_equal(pthread_create(&call->thread, NULL, run, call), 0);
    assert_true(world_awaits(is_logged, call));
}

static void expect_run_once(const struct under_way *call, struct cay_env *env)
{
    char *text = world_bash(env, "wc -l < %s", call->log);
    assert_int_equal(strtol(text, NULL, 10), 1);
    free(text);
}

static struct cay_tool_request looking(void)
{
    struct cay_tool_request request = CAY_TOOL_REQUEST;
    request.tool_name = "list_dir";
    request.params = "{\"path\":\".\"}";
    return request;
}

/* F1 */
static void a_daemon_that_is_gone_is_said_to_be(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_make();
    struct cay_env *other = world_open();
    const struct cay_tool_request request = looking();
    const struct cay_env_capabilities can = world_capabilities(env);
    world_asks("kill");
    int64_t begun_ms = world_now_ms();
    assert_refused(cay_env_execute_tool(env, &request, NULL, NULL, &err), &err,
                   CAY_ENV_ERROR_UNAVAILABLE);
    assert_refused(cay_env_create(other, NULL, NULL, &err), &err, CAY_ENV_ERROR_UNAVAILABLE);
    assert_refused(cay_env_destroy(env, NULL, &err), &err, CAY_ENV_ERROR_UNAVAILABLE);
    assert_int_equal(cay_env_state(env), CAY_ENV_FAILED);
    assert_int_equal(cay_env_state(other), CAY_ENV_CREATING);
    assert_true(world_now_ms() - begun_ms < 10000);
    /* What was asked once is known. */
    const struct cay_env_capabilities again = world_capabilities(env);
    assert_memory_equal(&can, &again, sizeof(can));
    world_asks("start");
    assert_int_equal(cay_env_state(env), CAY_ENV_ACTIVE);
    assert_done(cay_env_execute_tool(env, &request, NULL, NULL, &err), &err);
    assert_done(cay_env_create(other, NULL, NULL, &err), &err);
    world_end(other);
    world_end(env);
}

/* F2 */
static void a_daemon_that_dies_in_a_call_does_nothing_twice(void **)
{
    struct cay_env *env = world_make();
    struct under_way call;
    begin(&call, env);
    world_asks("kill");
    world_asks("start_soon");
    pthread_join(call.thread, NULL);
    world_asks("await_start");
    /* Whether it was done is not known, and not hidden. */
    assert_refused(call.is_done, &call.err, CAY_ENV_ERROR_UNAVAILABLE);
    assert_true(call.took_ms < WORLD_PATIENCE_MS);
    assert_int_equal(cay_env_state(env), CAY_ENV_ACTIVE);
    expect_run_once(&call, env);
    world_end(env);
}

/* F3 */
static void a_connection_that_breaks_is_made_again(void **)
{
    struct cay_error err = {};
    struct cay_env *direct = world_make();
    struct cay_env *env = world_open_at(world_asks("relay"), NULL);
    assert_done(cay_env_attach(env, cay_env_session_id(direct), NULL, &err), &err);
    struct under_way call;
    begin(&call, env);
    for (int round = 0; round < 3; round++)
        world_asks("cut");
    free(world_bash(direct, "touch %s", call.go));
    pthread_join(call.thread, NULL);
    assert_done(call.is_done, &call.err);
    assert_non_null(strstr(call.response->text, "said"));
    assert_false(call.response->is_cached);
    cay_tool_response_free(call.response);
    expect_run_once(&call, direct);
    cay_env_close(env);
    world_end(direct);
}

/* F4 */
static void a_key_that_is_revoked_opens_nothing(void **)
{
    struct cay_error err = {};
    struct cay_env_options options = CAY_ENV_OPTIONS;
    const struct cay_tool_request request = looking();
    char key[256];
    snprintf(key, sizeof(key), "%s", world_asks("key"));
    options.key = key;
    struct cay_env *env = world_open_at(world_asks("tcp"), &options);
    assert_done(cay_env_create(env, NULL, NULL, &err), &err);
    assert_done(cay_env_execute_tool(env, &request, NULL, NULL, &err), &err);
    world_asks("revoke %s", key);
    assert_false(cay_env_execute_tool(env, &request, NULL, NULL, &err));
    assert_true(cay_error_is(&err, "unauthenticated"));
    assert_null(strstr(err.text, key));
    assert_int_equal(cay_env_state(env), CAY_ENV_FAILED);
    assert_false(cay_env_destroy(env, NULL, &err));
    world_asks("destroy %s", cay_env_session_id(env));
    cay_env_close(env);
}

/* F5 */
static void a_session_that_somebody_destroys_is_gone(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_make();
    const struct cay_tool_request request = looking();
    struct under_way call;
    begin(&call, env);
    world_asks("destroy %s", cay_env_session_id(env));
    pthread_join(call.thread, NULL);
    if (call.is_done) {
        assert_true(call.response->is_error);
        cay_tool_response_free(call.response);
    } else {
        enum cay_env_error error = cay_env_error_of(&call.err);
        assert_true(error == CAY_ENV_ERROR_SESSION_NOT_FOUND || error == CAY_ENV_ERROR_NOT_ACTIVE);
    }
    assert_refused(cay_env_execute_tool(env, &request, NULL, NULL, &err), &err,
                   CAY_ENV_ERROR_SESSION_NOT_FOUND);
    assert_int_equal(cay_env_state(env), CAY_ENV_DESTROYED);
    world_end(env);
}

static void nobody_listens_at_a_wrong_address(void **)
{
    struct cay_error err = {};
    static const char *const addresses[] = {"native:unix:/nowhere/cayd.sock",
                                            "native:http://127.0.0.1:9"};
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        const struct cay_env_capabilities *can = NULL;
        struct cay_env *env = world_open_at(addresses[i], NULL);
        assert_refused(cay_env_capabilities(env, NULL, &can, &err), &err,
                       CAY_ENV_ERROR_UNAVAILABLE);
        assert_refused(cay_env_create(env, NULL, NULL, &err), &err, CAY_ENV_ERROR_UNAVAILABLE);
        assert_refused(cay_env_attach(env, "x", NULL, &err), &err, CAY_ENV_ERROR_UNAVAILABLE);
        assert_done(cay_env_destroy(env, NULL, &err), &err); /* there is nothing */
        cay_env_close(env);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_daemon_that_is_gone_is_said_to_be),
        cmocka_unit_test(a_daemon_that_dies_in_a_call_does_nothing_twice),
        cmocka_unit_test(a_connection_that_breaks_is_made_again),
        cmocka_unit_test(a_key_that_is_revoked_opens_nothing),
        cmocka_unit_test(a_session_that_somebody_destroys_is_gone),
        cmocka_unit_test(nobody_listens_at_a_wrong_address),
    };
    world_begin(argc, argv);
    return cmocka_run_group_tests_name("env_faults", tests, NULL, NULL);
}

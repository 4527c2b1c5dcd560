/* SPDX-License-Identifier: Apache-2.0 */
/* Environments with many threads. */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/conform/env_world.h"

enum { THREADS_MAX = 200 };

/* One of many threads. cmocka's asserts are for the thread of the case: these count. */
struct worker {
    pthread_t thread;
    unsigned number;
    struct cay_env *env;
    struct cay_error err; /* of the first failure */
    bool has_failed;
};

static atomic_uint good_count;

static bool note(struct worker *worker, bool is_good)
{
    worker->has_failed |= !is_good;
    return is_good;
}

static void run_all(struct worker *workers, unsigned count, void *(*work)(void *context),
                    struct cay_env *env)
{
    atomic_store(&good_count, 0);
    for (unsigned i = 0; i < count; i++) {
        workers[i] = (struct worker){.number = i, .env = env};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
}

static void join_all(struct worker *workers, unsigned count)
{
    bool is_good = true;
    for (unsigned i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].has_failed)
            print_error("%u: %s (%s)\n", i, workers[i].err.text, cay_error_reason(&workers[i].err));
        is_good &= !workers[i].has_failed;
    }
    assert_true(is_good);
}

/* What a command says must be what it was asked to. */
static bool echo(struct worker *worker, struct cay_env *env, unsigned number)
{
    char params[64];
    char wanted[32];
    struct cay_tool_request request = CAY_TOOL_REQUEST;
    struct cay_tool_response *response = NULL;
    snprintf(params, sizeof(params), "{\"cmd\":\"echo said-%u\"}", number);
    snprintf(wanted, sizeof(wanted), "said-%u\n", number);
    request.tool_name = "bash";
    request.params = params;
    if (!cay_env_execute_tool(env, &request, NULL, &response, &worker->err))
        return false;
    bool is_right = strstr(response->text, wanted) != NULL;
    cay_tool_response_free(response);
    return is_right;
}

static void *live(void *context)
{
    struct worker *worker = context;
    struct cay_error *err = &worker->err;
    struct cay_env *env = NULL;
    const struct cay_env_capabilities *can = NULL;
    if (!note(worker, cay_env_open(world_address, NULL, &env, err)))
        return NULL;
    note(worker, cay_env_capabilities(env, NULL, &can, err) &&
                     cay_env_create(env, NULL, NULL, err) && echo(worker, env, worker->number) &&
                     cay_env_state(env) == CAY_ENV_ACTIVE);
    if (can && can->pause)
        note(worker, !worker->has_failed && cay_env_pause(env, NULL, err) &&
                         cay_env_state(env) == CAY_ENV_PAUSED && cay_env_resume(env, NULL, err));
    note(worker, cay_env_destroy(env, NULL, err) && cay_env_state(env) == CAY_ENV_DESTROYED);
    cay_env_close(env);
    return NULL;
}

/* ST1 */
static void fifty_lives_are_lived_at_once(void **)
{
    static struct worker workers[50];
    run_all(workers, 50, live, NULL);
    join_all(workers, 50);
}

static void *call_once(void *context)
{
    struct worker *worker = context;
    note(worker, echo(worker, worker->env, worker->number));
    return NULL;
}

/* ST2 */
static void a_hundred_tools_run_at_once(void **)
{
    static struct worker workers[100];
    struct cay_env *env = world_make();
    run_all(workers, 100, call_once, env);
    join_all(workers, 100);
    world_end(env);
}

static void *use(void *context)
{
    struct worker *worker = context;
    struct cay_env *env = NULL;
    note(worker, cay_env_open(world_address, NULL, &env, &worker->err) &&
                     cay_env_create(env, NULL, NULL, &worker->err));
    for (unsigned i = 0; i < 10 && !worker->has_failed; i++)
        note(worker, echo(worker, env, worker->number * 100 + i));
    note(worker, cay_env_destroy(env, NULL, &worker->err));
    cay_env_close(env);
    return NULL;
}

/* ST3 */
static void twenty_environments_do_not_mix(void **)
{
    static struct worker workers[20];
    run_all(workers, 20, use, NULL);
    join_all(workers, 20);
}

static void *try_create(void *context)
{
    struct worker *worker = context;
    if (!note(worker, cay_env_open(world_address, NULL, &worker->env, &worker->err)))
        return NULL;
    if (cay_env_create(worker->env, NULL, NULL, &worker->err))
        atomic_fetch_add(&good_count, 1);
    else
        note(worker, cay_env_error_of(&worker->err) == CAY_ENV_ERROR_SESSION_LIMIT_REACHED);
    return NULL;
}

/* ST4 */
static void no_more_sessions_than_there_may_be(void **)
{
    static struct worker workers[12];
    struct cay_error err = {};
    world_asks("limit 3");
    run_all(workers, 12, try_create, NULL);
    join_all(workers, 12);
    assert_int_equal(atomic_load(&good_count), 3);
    assert_int_equal(world_capabilities(workers[0].env).concurrent_sessions, 3);
    /* One that goes makes room. */
    unsigned is_in = 0;
    unsigned is_out = 0;
    for (unsigned i = 0; i < 12; i++)
        *(cay_env_state(workers[i].env) == CAY_ENV_ACTIVE ? &is_in : &is_out) = i;
    assert_done(cay_env_destroy(workers[is_in].env, NULL, &err), &err);
    assert_done(cay_env_create(workers[is_out].env, NULL, NULL, &err), &err);
    for (unsigned i = 0; i < 12; i++)
        world_end(workers[i].env);
    world_asks("unlimit");
}

/* Everything at once on one environment, until it is destroyed. */
static void *meddle(void *context)
{
    struct worker *worker = context;
    struct cay_error err = {};
    const struct cay_env_capabilities *can = NULL;
    struct cay_tool_request request = CAY_TOOL_REQUEST;
    request.tool_name = worker->number % 8 ? "list_dir" : "bash";
    request.params = worker->number % 8 ? "{\"path\":\".\"}" : "{\"cmd\":\"true\"}";
    for (int round = 0; round < 4; round++) {
        bool is_done = cay_env_execute_tool(worker->env, &request, NULL, NULL, &err);
        enum cay_env_error error = cay_env_error_of(&err);
        if (!is_done && !note(worker, error == CAY_ENV_ERROR_NOT_ACTIVE ||
                                          error == CAY_ENV_ERROR_SESSION_NOT_FOUND))
            worker->err = err;
        enum cay_env_state state = cay_env_state(worker->env);
        note(worker,
             state == CAY_ENV_ACTIVE || state == CAY_ENV_DESTROYING || state == CAY_ENV_DESTROYED);
        note(worker, cay_env_session_id(worker->env)[0] &&
                         cay_env_capabilities(worker->env, NULL, &can, &worker->err));
        if (worker->number == 100 && round == 1)
            note(worker, cay_env_destroy(worker->env, NULL, &worker->err));
    }
    return NULL;
}

static void two_hundred_threads_share_an_environment(void **)
{
    static struct worker workers[THREADS_MAX];
    struct cay_env *env = world_make();
    run_all(workers, THREADS_MAX, meddle, env);
    join_all(workers, THREADS_MAX);
    assert_int_equal(cay_env_state(env), CAY_ENV_DESTROYED);
    cay_env_close(env);
}

/* --- closing while others are inside --- */

static atomic_uint inside_count;

static void hear(void *state, const struct cay_tool_progress *progress)
{
    struct worker *worker = state;
    if (!worker->err.reason && memchr(progress->data, 'x', progress->len))
        atomic_fetch_add(&inside_count, 1);
}

static void *stay(void *context)
{
    struct worker *worker = context;
    struct cay_tool_response *response = NULL;
    struct cay_tool_request request = CAY_TOOL_REQUEST;
    request.tool_name = "bash";
    request.params = "{\"cmd\":\"echo x; sleep 0.3; echo y\"}";
    request.progress = hear;
    request.state = worker;
    /* What it gets depends on the kind; that it comes back does not. */
    if (cay_env_execute_tool(worker->env, &request, NULL, &response, &worker->err))
        cay_tool_response_free(response);
    return NULL;
}

static bool are_inside(void *context)
{
    return atomic_load(&inside_count) >= *(unsigned *)context;
}

static void an_environment_is_closed_while_others_are_inside(void **)
{
    static struct worker workers[8];
    struct cay_error err = {};
    unsigned count = 8;
    struct cay_env *env = world_make();
    struct cay_env *other = world_open();
    bool is_attached = cay_env_attach(other, cay_env_session_id(env), NULL, &err);
    atomic_store(&inside_count, 0);
    run_all(workers, count, stay, env);
    assert_true(world_awaits(are_inside, &count));
    cay_env_close(env);
    join_all(workers, count);
    if (is_attached)
        world_end(other);
    else
        cay_env_close(other);
}

/* Creates and destroys of one environment, at the same time. */
static void *race(void *context)
{
    struct worker *worker = context;
    struct cay_error err = {};
    if (worker->number % 2)
        note(worker, cay_env_destroy(worker->env, NULL, &worker->err));
    else if (cay_env_create(worker->env, NULL, NULL, &err))
        atomic_fetch_add(&good_count, 1);
    return NULL;
}

static void creating_and_destroying_do_not_cross(void **)
{
    static struct worker workers[8];
    for (int round = 0; round < 5; round++) {
        struct cay_env *env = world_open();
        run_all(workers, 8, race, env);
        join_all(workers, 8);
        assert_true(atomic_load(&good_count) <= 1);
        assert_int_equal(cay_env_state(env), CAY_ENV_DESTROYED);
        cay_env_close(env);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fifty_lives_are_lived_at_once),
        cmocka_unit_test(a_hundred_tools_run_at_once),
        cmocka_unit_test(twenty_environments_do_not_mix),
        cmocka_unit_test(no_more_sessions_than_there_may_be),
        cmocka_unit_test(two_hundred_threads_share_an_environment),
        cmocka_unit_test(an_environment_is_closed_while_others_are_inside),
        cmocka_unit_test(creating_and_destroying_do_not_cross),
    };
    world_begin(argc, argv);
    return cmocka_run_group_tests_name("env_stress", tests, NULL, NULL);
}

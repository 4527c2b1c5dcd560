/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "tests/unit/front/e2b/world.h"

#define TO_ENVD "E2b-Sandbox-Id: box\r\nE2b-Sandbox-Port: 49983\r\n"
#define TOKEN   "X-Access-Token: access\r\n"
#define JSON    "Content-Type: application/json\r\n"

static struct cay_v1_network_policy network;
static struct cay_v1_session box;

static int setup(void **state)
{
    world_setup(state);
    struct world *world = *state;
    network = (struct cay_v1_network_policy){.public_ports = true};
    box = (struct cay_v1_session){.id = CAY_STR("box"),
                                  .owner = CAY_STR("bob"),
                                  .state = CAY_V1_SESSION_STATE_ACTIVE,
                                  .network = &network};
    world->hall.sandbox = &box;
    return 0;
}

static int rpc(struct world *world, const char *path, const char *body)
{
    return world_ask(world, "POST", path, TO_ENVD TOKEN JSON, body);
}

static void a_process_is_named_by_pid_or_tag(void **state)
{
    struct world *world = *state;
    assert_int_equal(rpc(world, "/process.Process/SendSignal",
                         "{\"process\":{\"pid\":7},\"signal\":\"SIGNAL_SIGKILL\"}"),
                     200);
    assert_string_equal(world->hall.calls, "GetSession(box) KillProcess(pid:7)");
    assert_int_equal(rpc(world, "/process.Process/SendInput",
                         "{\"process\":{\"tag\":\"nap\"},\"input\":{\"stdin\":\"aGk=\"}}"),
                     200);
    assert_string_equal(world->hall.calls, "GetSession(box) SendInput(tag:nap)");
    assert_string_equal(world->hall.told, "hi");
    assert_int_equal(rpc(world, "/process.Process/SendSignal", "{\"signal\":\"SIGNAL_SIGKILL\"}"),
                     400);
    assert_string_equal(world->hall.calls, "GetSession(box)");
}

static void processes_look_as_clients_know_them(void **state)
{
    struct world *world = *state;
    assert_int_equal(rpc(world, "/process.Process/List", "{}"), 200);
    assert_string_equal(world->hall.calls, "GetSession(box) ListProcesses(box)");
    assert_true(world_heard(world,
                            "{\"processes\":[{\"config\":{\"cmd\":\"sleep\",\"args\":[\"9\"],"
                            "\"envs\":{},\"cwd\":\"/tmp\"},\"pid\":7,\"tag\":\"nap\"}]}"));
}

static void paths_are_below_the_home_of_who_asks(void **state)
{
    struct world *world = *state;
    static const struct {
        const char *path;
        const char *asked;
    } cases[] = {{"/etc/passwd", "StatFile(/etc/passwd)"},
                 {"a/b", "StatFile(~/a/b)"},
                 {"~/a", "StatFile(~/a)"},
                 {"~a", "StatFile(~/~a)"},
                 {"", "StatFile(~)"}};
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        char body[64];
        snprintf(body, sizeof(body), "{\"path\":\"%s\"}", cases[i].path);
        assert_int_equal(rpc(world, "/filesystem.Filesystem/Stat", body), 200);
        assert_non_null(strstr(world->hall.calls, cases[i].asked));
        assert_true(world_heard(world, "\"type\":\"FILE_TYPE_FILE\""));
    }
}

static void a_file_is_read_over_http(void **state)
{
    struct world *world = *state;
    assert_int_equal(world_ask(world, "GET", "/files?path=a.txt", TO_ENVD TOKEN, ""), 200);
    assert_string_equal(world->hall.calls, "GetSession(box) ReadFile(~/a.txt)");
    assert_true(world_heard(world, "\r\n\r\nabc"));
}

static void reasons_have_the_codes_that_clients_know(void **state)
{
    struct world *world = *state;
    static const struct {
        enum cay_reason reason;
        int status;
        const char *code;
    } cases[] = {
        {CAY_R_FILE_NOT_FOUND, 404, "\"code\":\"not_found\""},
        {CAY_R_NOT_A_DIRECTORY, 400, "\"code\":\"invalid_argument\""},
        {CAY_R_IS_A_DIRECTORY, 400, "\"code\":\"invalid_argument\""},
        {CAY_R_SESSION_PAUSED, 503, "\"code\":\"unavailable\""},
        {CAY_R_SESSION_NOT_FOUND, 503, "\"code\":\"unavailable\""},
        {CAY_R_USER_NOT_FOUND, 401, "invalid username: ''"},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        cay_fail(&world->hall.refusal, cases[i].reason, NULL);
        assert_int_equal(rpc(world, "/filesystem.Filesystem/Stat", "{\"path\":\"/a\"}"),
                         cases[i].status);
        assert_true(world_heard(world, cases[i].code));
    }
    cay_fail(&world->hall.refusal, CAY_R_PROCESS_NOT_FOUND, NULL);
    assert_int_equal(rpc(world, "/process.Process/SendSignal",
                         "{\"process\":{\"pid\":7},\"signal\":\"SIGNAL_SIGKILL\"}"),
                     404);
    assert_true(world_heard(world, "process with pid 7 not found"));
    cay_fail(&world->hall.refusal, CAY_R_FAILED_PRECONDITION, "in whatever words");
    cay_error_fact(&world->hall.refusal, "state", "ended");
    assert_int_equal(rpc(world, "/process.Process/SendInput", "{\"process\":{\"pid\":7}}"), 404);
    cay_fail(&world->hall.refusal, CAY_R_FILE_NOT_FOUND, "in whatever words");
    cay_error_fact(&world->hall.refusal, "path", "/workspace/a");
    assert_int_equal(world_ask(world, "GET", "/files?path=a", TO_ENVD TOKEN, ""), 404);
    assert_true(world_heard(world, "path '/workspace/a' does not exist"));
    cay_fail(&world->hall.refusal, CAY_R_NO_SPACE, NULL);
    assert_int_equal(world_ask(world, "GET", "/files?path=/a", TO_ENVD TOKEN, ""), 507);
}

/* `dXNlcg==` is the user `user`, `YTpi` is `a:b`. */
static void a_user_that_cannot_be_is_known_by_a_fact(void **state)
{
    struct world *world = *state;
    struct cay_error *refusal = &world->hall.refusal;
    const char *stat = "/filesystem.Filesystem/Stat";
    const char *asked = TO_ENVD TOKEN JSON "Authorization: Basic YTpi\r\n";
    cay_fail(refusal, CAY_R_INVALID_ARGUMENT, "user: it is so only by its words");
    assert_int_equal(world_ask(world, "POST", stat, asked, "{\"path\":\"/a\"}"), 400);
    cay_fail(refusal, CAY_R_INVALID_ARGUMENT, "in whatever words");
    cay_error_fact(refusal, "field", "user");
    assert_int_equal(world_ask(world, "POST", stat, asked, "{\"path\":\"/a\"}"), 401);
    assert_true(
        world_heard(world, "\"code\":\"unauthenticated\",\"message\":\"invalid username: '"));
    assert_int_equal(world_ask(world, "GET", "/files?path=/a&username=a:b", TO_ENVD TOKEN, ""),
                     401);
    assert_true(world_heard(world, "error looking up user 'a:b'"));
}

static void whoever_passes_sees_this_one_sandbox(void **state)
{
    struct world *world = *state;
    assert_int_equal(rpc(world, "/process.Process/List", "{}"), 200);
    assert_int_equal(world->hall.caller.role, CAY_ROLE_USER);
    assert_string_equal(world->hall.caller.owner, "bob");
    assert_string_equal(world->hall.caller.session_id, "box");
}

static void nobody_passes_without_the_token(void **state)
{
    struct world *world = *state;
    static const char *const shown[] = {TO_ENVD JSON, TO_ENVD JSON "X-Access-Token: traffic\r\n",
                                        TO_ENVD JSON "X-Access-Token: acces\r\n"};
    for (size_t i = 0; i < CAY_COUNT(shown); i++) {
        assert_int_equal(world_ask(world, "POST", "/process.Process/List", shown[i], "{}"), 401);
        assert_null(strstr(world->hall.calls, "ListProcesses"));
    }
    assert_int_equal(world_ask(world, "GET", "/files?path=/a", TO_ENVD, ""), 401);
    assert_int_equal(world_ask(world, "GET", "/health", TO_ENVD, ""), 204);
    network.public_ports = false; /* and then strangers do not even know that it is there */
    assert_int_equal(world_ask(world, "POST", "/process.Process/List", shown[0], "{}"), 502);
    assert_true(world_heard(world, "The sandbox was not found"));
}

static void one_that_does_not_run_is_not_found(void **state)
{
    struct world *world = *state;
    box.state = CAY_V1_SESSION_STATE_PAUSED;
    assert_int_equal(rpc(world, "/process.Process/List", "{}"), 502);
    assert_true(world_heard(world, "is paused; connect to it"));
    assert_string_equal(world->hall.calls, "GetSession(box)");
    struct cay_v1_lifecycle lifecycle = {.auto_resume = true};
    box.lifecycle = &lifecycle;
    assert_int_equal(rpc(world, "/process.Process/List", "{}"), 200);
    assert_string_equal(world->hall.calls, "GetSession(box) ResumeSession(box) ListProcesses(box)");
    world->hall.sandbox = NULL;
    assert_int_equal(rpc(world, "/process.Process/List", "{}"), 502);
}

static void browsers_may_ask_before_they_send(void **state)
{
    struct world *world = *state;
    assert_int_equal(world_ask(world, "OPTIONS", "/process.Process/List", TO_ENVD, ""), 204);
    assert_true(world_heard(world, "access-control-allow-origin: *"));
    assert_int_equal(world_ask(world, "OPTIONS", "/files",
                               "Access-Control-Request-Headers: e2b-sandbox-id\r\n", ""),
                     204);
    assert_string_equal(world->hall.calls, "");
    assert_int_not_equal(world_ask(world, "OPTIONS", "/elsewhere", TO_ENVD, ""), 204);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_process_is_named_by_pid_or_tag),
        CASE(processes_look_as_clients_know_them),
        CASE(paths_are_below_the_home_of_who_asks),
        CASE(a_file_is_read_over_http),
        CASE(reasons_have_the_codes_that_clients_know),
        CASE(a_user_that_cannot_be_is_known_by_a_fact),
        CASE(whoever_passes_sees_this_one_sandbox),
        CASE(nobody_passes_without_the_token),
        CASE(one_that_does_not_run_is_not_found),
        CASE(browsers_may_ask_before_they_send),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

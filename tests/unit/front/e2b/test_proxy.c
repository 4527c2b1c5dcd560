/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "api/limits.h"
#include "tests/unit/front/e2b/world.h"

#define TO_PORT "E2b-Sandbox-Id: box\r\nE2b-Sandbox-Port: 8080\r\n"

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
    world->hall.program = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Mine: 1\r\n\r\nhello";
    return 0;
}

static int get(struct world *world, const char *headers)
{
    return world_ask(world, "GET", "/page?a=b", headers, "");
}

static void a_request_goes_to_the_port_and_back(void **state)
{
    struct world *world = *state;
    assert_int_equal(get(world, TO_PORT), 200);
    assert_string_equal(world->hall.calls, "GetSession(box) ConnectPort(8080)");
    assert_true(world_heard(world, "x-mine: 1") || world_heard(world, "X-Mine: 1"));
    assert_true(world_heard(world, "\r\n\r\nhello"));
    assert_int_equal(strncmp(world->hall.told, "GET /page?a=b HTTP/1.1\r\n", 24), 0);
    assert_string_equal(world->hall.caller.session_id, "box");
}

static void what_is_for_the_daemon_goes_no_further(void **state)
{
    struct world *world = *state;
    assert_int_equal(get(world, TO_PORT "X-API-Key: good\r\nE2b-Traffic-Access-Token: traffic\r\n"
                                        "Connection: X-Hop\r\nX-Hop: 1\r\nX-Own: kept\r\n"),
                     200);
    static const char *const gone[] = {"good", "traffic", "sandbox", "X-Hop", "x-hop"};
    for (size_t i = 0; i < CAY_COUNT(gone); i++)
        assert_null(strcasestr(world->hall.told, gone[i]));
    assert_non_null(strcasestr(world->hall.told, "x-own: kept\r\n"));
}

static void private_ports_ask_for_their_token(void **state)
{
    struct world *world = *state;
    network = (struct cay_v1_network_policy){.private_ports = true};
    assert_int_equal(get(world, TO_PORT), 403);
    assert_true(world_heard(world, "secured with a traffic access token"));
    assert_int_equal(get(world, TO_PORT "E2b-Traffic-Access-Token: access\r\n"), 403);
    assert_true(world_heard(world, "The traffic access token is not valid"));
    assert_null(strstr(world->hall.calls, "ConnectPort"));
    assert_int_equal(get(world, TO_PORT "E2b-Traffic-Access-Token: traffic\r\n"), 200);
    assert_int_equal(get(world, TO_PORT "X-API-Key: good\r\n"), 200);
}

static void ports_that_are_neither_are_not_there_for_strangers(void **state)
{
    struct world *world = *state;
    network = (struct cay_v1_network_policy){};
    assert_int_equal(get(world, TO_PORT), 502);
    assert_true(world_heard(world, "The sandbox was not found"));
    assert_int_equal(get(world, TO_PORT "X-API-Key: bad\r\n"), 502);
    assert_null(strstr(world->hall.calls, "ConnectPort"));
    assert_int_equal(get(world, TO_PORT "X-API-Key: good\r\n"), 200);
}

static void the_resolver_is_nobodys_port(void **state)
{
    struct world *world = *state;
    assert_int_equal(get(world, "E2b-Sandbox-Id: box\r\nE2b-Sandbox-Port: 53\r\n"), 502);
    assert_null(strstr(world->hall.calls, "ConnectPort"));
}

static void a_port_where_nothing_listens_is_said_to_be_closed(void **state)
{
    struct world *world = *state;
    world->hall.program = NULL;
    assert_int_equal(get(world, TO_PORT), 502);
    assert_true(world_heard(world, "The sandbox is running but port is not open"));
    assert_true(world_heard(world, "\"port\":8080"));
    assert_int_equal(get(world, TO_PORT "Accept: text/html\r\n"), 502);
    assert_true(world_heard(world, "<!doctype html>"));
}

static void what_is_no_http_is_said_to_be_none(void **state)
{
    struct world *world = *state;
    static const char *const answers[] = {"SSH-2.0-OpenSSH\r\n\r\n", "",
                                          "HTTP/1.1 101 Switching Protocols\r\n\r\n"};
    for (size_t i = 0; i < CAY_COUNT(answers); i++) {
        world->hall.program = answers[i];
        assert_int_equal(get(world, TO_PORT), 502);
        assert_true(world_heard(world, "The port did not answer as HTTP"));
    }
}

static void hints_come_before_an_answer_and_not_for_ever(void **state)
{
    struct world *world = *state;
    cay_auto(cay_buf_finish) struct cay_buf said;
    cay_buf_init(&said, 1 << 16);
    for (int i = 0; i < CAY_LIMIT_HINTS; i++)
        cay_buf_append_text(&said, "HTTP/1.1 103 Early Hints\r\n\r\n");
    size_t len = said.len;
    cay_buf_append_text(&said, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    cay_buf_append(&said, "", 1);
    world->hall.program = said.data;
    assert_int_equal(get(world, TO_PORT), 200);
    said.len = len;
    cay_buf_append_text(&said, "HTTP/1.1 100 Continue\r\n\r\n");
    cay_buf_append(&said, "", 1);
    world->hall.program = said.data;
    assert_int_equal(get(world, TO_PORT), 502);
    assert_true(world_heard(world, "hints and no answer"));
}

static void traffic_wakes_what_may_be_woken(void **state)
{
    struct world *world = *state;
    struct cay_v1_lifecycle lifecycle = {};
    box.state = CAY_V1_SESSION_STATE_PAUSED;
    box.lifecycle = &lifecycle;
    assert_int_equal(get(world, TO_PORT), 502);
    assert_string_equal(world->hall.calls, "GetSession(box)");
    lifecycle.auto_resume = true;
    assert_int_equal(get(world, TO_PORT), 200);
    assert_string_equal(world->hall.calls, "GetSession(box) ResumeSession(box) ConnectPort(8080)");
    network = (struct cay_v1_network_policy){.private_ports = true};
    assert_int_equal(get(world, TO_PORT), 403);
    assert_string_equal(world->hall.calls, "GetSession(box)");
}

static void a_place_that_makes_no_sense_calls_nobody(void **state)
{
    struct world *world = *state;
    assert_int_equal(get(world, "E2b-Sandbox-Id: box\r\nE2b-Sandbox-Port: 70000\r\n"), 400);
    assert_int_equal(get(world, "E2b-Sandbox-Id: ../box\r\nE2b-Sandbox-Port: 80\r\n"), 400);
    assert_string_equal(world->hall.calls, "");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_request_goes_to_the_port_and_back),
        CASE(what_is_for_the_daemon_goes_no_further),
        CASE(private_ports_ask_for_their_token),
        CASE(ports_that_are_neither_are_not_there_for_strangers),
        CASE(the_resolver_is_nobodys_port),
        CASE(a_port_where_nothing_listens_is_said_to_be_closed),
        CASE(what_is_no_http_is_said_to_be_none),
        CASE(hints_come_before_an_answer_and_not_for_ever),
        CASE(traffic_wakes_what_may_be_woken),
        CASE(a_place_that_makes_no_sense_calls_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

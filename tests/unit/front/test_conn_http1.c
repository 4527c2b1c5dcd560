/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/front/harness.h"

#define HEALTH "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
#define CALL(method)                                  \
    "POST /cay.v1." method " HTTP/1.1\r\nHost: a\r\n" \
    "Authorization: Bearer good\r\n"

struct fixture {
    struct harness harness;
    struct cay_buf out;
    int fd;
};

static int setup(void **state)
{
    struct fixture *fixture = cay_new(struct fixture);
    harness_open(&fixture->harness);
    fixture->fd = harness_connect(&fixture->harness);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    if (fixture->fd >= 0)
        close(fixture->fd);
    harness_close(&fixture->harness);
    cay_buf_finish(&fixture->out);
    free(fixture);
    return 0;
}

static void ask(struct fixture *self, const char *request)
{
    harness_ask(&self->harness, self->fd, cay_str(request), &self->out);
}

static void requests_in_one_go_are_answered_in_turn(void **state)
{
    struct fixture *self = *state;
    ask(self, HEALTH HEALTH "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n" HEALTH);
    assert_int_equal(harness_count(&self->out, "HTTP/1.1 200 OK\r\n"), 3);
    assert_int_equal(harness_count(&self->out, "HTTP/1.1 404 Not Found\r\n"), 1);
    ask(self, HEALTH);
    assert_int_equal(harness_count(&self->out, "{\"status\":\"ok\"}"), 4);
}

static void byte_by_byte_is_the_same(void **state)
{
    struct fixture *self = *state;
    static const char request[] = CALL(
        "KeyService/ListKeys") "Content-Type: application/json\r\nTransfer-Encoding: "
                               "chunked\r\n\r\n"
                               "3\r\n{\"o\r\n0e\r\nwner\":\"hello\"}\r\n0\r\nX: y\r\n\r\n" HEALTH;
    for (size_t i = 0; i < sizeof(request) - 1; i++)
        harness_send(&self->harness, self->fd, (struct cay_str){request + i, 1});
    harness_receive(&self->harness, self->fd, &self->out);
    assert_true(harness_has(&self->out, "{\"nextPageToken\":\"hello\"}"));
    assert_true(harness_has(&self->out, "{\"status\":\"ok\"}"));
}

static void a_bad_head_is_answered_and_the_connection_ends(void **state)
{
    struct fixture *self = *state;
    ask(self, "GET / HTTP/1.1\r\nHost : a\r\n\r\n" HEALTH);
    assert_true(cay_str_starts(cay_buf_str(&self->out), "HTTP/1.1 400 Bad Request\r\n"));
    assert_true(harness_has(&self->out, "connection: close\r\n"));
    assert_int_equal(harness_count(&self->out, "HTTP/1.1"), 1);
    assert_true(harness_receive(&self->harness, self->fd, &self->out));
}

static void a_bad_chunk_is_answered_and_the_connection_ends(void **state)
{
    struct fixture *self = *state;
    ask(self, CALL("KeyService/ListKeys") "Content-Type: application/json\r\nTransfer-Encoding: "
                                          "chunked\r\n\r\n"
                                          "2\r\n{}\n0\r\n\r\n" HEALTH);
    assert_true(cay_str_starts(cay_buf_str(&self->out), "HTTP/1.1 400 Bad Request\r\n"));
    assert_true(harness_has(&self->out, "\"message\":\""));
    assert_int_equal(harness_count(&self->out, "HTTP/1.1"), 1);
    assert_true(harness_receive(&self->harness, self->fd, &self->out));
    assert_int_equal(self->harness.server->stats.exchanges_open, 0);
}

static void a_bad_chunk_in_a_stream_that_runs_cancels_it(void **state)
{
    struct fixture *self = *state;
    ask(self, CALL("ProcessService/Terminal") "Content-Type: "
                                              "application/connect+json\r\nTransfer-Encoding: "
                                              "chunked\r\n\r\n"
                                              "7\r\n\0");
    harness_send(&self->harness, self->fd, CAY_STR("\0\0\0\0\2{}\r\nnonsense"));
    harness_receive(&self->harness, self->fd, &self->out);
    assert_int_equal(self->harness.echo.open_count, 0);
    assert_int_equal(self->harness.server->stats.exchanges_open, 0);
}

static void a_client_that_never_reads_is_not_answered_for_ever(void **state)
{
    struct fixture *self = *state;
    cay_auto(cay_buf_finish) struct cay_buf requests;
    cay_buf_init(&requests, 8 << 20);
    while (requests.len < 4 << 20)
        cay_buf_append_text(&requests, HEALTH);
    harness_send(&self->harness, self->fd, cay_buf_str(&requests));
    struct cay_conn *conn = harness_conn(&self->harness);
    assert_true(cay_stream_queued(&conn->stream) < 2 * CAY_LIMIT_SEND_HIGH_BYTES);
    /* Once it reads, all that it could send is answered. */
    harness_receive(&self->harness, self->fd, &self->out);
    assert_true(self->out.len > CAY_LIMIT_SEND_HIGH_BYTES);
    assert_int_equal(harness_count(&self->out, "HTTP/1.1 200"),
                     self->harness.server->stats.received_bytes / (sizeof(HEALTH) - 1));
}

static void a_slow_reader_of_a_last_answer_gets_all_of_it(void **state)
{
    struct fixture *self = *state;
    cay_auto(cay_buf_finish) struct cay_buf body = {};
    harness_envelope(&body, 0, CAY_STR("{\"length\":400000}"));
    harness_post(&self->harness, self->fd, "FileService/ReadFile",
                 "application/connect+json\r\nConnection: close", cay_buf_str(&body));
    struct cay_conn *conn = harness_conn(&self->harness);
    assert_true(cay_stream_queued(&conn->stream) > 0);
    /* As if 20 seconds had gone by: less than send_timeout_ms. */
    cay_conn_enter(conn);
    conn->protocol->sweep(conn, cay_loop_now_ms(self->harness.loop) + 20000);
    cay_conn_leave(conn);
    assert_int_equal(self->harness.server->stats.connections_open, 1);
    assert_true(harness_receive(&self->harness, self->fd, &self->out) || self->out.len > 400000);
    assert_true(self->out.len > 400000);
    assert_memory_equal(self->out.data + self->out.len - 5, "0\r\n\r\n", 5);
}

static void a_connection_lingers_no_longer_than_it_may(void **state)
{
    struct fixture *self = *state;
    ask(self, "BAD\r\n");
    assert_int_equal(self->harness.server->stats.connections_open, 1);
    struct cay_conn *conn = harness_conn(&self->harness);
    cay_conn_enter(conn);
    conn->protocol->sweep(conn, cay_loop_now_ms(self->harness.loop) + 2500);
    cay_conn_leave(conn);
    assert_int_equal(self->harness.server->stats.connections_open, 0);
}

static void slow_heads_bodies_and_idlers_are_cut(void **state)
{
    struct fixture *self = *state;
    struct harness *harness = &self->harness;
    ask(self, HEALTH "GET /heal");
    struct cay_conn *conn = harness_conn(harness);
    cay_conn_enter(conn);
    conn->protocol->sweep(conn, cay_loop_now_ms(harness->loop) + 9000);
    cay_conn_leave(conn);
    harness_receive(harness, self->fd, &self->out);
    assert_false(harness_has(&self->out, "408"));
    cay_conn_enter(conn);
    conn->protocol->sweep(conn, cay_loop_now_ms(harness->loop) + 11000);
    cay_conn_leave(conn);
    assert_true(harness_receive(harness, self->fd, &self->out));
    assert_true(harness_has(&self->out, "HTTP/1.1 408 Request Timeout\r\n"));

    cay_autoclose int idle = harness_connect(harness);
    harness_send(harness, idle, CAY_STR(HEALTH));
    conn = harness_conn(harness);
    cay_conn_enter(conn);
    conn->protocol->sweep(conn, cay_loop_now_ms(harness->loop) + 119000);
    assert_false(conn->is_doomed);
    conn->protocol->sweep(conn, cay_loop_now_ms(harness->loop) + 121000);
    assert_true(conn->is_doomed);
    cay_conn_leave(conn);

    cay_autoclose int slow = harness_connect(harness);
    harness_send(harness, slow,
                 CAY_STR(CALL("KeyService/ListKeys") "Content-Type: application/json\r\n"
                                                     "Content-Length: 100\r\n\r\n{"));
    conn = harness_conn(harness);
    struct cay_exchange *exchange =
        CAY_CONTAINER_OF(conn->exchanges.head.next, struct cay_exchange, in_conn);
    exchange->started_ns -= INT64_C(31) * 1000000000;
    cay_conn_enter(conn);
    conn->protocol->sweep(conn, cay_loop_now_ms(harness->loop));
    cay_conn_leave(conn);
    cay_buf_clear(&self->out, 0);
    assert_true(harness_receive(harness, slow, &self->out));
    assert_true(cay_str_starts(cay_buf_str(&self->out), "HTTP/1.1 408 Request Timeout\r\n"));
    assert_int_equal(harness->server->stats.timeouts, 3);
}

static void expectations_are_met_before_the_body(void **state)
{
    struct fixture *self = *state;
    ask(self, CALL("KeyService/ListKeys") "Content-Type: application/json\r\nExpect: "
                                          "100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_true(cay_str_is(cay_buf_str(&self->out), "HTTP/1.1 100 Continue\r\n\r\n"));
    ask(self, "{}");
    assert_true(harness_has(&self->out, "HTTP/1.1 200 OK\r\n"));
    /* Without a key there is no need to send the body. */
    cay_buf_clear(&self->out, 0);
    ask(self, "POST /cay.v1.KeyService/ListKeys HTTP/1.1\r\nHost: a\r\n"
              "Content-Type: application/json\r\nExpect: 100-continue\r\n"
              "Content-Length: 2\r\n\r\n");
    assert_true(cay_str_starts(cay_buf_str(&self->out), "HTTP/1.1 401 Unauthorized\r\n"));
    assert_true(harness_has(&self->out, "connection: close\r\n"));
}

static void a_short_body_behind_an_early_answer_is_skipped(void **state)
{
    struct fixture *self = *state;
    ask(self, "POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe");
    assert_true(harness_has(&self->out, "HTTP/1.1 404"));
    assert_false(harness_has(&self->out, "connection: close"));
    ask(self, "llo" HEALTH);
    assert_true(harness_has(&self->out, "{\"status\":\"ok\"}"));
}

static void a_long_body_behind_an_early_answer_ends_the_connection(void **state)
{
    struct fixture *self = *state;
    ask(self, "POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" HEALTH);
    assert_true(harness_has(&self->out, "HTTP/1.1 404"));
    assert_true(harness_has(&self->out, "connection: close"));
    assert_int_equal(harness_count(&self->out, "HTTP/1.1"), 1);
}

static void a_caller_that_leaves_cancels_its_call(void **state)
{
    struct fixture *self = *state;
    static const char call[] = CALL(
        "FileService/RemoveFile") "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    ask(self, call);
    assert_int_equal(self->harness.echo.held_count, 1);
    assert_int_equal(self->out.len, 0);
    close(cay_take_fd(self->fd));
    harness_turn(&self->harness);
    assert_int_equal(self->harness.echo.cancelled_count, 1);
    assert_int_equal(self->harness.server->stats.connections_open, 0);
    /* The verb answers into the void. */
    echo_release(&self->harness.echo);
    assert_int_equal(self->harness.echo.open_count, 0);
}

static void requests_wait_behind_a_held_one(void **state)
{
    struct fixture *self = *state;
    ask(self, CALL("FileService/RemoveFile") "Content-Type: application/json\r\nContent-Length: "
                                             "2\r\n\r\n{}" HEALTH HEALTH);
    assert_int_equal(self->out.len, 0);
    echo_release(&self->harness.echo);
    harness_receive(&self->harness, self->fd, &self->out);
    assert_true(harness_has(&self->out, "{\"removed\":\"1\"}"));
    assert_int_equal(harness_count(&self->out, "{\"status\":\"ok\"}"), 2);
}

static void what_waits_behind_a_held_call_is_bounded(void **state)
{
    struct fixture *self = *state;
    ask(self, CALL("FileService/RemoveFile") "Content-Type: application/json\r\nContent-Length: "
                                             "2\r\n\r\n{}");
    cay_auto(cay_buf_finish) struct cay_buf flood;
    cay_buf_init(&flood, 4 << 20);
    while (flood.len < 2 << 20)
        cay_buf_append_text(&flood, HEALTH);
    harness_send(&self->harness, self->fd, cay_buf_str(&flood));
    assert_true(self->harness.server->stats.received_bytes < 200000);
    assert_int_equal(self->harness.server->stats.connections_open, 1);
    echo_release(&self->harness.echo);
    harness_receive(&self->harness, self->fd, &self->out);
    assert_true(harness_count(&self->out, "{\"status\":\"ok\"}") > 100);
}

static void deadlines_end_calls_and_the_verb_may_answer_later(void **state)
{
    struct fixture *self = *state;
    ask(self,
        CALL("FileService/RemoveFile") "Content-Type: application/json\r\nConnect-Timeout-Ms: "
                                       "1\r\nContent-Length: 2\r\n\r\n{}");
    while (!self->out.len)
        harness_receive(&self->harness, self->fd, &self->out);
    assert_true(cay_str_starts(cay_buf_str(&self->out), "HTTP/1.1 504 Gateway Timeout\r\n"));
    assert_int_equal(self->harness.echo.cancelled_count, 1);
    echo_release(&self->harness.echo);
    cay_buf_clear(&self->out, 0);
    ask(self, HEALTH);
    assert_true(harness_has(&self->out, "{\"status\":\"ok\"}"));
}

static void version_1_0_is_answered_and_closed(void **state)
{
    struct fixture *self = *state;
    ask(self, "GET /healthz HTTP/1.0\r\n\r\n");
    assert_true(harness_has(&self->out, "connection: close"));
    assert_true(harness_receive(&self->harness, self->fd, &self->out));
}

static void head_gets_no_body(void **state)
{
    struct fixture *self = *state;
    ask(self, "HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_true(harness_has(&self->out, "content-length: 16\r\n"));
    assert_memory_equal(self->out.data + self->out.len - 4, "\r\n\r\n", 4);
    assert_int_equal(harness_count(&self->out, "\r\n\r\n"), 1);
}

static void an_answer_is_sent_before_a_half_closed_connection_ends(void **state)
{
    struct fixture *self = *state;
    assert_true(send(self->fd, HEALTH, sizeof(HEALTH) - 1, 0) > 0);
    shutdown(self->fd, SHUT_WR);
    assert_true(harness_receive(&self->harness, self->fd, &self->out));
    assert_true(harness_has(&self->out, "{\"status\":\"ok\"}"));
    assert_int_equal(self->harness.server->stats.connections_open, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(requests_in_one_go_are_answered_in_turn),
        CASE(byte_by_byte_is_the_same),
        CASE(a_bad_head_is_answered_and_the_connection_ends),
        CASE(a_bad_chunk_is_answered_and_the_connection_ends),
        CASE(a_bad_chunk_in_a_stream_that_runs_cancels_it),
        CASE(a_client_that_never_reads_is_not_answered_for_ever),
        CASE(a_slow_reader_of_a_last_answer_gets_all_of_it),
        CASE(a_connection_lingers_no_longer_than_it_may),
        CASE(slow_heads_bodies_and_idlers_are_cut),
        CASE(expectations_are_met_before_the_body),
        CASE(a_short_body_behind_an_early_answer_is_skipped),
        CASE(a_long_body_behind_an_early_answer_ends_the_connection),
        CASE(a_caller_that_leaves_cancels_its_call),
        CASE(requests_wait_behind_a_held_one),
        CASE(what_waits_behind_a_held_call_is_bounded),
        CASE(deadlines_end_calls_and_the_verb_may_answer_later),
        CASE(version_1_0_is_answered_and_closed),
        CASE(head_gets_no_body),
        CASE(an_answer_is_sent_before_a_half_closed_connection_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/unit/front/http2_client.h"

static int setup(void **state)
{
    struct harness *harness = cay_new(struct harness);
    harness_open(harness);
    *state = harness;
    return 0;
}

static int teardown(void **state)
{
    harness_close(*state);
    free(*state);
    return 0;
}

static struct cay_conn *sweep(struct harness *harness, uint64_t later_ms)
{
    struct cay_conn *conn = harness_conn(harness);
    cay_conn_enter(conn);
    conn->protocol->sweep(conn, cay_loop_now_ms(harness->loop) + later_ms);
    cay_conn_leave(conn);
    return conn;
}

static void calls_of_all_kinds_are_answered_side_by_side(void **state)
{
    struct http2_client *client = http2_client_open(*state, false);
    const struct http2_answer *health =
        http2_client_call(client, "/healthz", NULL, CAY_STR(""), true);
    const struct http2_answer *unary = http2_client_call(
        client, "KeyService/ListKeys", "application/json", CAY_STR("{\"owner\":\"me\"}"), true);
    const struct http2_answer *grpc = http2_client_call(
        client, "KeyService/ListKeys", "application/grpc", CAY_STR("\0\0\0\0\4\x0A\2me"), true);
    const struct http2_answer *unknown = http2_client_call(
        client, "KeyService/Nothing", "application/grpc", CAY_STR("\0\0\0\0\0"), true);
    const struct http2_answer *stream =
        http2_client_call(client, "FileService/ReadFile", "application/grpc",
                          CAY_STR("\0\0\0\0\5\x30\x80\xDA\xC4\x09"), true);
    const struct http2_answer *upload =
        http2_client_call(client, "FileService/WriteFile", "application/grpc+proto",
                          CAY_STR("\0\0\0\0\5\x12\3abc\0\0\0\0\5\x12\3abc"), true);
    http2_client_run(client);
    assert_int_equal(health->status, 200);
    assert_true(harness_has(&health->body, "ok"));
    assert_int_equal(unary->status, 200);
    assert_true(cay_str_is(cay_buf_str(&unary->body), "{\"nextPageToken\":\"me\"}"));
    assert_true(cay_str_equal(cay_buf_str(&grpc->body), CAY_STR("\0\0\0\0\4\x12\2me")));
    assert_string_equal(grpc->grpc_status, "0");
    assert_int_equal(unknown->status, 200);
    assert_string_equal(unknown->grpc_status, "12");
    assert_true(stream->body.len > 20000000);
    assert_string_equal(stream->grpc_status, "0");
    assert_true(cay_str_equal(cay_buf_str(&upload->body), CAY_STR("\0\0\0\0\4\x10\6\x18\2")));
    for (int i = 0; i < 6; i++) {
        assert_true(client->answers[i].is_closed);
        assert_int_equal(client->answers[i].error_code, NGHTTP2_NO_ERROR);
    }
    http2_client_close(client);
}

static void a_get_with_data_is_not_confused_by_it(void **state)
{
    struct http2_client *client = http2_client_open(*state, false);
    struct cay_str junk = {cay_alloc(200000), 200000};
    const struct http2_answer *answer =
        http2_client_call(client,
                          "/cay.v1.KeyService/ListKeys?connect=v1&encoding=json"
                          "&message=%7B%22owner%22%3A%22a+b%22%7D",
                          NULL, junk, true);
    http2_client_run(client);
    assert_true(cay_str_is(cay_buf_str(&answer->body), "{\"nextPageToken\":\"a b\"}"));
    free((void *)(uintptr_t)junk.ptr);
    http2_client_close(client);
}

static void an_early_answer_lets_the_upload_end(void **state)
{
    struct http2_client *client = http2_client_open(*state, false);
    struct cay_str junk = {cay_alloc(5 << 20), 5 << 20};
    const struct http2_answer *answer =
        http2_client_call(client, "KeyService/Nothing", "application/json", junk, true);
    http2_client_run(client);
    assert_int_equal(answer->status, 404);
    assert_true(answer->is_closed);
    assert_int_equal(answer->upload.len, 0);
    free((void *)(uintptr_t)junk.ptr);
    http2_client_close(client);
}

static void a_stream_that_nobody_reads_is_bounded_and_cut(void **state)
{
    struct harness *harness = *state;
    struct http2_client *client = http2_client_open(harness, true);
    struct http2_answer *answer =
        http2_client_call(client, "FileService/ReadFile", "application/grpc",
                          CAY_STR("\0\0\0\0\5\x30\x80\xDA\xC4\x09"), true);
    http2_client_run(client);
    assert_int_equal(answer->body.len, 65535);
    assert_int_equal(harness->echo.open_count, 1);
    sweep(harness, 20000);
    http2_client_run(client);
    assert_false(answer->is_closed);
    /* A neighbour goes on. */
    struct http2_answer *other = http2_client_call(client, "/healthz", NULL, CAY_STR(""), true);
    nghttp2_submit_window_update(client->session, NGHTTP2_FLAG_NONE, 0, 100000);
    http2_client_run(client);
    assert_int_equal(other->status, 200);
    sweep(harness, 40000);
    http2_client_run(client);
    assert_true(answer->is_closed);
    assert_int_equal(answer->error_code, NGHTTP2_INTERNAL_ERROR);
    assert_int_equal(harness->echo.open_count, 0);
    http2_client_close(client);
}

static void a_unary_answer_that_nobody_reads_is_cut(void **state)
{
    struct harness *harness = *state;
    struct http2_client *client = http2_client_open(harness, true);
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, 1 << 20);
    cay_buf_append_text(&body, "{\"owner\":\"");
    for (int i = 0; i < 200000; i++)
        cay_buf_append_byte(&body, 'x');
    cay_buf_append_text(&body, "\"}");
    struct http2_answer *answer = http2_client_call(client, "KeyService/ListKeys",
                                                    "application/json", cay_buf_str(&body), true);
    http2_client_run(client);
    assert_int_equal(answer->status, 200);
    assert_int_equal(answer->body.len, 65535);
    sweep(harness, 31000);
    http2_client_run(client);
    assert_true(answer->is_closed);
    assert_int_equal(harness->server->stats.exchanges_open, 0);
    http2_client_close(client);
}

/* Streams over the limit before the client has acknowledged the limit: each is refused with a frame
 * that waits in nghttp2 while the client does not read. */
static void a_client_that_never_reads_fills_nothing(void **state)
{
    struct harness *harness = *state;
    cay_autoclose int fd = harness_connect(harness);
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    harness_send(harness, fd, (struct cay_str){preface, sizeof(preface) - 1});
    cay_auto(cay_buf_finish) struct cay_buf flood;
    cay_buf_init(&flood, 64 << 20);
    for (uint32_t id = 1; id < 1200000; id += 2) {
        /* HEADERS of a whole request: GET http / */
        const unsigned char id_bytes[] = {(unsigned char)(id >> 24), (unsigned char)(id >> 16),
                                          (unsigned char)(id >> 8), (unsigned char)id};
        cay_buf_append(&flood, "\0\0\3\1\5", 5);
        cay_buf_append(&flood, id_bytes, 4);
        cay_buf_append(&flood, "\x82\x86\x84", 3);
    }
    struct mallinfo2 before = mallinfo2();
    harness_send(harness, fd, cay_buf_str(&flood));
    struct mallinfo2 after = mallinfo2();
    assert_true(after.uordblks < before.uordblks + (8 << 20));
    struct cay_conn *conn = harness_conn(harness);
    assert_true(cay_stream_queued(&conn->stream) < CAY_LIMIT_SEND_HIGH_BYTES + (64 << 10));
}

static void cancelled_streams_cancel_their_calls(void **state)
{
    struct harness *harness = *state;
    struct http2_client *client = http2_client_open(harness, false);
    for (int i = 0; i < 20; i++)
        http2_client_call(client, "FileService/RemoveFile", "application/json", CAY_STR("{}"),
                          true);
    http2_client_run(client);
    assert_int_equal(harness->echo.held_count, 20);
    for (int i = 0; i < 20; i += 2)
        nghttp2_submit_rst_stream(client->session, NGHTTP2_FLAG_NONE, 1 + 2 * i, NGHTTP2_CANCEL);
    http2_client_run(client);
    assert_int_equal(harness->echo.cancelled_count, 10);
    echo_release(&harness->echo);
    http2_client_run(client);
    for (int i = 1; i < 20; i += 2)
        assert_int_equal(client->answers[i].status, 200);
    http2_client_close(client);
}

static void a_connection_that_goes_cancels_all_its_calls(void **state)
{
    struct harness *harness = *state;
    struct http2_client *client = http2_client_open(harness, false);
    for (int i = 0; i < 20; i++)
        http2_client_call(client, "FileService/RemoveFile", "application/json", CAY_STR("{}"),
                          true);
    http2_client_call(client, "ProcessService/Terminal", "application/connect+json", CAY_STR(""),
                      false);
    http2_client_run(client);
    http2_client_close(client);
    harness_turn(harness);
    assert_int_equal(harness->echo.cancelled_count, 21);
    assert_int_equal(harness->server->stats.connections_open, 0);
}

static void a_slow_upload_is_reset_and_a_stream_is_not(void **state)
{
    struct harness *harness = *state;
    struct http2_client *client = http2_client_open(harness, false);
    struct http2_answer *slow =
        http2_client_call(client, "KeyService/ListKeys", "application/json", CAY_STR("{"), false);
    struct http2_answer *stream = http2_client_call(client, "ProcessService/Terminal",
                                                    "application/grpc", CAY_STR(""), false);
    http2_client_run(client);
    struct cay_conn *conn = harness_conn(harness);
    cay_list_for_each (struct cay_exchange, exchange, &conn->exchanges, in_conn)
        exchange->started_ns -= INT64_C(40) * 1000000000;
    sweep(harness, 0);
    http2_client_run(client);
    assert_true(slow->is_closed);
    assert_false(stream->is_closed);
    http2_client_close(client);
}

static void idle_connections_are_sent_away(void **state)
{
    struct harness *harness = *state;
    struct http2_client *client = http2_client_open(harness, false);
    http2_client_call(client, "/healthz", NULL, CAY_STR(""), true);
    http2_client_run(client);
    sweep(harness, 121000);
    http2_client_run(client);
    assert_true(client->got_goaway);
    assert_true(client->is_gone);
    assert_int_equal(harness->server->stats.connections_open, 0);
    http2_client_close(client);
}

static void a_peer_that_is_silent_is_pinged_and_cut(void **state)
{
    struct harness *harness = *state;
    struct http2_client *client = http2_client_open(harness, false);
    http2_client_call(client, "FileService/RemoveFile", "application/json", CAY_STR("{}"), true);
    http2_client_run(client);
    sweep(harness, 31000);
    http2_client_run(client); /* answers */
    struct cay_conn *conn = sweep(harness, 62000);
    assert_false(conn->is_doomed);
    sweep(harness, 83000);
    assert_int_equal(harness->server->stats.connections_open, 0);
    http2_client_close(client);
}

static void a_drain_lets_calls_finish_and_takes_no_new_ones(void **state)
{
    struct harness *harness = *state;
    struct http2_client *client = http2_client_open(harness, false);
    struct http2_answer *held = http2_client_call(client, "FileService/RemoveFile",
                                                  "application/json", CAY_STR("{}"), true);
    http2_client_run(client);
    struct cay_conn *conn = harness_conn(harness);
    cay_conn_enter(conn);
    conn->is_draining = true;
    conn->protocol->drain(conn);
    cay_conn_leave(conn);
    http2_client_run(client);
    assert_true(client->got_goaway);
    assert_false(held->is_closed);
    echo_release(&harness->echo);
    http2_client_run(client);
    assert_int_equal(held->status, 200);
    assert_true(client->is_gone);
    assert_int_equal(harness->server->stats.connections_open, 0);
    http2_client_close(client);
}

static void heads_over_the_limit_are_refused(void **state)
{
    struct harness *harness = *state;
    struct http2_client *client = http2_client_open(harness, false);
    char name[16];
    nghttp2_nv fields[120];
    size_t count = 0;
    static const char *const pseudo[][2] = {
        {":method", "GET"}, {":scheme", "http"}, {":path", "/healthz"}, {":authority", "a"}};
    for (; count < 4; count++)
        fields[count] = (nghttp2_nv){(uint8_t *)(uintptr_t)pseudo[count][0],
                                     (uint8_t *)(uintptr_t)pseudo[count][1],
                                     strlen(pseudo[count][0]), strlen(pseudo[count][1]), 0};
    snprintf(name, sizeof(name), "x-many");
    for (; count < CAY_COUNT(fields); count++)
        fields[count] = (nghttp2_nv){(uint8_t *)name, (uint8_t *)name, 6, 6, 0};
    cay_buf_init(&client->answers[0].body, 4096);
    cay_buf_init(&client->answers[1].body, 4096);
    nghttp2_submit_request(client->session, NULL, fields, count, NULL, NULL);
    char *large = cay_alloc(40000);
    memset(large, 'x', 40000);
    fields[4] = (nghttp2_nv){(uint8_t *)name, (uint8_t *)large, 6, 40000, 0};
    nghttp2_submit_request(client->session, NULL, fields, 5, NULL, NULL);
    http2_client_run(client);
    assert_int_equal(client->answers[0].status, 431);
    assert_true(client->answers[1].status == 431 || client->answers[1].is_closed);
    free(large);
    http2_client_close(client);
}

static void what_is_not_http2_is_hung_up_on(void **state)
{
    struct harness *harness = *state;
    static const struct cay_str bad[] = {
        CAY_STR("PRI * HTTP/1.1\r\nHost: a\r\n\r\n"),
        CAY_STR("PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"),
        CAY_STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\1\6\0\0\0\0\0x"),
        CAY_STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0\xFF\xFF\xFF\0\0\0\0\0\1"),
        CAY_STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0\0\0\1\1\5\0\0\0\1\xFF"),
        CAY_STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0\0\0\1\0\0\0\0\0\1x"),
    };
    for (size_t i = 0; i < CAY_COUNT(bad); i++) {
        cay_auto(cay_buf_finish) struct cay_buf out = {};
        cay_autoclose int fd = harness_connect(harness);
        harness_send(harness, fd, bad[i]);
        assert_true(harness_receive(harness, fd, &out));
        assert_int_equal(harness->server->stats.connections_open, 0);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(calls_of_all_kinds_are_answered_side_by_side),
        CASE(a_get_with_data_is_not_confused_by_it),
        CASE(an_early_answer_lets_the_upload_end),
        CASE(a_stream_that_nobody_reads_is_bounded_and_cut),
        CASE(a_unary_answer_that_nobody_reads_is_cut),
        CASE(a_client_that_never_reads_fills_nothing),
        CASE(cancelled_streams_cancel_their_calls),
        CASE(a_connection_that_goes_cancels_all_its_calls),
        CASE(a_slow_upload_is_reset_and_a_stream_is_not),
        CASE(idle_connections_are_sent_away),
        CASE(a_peer_that_is_silent_is_pinged_and_cut),
        CASE(a_drain_lets_calls_finish_and_takes_no_new_ones),
        CASE(heads_over_the_limit_are_refused),
        CASE(what_is_not_http2_is_hung_up_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

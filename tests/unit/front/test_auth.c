/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/front/harness.h"

/* Doors before a service that takes its time to say who is there. */

struct fixture {
    struct harness harness;
    struct cay_buf out;
    int fd;
};

static int setup(void **state)
{
    struct fixture *fixture = cay_new(struct fixture);
    harness_open(&fixture->harness);
    fixture->harness.echo.thinks = true;
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

static void send_text(struct fixture *self, const char *key, const char *rest)
{
    char text[1024];
    int len = snprintf(text, sizeof(text),
                       "POST /cay.v1.KeyService/ListKeys HTTP/1.1\r\nHost: a\r\nX-API-Key: %s\r\n"
                       "Content-Type: application/json\r\n%s",
                       key, rest);
    cay_buf_clear(&self->out, 0);
    harness_send(&self->harness, self->fd, (struct cay_str){text, (size_t)len});
}

static bool has(struct fixture *self, const char *text)
{
    harness_receive(&self->harness, self->fd, &self->out);
    return self->out.len && harness_has(&self->out, text);
}

static bool is_silent(struct fixture *self)
{
    return !harness_receive(&self->harness, self->fd, &self->out) && !self->out.len;
}

static void a_call_waits_until_its_caller_is_known(void **state)
{
    struct fixture *self = *state;
    send_text(self, "good", "Content-Length: 14\r\n\r\n{\"owner\":\"me\"}");
    assert_true(is_silent(self));
    assert_int_equal(self->harness.echo.asking_count, 1);
    echo_tell(&self->harness.echo);
    assert_true(has(self, "HTTP/1.1 200 OK\r\n"));
    assert_true(has(self, "{\"nextPageToken\":\"me\"}"));
}

static void the_body_may_come_later_than_the_answer(void **state)
{
    struct fixture *self = *state;
    send_text(self, "good", "Content-Length: 14\r\n\r\n{\"own");
    echo_tell(&self->harness.echo);
    assert_true(is_silent(self));
    harness_send(&self->harness, self->fd, CAY_STR("er\":\"me\"}"));
    assert_true(has(self, "{\"nextPageToken\":\"me\"}"));
}

static void who_may_not_is_refused_before_the_body_is_read(void **state)
{
    struct fixture *self = *state;
    send_text(self, "bad", "Content-Length: 9999999\r\n\r\n{");
    assert_true(is_silent(self));
    echo_tell(&self->harness.echo);
    assert_true(has(self, "HTTP/1.1 401 Unauthorized\r\n"));
    assert_true(has(self, "\"code\":\"unauthenticated\""));
}

/* What is read ahead is bounded, whoever it is. */
static void no_more_than_a_piece_is_read_meanwhile(void **state)
{
    struct fixture *self = *state;
    enum { BODY_BYTES = 8 * 1024 * 1024 };
    char *body = cay_alloc(BODY_BYTES);
    memset(body, ' ', BODY_BYTES);
    send_text(self, "good", "Content-Length: 8388608\r\n\r\n");
    harness_send(&self->harness, self->fd, (struct cay_str){body, BODY_BYTES});
    const struct cay_exchange *exchange = CAY_CONTAINER_OF(
        harness_conn(&self->harness)->exchanges.head.next, const struct cay_exchange, in_conn);
    assert_in_range(exchange->body_bytes, 1, 2 * CAY_LIMIT_BODY_QUEUE_BYTES);
    free(body);
    echo_tell(&self->harness.echo);
}

static void who_waits_to_send_is_told_to_when_known(void **state)
{
    struct fixture *self = *state;
    send_text(self, "good", "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    assert_true(is_silent(self));
    echo_tell(&self->harness.echo);
    assert_true(has(self, "HTTP/1.1 100 Continue\r\n\r\n"));
    harness_send(&self->harness, self->fd, CAY_STR("{}"));
    assert_true(has(self, "HTTP/1.1 200 OK\r\n"));
    send_text(self, "bad", "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    echo_tell(&self->harness.echo);
    assert_true(has(self, "HTTP/1.1 401 Unauthorized\r\n"));
    assert_false(harness_has(&self->out, "100 Continue"));
}

static void a_deadline_does_not_wait_for_the_answer(void **state)
{
    struct fixture *self = *state;
    send_text(self, "good", "Connect-Timeout-Ms: 0\r\nContent-Length: 2\r\n\r\n{}");
    assert_true(has(self, "\"code\":\"deadline_exceeded\""));
    echo_tell(&self->harness.echo); /* nobody asks any more */
    send_text(self, "good", "Connect-Timeout-Ms: x\r\nContent-Length: 2\r\n\r\n{}");
    echo_tell(&self->harness.echo);
    assert_true(has(self, "connect-timeout-ms 'x' is not a timeout"));
}

static void who_hangs_up_is_forgotten(void **state)
{
    struct fixture *self = *state;
    send_text(self, "good", "Content-Length: 2\r\n\r\n{}");
    close(cay_take_fd(self->fd));
    harness_turn(&self->harness);
    assert_int_equal(self->harness.server->stats.exchanges_open, 0);
    assert_null(self->harness.echo.asking[0]);
    echo_tell(&self->harness.echo);
}

static void streams_wait_too(void **state)
{
    struct fixture *self = *state;
    cay_auto(cay_buf_finish) struct cay_buf body = {};
    harness_envelope(&body, 0, CAY_STR("{\"data\":\"aGVsbG8=\"}"));
    harness_envelope(&body, 0, CAY_STR("{\"data\":\"aGVsbG8=\"}"));
    harness_post(&self->harness, self->fd, "FileService/WriteFile", "application/connect+json",
                 cay_buf_str(&body));
    assert_true(is_silent(self));
    echo_tell(&self->harness.echo);
    assert_true(has(self, "\"bytesWritten\":\"10\""));
}

static void pages_wait_too(void **state)
{
    struct fixture *self = *state;
    static const char good[] = "GET /metrics HTTP/1.1\r\nHost: a\r\nX-API-Key: good\r\n\r\n";
    static const char bad[] = "GET /metrics HTTP/1.1\r\nHost: a\r\nX-API-Key: bad\r\n\r\n";
    harness_send(&self->harness, self->fd, cay_str(good));
    assert_true(is_silent(self));
    echo_tell(&self->harness.echo);
    assert_true(has(self, "cay_build_info{version="));
    cay_buf_clear(&self->out, 0);
    harness_send(&self->harness, self->fd, cay_str(bad));
    echo_tell(&self->harness.echo);
    assert_true(has(self, "HTTP/1.1 401 Unauthorized\r\n"));
    harness_send(&self->harness, self->fd, cay_str(good));
    close(cay_take_fd(self->fd));
    harness_turn(&self->harness);
    assert_int_equal(self->harness.server->stats.exchanges_open, 0);
    echo_tell(&self->harness.echo);
}

/* How an answer to "on whose behalf" looks; who is there is known at once here. */
static void only_who_is_trusted_vouches(void **state)
{
    struct fixture *self = *state;
    static const struct {
        const char *headers;
        const char *answer;
    } cases[] = {
        {"good\r\nCay-On-Behalf-Of: role=user; owner=alice", "\"code\":\"permission_denied\""},
        {"trusted\r\nCay-On-Behalf-Of: role=user; owner=alice", "HTTP/1.1 200 OK\r\n"},
        {"trusted\r\nCay-On-Behalf-Of: role=admin; owner=alice; door", "HTTP/1.1 200 OK\r\n"},
        {"trusted\r\nCay-On-Behalf-Of: alice", "\"code\":\"invalid_argument\""},
        {"trusted\r\nCay-On-Behalf-Of:", "\"code\":\"invalid_argument\""},
        {"bad\r\nCay-On-Behalf-Of: role=user; owner=alice", "\"code\":\"unauthenticated\""},
    };
    self->harness.echo.thinks = false;
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        send_text(self, cases[i].headers, "Content-Length: 2\r\n\r\n{}");
        if (!has(self, cases[i].answer))
            fail_msg("%s: %.*s", cases[i].headers, (int)self->out.len, self->out.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_call_waits_until_its_caller_is_known, setup, teardown),
        cmocka_unit_test_setup_teardown(the_body_may_come_later_than_the_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(who_may_not_is_refused_before_the_body_is_read, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(no_more_than_a_piece_is_read_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(who_waits_to_send_is_told_to_when_known, setup, teardown),
        cmocka_unit_test_setup_teardown(a_deadline_does_not_wait_for_the_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(who_hangs_up_is_forgotten, setup, teardown),
        cmocka_unit_test_setup_teardown(streams_wait_too, setup, teardown),
        cmocka_unit_test_setup_teardown(pages_wait_too, setup, teardown),
        cmocka_unit_test_setup_teardown(only_who_is_trusted_vouches, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "tests/unit/front/harness.h"
#include "tests/unit/io/tls_pair.h"

#define HEALTH "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"

struct fixture {
    struct harness harness;
    struct cay_buf out;
    const char *address;
    bool is_drained;
};

static int setup(void **state)
{
    struct fixture *self = cay_new(struct fixture);
    struct cay_error err = {};
    signal(SIGPIPE, SIG_IGN);
    harness_open(&self->harness);
    assert_true(
        cay_server_listen(self->harness.server, "127.0.0.1:0", false, &self->address, &err));
    *state = self;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *self = *state;
    harness_close(&self->harness);
    cay_buf_finish(&self->out);
    free(self);
    return 0;
}

/* By TCP from an address of this machine. */
static int dial_from(const struct fixture *self, uint32_t from)
{
    uint64_t port = 0;
    assert_int_equal(cay_str_to_u64(cay_str(strrchr(self->address, ':') + 1), 65535, &port), 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in own = {.sin_family = AF_INET};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    own.sin_addr.s_addr = htonl(from);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (void *)&own, sizeof(own)), 0);
    assert_int_equal(connect(fd, (void *)&to, sizeof(to)), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static int dial(const struct fixture *self)
{
    return dial_from(self, INADDR_LOOPBACK);
}

static int dial_unix(struct fixture *self)
{
    char address[64] = "unix:/tmp/cay-test-XXXXXX";
    const char *bound = NULL;
    struct cay_error err = {};
    int made = mkstemp(address + 5);
    assert_true(made >= 0);
    close(made);
    unlink(address + 5);
    assert_true(cay_server_listen(self->harness.server, address, false, &bound, &err));
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof(name.sun_path), "%s", address + 5);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (void *)&name, sizeof(name)), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static size_t count_fds(void)
{
    size_t count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void a_thousand_connections_leave_nothing(void **state)
{
    struct fixture *self = *state;
    size_t before = count_fds();
    for (int i = 0; i < 1000; i++) {
        int fd = dial(self);
        if (i % 3 == 0)
            harness_ask(&self->harness, fd, CAY_STR(HEALTH), &self->out);
        if (i % 3 == 1)
            harness_send(&self->harness, fd, CAY_STR("GET /he"));
        close(fd);
        harness_turn(&self->harness);
    }
    for (int i = 0; i < 100 && self->harness.server->stats.connections_open; i++)
        harness_turn(&self->harness);
    assert_int_equal(self->harness.server->stats.connections_open, 0);
    assert_int_equal(self->harness.server->stats.connections_accepted, 1000);
    assert_int_equal(count_fds(), before);
}

/* A place for whoever else comes. */
static void check_others(struct fixture *self, int other)
{
    harness_ask(&self->harness, other, CAY_STR(HEALTH), &self->out);
    assert_true(harness_has(&self->out, "200 OK"));
    cay_buf_clear(&self->out, 0);
    cay_autoclose int local = dial_unix(self);
    harness_ask(&self->harness, local, CAY_STR(HEALTH), &self->out);
    assert_true(harness_has(&self->out, "200 OK"));
    cay_buf_clear(&self->out, 0);
}

static void idle_connections_keep_nobody_away(void **state)
{
    struct fixture *self = *state;
    int fds[101];
    for (size_t i = 0; i < CAY_COUNT(fds); i++) {
        fds[i] = dial(self);
        harness_turn(&self->harness);
    }
    cay_autoclose int other = dial_from(self, INADDR_LOOPBACK + 1);
    harness_turn(&self->harness);
    check_others(self, other);
    /* The oldest have made way for the newest. */
    assert_int_equal(self->harness.server->stats.connections_refused, 0);
    assert_true(harness_receive(&self->harness, fds[0], &self->out));
    harness_ask(&self->harness, fds[100], CAY_STR(HEALTH), &self->out);
    assert_true(harness_has(&self->out, "200 OK"));
    for (size_t i = 0; i < CAY_COUNT(fds); i++)
        close(fds[i]);
}

static void streams_of_one_owner_keep_nobody_away(void **state)
{
    static const char stream[] = "POST /cay.v1.FileService/WriteFile HTTP/1.1\r\nHost: a\r\n"
                                 "X-API-Key: good\r\nContent-Type: application/connect+proto\r\n"
                                 "Transfer-Encoding: chunked\r\n\r\n";
    struct fixture *self = *state;
    int fds[101];
    size_t refused = 0;
    for (size_t i = 0; i < CAY_COUNT(fds); i++) {
        fds[i] = dial(self);
        harness_turn(&self->harness);
        harness_send(&self->harness, fds[i], cay_str(stream));
        harness_turn(&self->harness);
        cay_buf_clear(&self->out, 0);
        /* It is told why, and its connection ends with that. */
        (void)harness_receive(&self->harness, fds[i], &self->out);
        refused += harness_has(&self->out, "owner 'tester' has") &&
                   harness_has(&self->out, "connection: close");
    }
    assert_in_range(refused, 25, 35);
    cay_buf_clear(&self->out, 0);
    /* Also from where they come. */
    cay_autoclose int other = dial(self);
    harness_turn(&self->harness);
    check_others(self, other);
    for (size_t i = 0; i < CAY_COUNT(fds); i++)
        close(fds[i]);
}

static void connections_over_the_limit_are_hung_up_on(void **state)
{
    struct fixture *self = *state;
    int fds[200];
    for (size_t i = 0; i < CAY_COUNT(fds); i++) {
        fds[i] = dial_from(self, INADDR_LOOPBACK + (uint32_t)i);
        harness_turn(&self->harness);
    }
    /* But for those that are held back. */
    assert_int_equal(self->harness.server->stats.connections_open, 94);
    assert_int_equal(self->harness.server->stats.connections_refused, CAY_COUNT(fds) - 94);
    assert_true(harness_receive(&self->harness, fds[199], &self->out));
    assert_true(harness_has(&self->out, "max_connections"));
    cay_buf_clear(&self->out, 0);
    check_others(self, fds[0]);
    for (size_t i = 0; i < CAY_COUNT(fds); i++)
        close(fds[i]);
}

static void on_drained(void *context)
{
    ((struct fixture *)context)->is_drained = true;
}

static void a_drain_waits_for_what_runs(void **state)
{
    struct fixture *self = *state;
    struct harness *harness = &self->harness;
    cay_autoclose int idle = dial(self);
    cay_autoclose int busy = dial(self);
    cay_autoclose int fresh = dial(self);
    harness_ask(harness, idle, CAY_STR(HEALTH), &self->out);
    harness_post(harness, busy, "FileService/RemoveFile", "application/json", CAY_STR("{}"));
    assert_int_equal(harness->echo.held_count, 1);
    cay_server_drain(harness->server, 60000, on_drained, self);
    /* Idle ones go, no new one comes, the busy one goes on, and who has just come may still ask. */
    assert_true(harness_receive(harness, idle, &self->out));
    close(cay_take_fd(idle));
    cay_buf_clear(&self->out, 0);
    harness_send(harness, fresh, CAY_STR(HEALTH));
    assert_true(harness_receive(harness, fresh, &self->out));
    assert_true(harness_has(&self->out, "200 OK") && harness_has(&self->out, "connection: close"));
    close(cay_take_fd(fresh));
    harness_turn(harness);
    assert_false(self->is_drained);
    assert_int_equal(harness->server->stats.connections_open, 1);
    echo_release(&harness->echo);
    cay_buf_clear(&self->out, 0);
    assert_true(harness_receive(harness, busy, &self->out));
    assert_true(harness_has(&self->out, "200 OK"));
    assert_true(harness_has(&self->out, "connection: close"));
    close(cay_take_fd(busy));
    harness_turn(harness);
    assert_true(self->is_drained);
}

static void a_drain_that_takes_too_long_is_cut(void **state)
{
    struct fixture *self = *state;
    struct harness *harness = &self->harness;
    cay_autoclose int busy = dial(self);
    harness_post(harness, busy, "FileService/RemoveFile", "application/json", CAY_STR("{}"));
    cay_server_drain(harness->server, 1, on_drained, self);
    while (!self->is_drained)
        harness_turn(harness);
    assert_int_equal(harness->echo.cancelled_count, 1);
    assert_true(harness_receive(harness, busy, &self->out));
}

static void a_drain_with_nobody_there_ends_at_once(void **state)
{
    struct fixture *self = *state;
    cay_server_drain(self->harness.server, 60000, on_drained, self);
    assert_true(self->is_drained);
}

static void a_caller_on_the_unix_socket_needs_no_key(void **state)
{
    struct fixture *self = *state;
    cay_autoclose int fd = dial_unix(self);
    static const char call[] = "POST /cay.v1.KeyService/ListKeys HTTP/1.1\r\nHost: a\r\n"
                               "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    harness_ask(&self->harness, fd, cay_str(call), &self->out);
    assert_true(harness_has(&self->out, "200 OK"));
    /* One that is sent counts. */
    static const char bad[] = "POST /cay.v1.KeyService/ListKeys HTTP/1.1\r\nHost: a\r\n"
                              "X-API-Key: bad\r\nContent-Type: application/json\r\n"
                              "Content-Length: 2\r\n\r\n{}";
    harness_ask(&self->harness, fd, cay_str(bad), &self->out);
    assert_true(harness_has(&self->out, "401 Unauthorized"));
    cay_autoclose int tcp = dial(self);
    cay_buf_clear(&self->out, 0);
    harness_ask(&self->harness, tcp, cay_str(call), &self->out);
    assert_true(harness_has(&self->out, "401 Unauthorized"));
}

/* An answer whose end is the end of the connection, over TLS: the client must see that end. */
static void the_end_of_an_answer_is_told_over_tls(void **state)
{
    struct fixture *self = *state;
    struct harness *harness = &self->harness;
    struct tls_pair pair;
    struct cay_tls *tls = NULL;
    struct cay_error err = {};
    tls_pair_open(&pair);
    assert_true(cay_tls_create(pair.cert, pair.key, &tls, &err));
    cay_server_set_tls(harness->server, tls);
    assert_true(cay_server_listen(harness->server, "127.0.0.1:0", true, &self->address, &err));
    int fd = dial(self);
    SSL *client = tls_pair_connect(&pair, fd, "\x08http/1.1");
    for (int i = 0; i < 100 && SSL_do_handshake(client) != 1; i++)
        harness_turn(harness);
    static const char request[] = "GET /healthz HTTP/1.0\r\n\r\n";
    assert_int_equal(SSL_write(client, request, sizeof(request) - 1), sizeof(request) - 1);
    char bytes[1024];
    int got = -1;
    int total = 0;
    for (int i = 0; i < 100 && got != 0; i++) {
        harness_turn(harness);
        got = SSL_read(client, bytes + total, (int)sizeof(bytes) - total);
        total += got > 0 ? got : 0;
        if (got <= 0 && SSL_get_error(client, got) != SSL_ERROR_WANT_READ)
            break;
    }
    assert_true(total > 100);
    assert_int_equal(SSL_get_error(client, got), SSL_ERROR_ZERO_RETURN);
    SSL_free(client);
    close(fd);
    tls_pair_close(&pair);
}

static void note_line(void *data, struct cay_str line)
{
    cay_buf_append_str(data, line);
}

static void requests_are_logged_once_and_without_keys(void **state)
{
    struct fixture *self = *state;
    struct harness *harness = &self->harness;
    cay_auto(cay_buf_finish) struct cay_buf log;
    cay_buf_init(&log, 1 << 20);
    harness->server->options.has_access_log = true;
    cay_log_set_sink(note_line, &log);
    cay_autoclose int fd = dial(self);
    harness_post(harness, fd, "KeyService/ListKeys", "application/json", CAY_STR("{}"));
    harness_send(harness, fd, CAY_STR("GET /a?token=hush HTTP/1.1\r\nHost: a\r\n\r\n"));
    harness_post(harness, fd, "FileService/RemoveFile", "application/json", CAY_STR("{}"));
    close(cay_take_fd(fd));
    harness_turn(harness);
    cay_log_set_sink(NULL, NULL);
    assert_int_equal(harness_count(&log, "http.request"), 3);
    assert_true(harness_has(&log, "key-1"));
    assert_true(harness_has(&log, "canceled"));
    assert_false(harness_has(&log, "good"));
    assert_false(harness_has(&log, "hush"));
    /* An id does not tell how many requests others have made. */
    uint64_t ids[3];
    cay_buf_append_byte(&log, '\0');
    const char *at = log.data;
    for (size_t i = 0; i < CAY_COUNT(ids); i++) {
        at = strstr(at, "request=") + strlen("request=");
        ids[i] = strtoull(at, NULL, 16);
        assert_true(ids[i] != 0);
    }
    for (size_t i = 0; i + 1 < CAY_COUNT(ids); i++)
        assert_true(ids[i + 1] - ids[i] > 1000 && ids[i] - ids[i + 1] > 1000);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_thousand_connections_leave_nothing),
        CASE(idle_connections_keep_nobody_away),
        CASE(streams_of_one_owner_keep_nobody_away),
        CASE(connections_over_the_limit_are_hung_up_on),
        CASE(a_drain_waits_for_what_runs),
        CASE(a_drain_that_takes_too_long_is_cut),
        CASE(a_drain_with_nobody_there_ends_at_once),
        CASE(a_caller_on_the_unix_socket_needs_no_key),
        CASE(the_end_of_an_answer_is_told_over_tls),
        CASE(requests_are_logged_once_and_without_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

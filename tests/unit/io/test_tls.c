/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/loop_internal.h"
#include "io/stream.h"
#include "io/tls.h"
#include "tests/unit/io/tls_pair.h"

struct fixture {
    struct tls_pair pair;
    struct cay_loop *loop;
    struct cay_timer alive;
    struct cay_tls *tls;
    struct cay_stream stream;
    SSL *client;
    int peer;
    struct cay_buf in;
    int broken;
    bool is_ended;
};

static void on_readable(struct cay_stream *stream)
{
    struct fixture *self = CAY_CONTAINER_OF(stream, struct fixture, stream);
    /* Less than a record: the rest is held by TLS, and nothing on the socket tells of it. */
    char piece[1000];
    ssize_t got = cay_stream_read(stream, piece, sizeof(piece));
    if (got > 0)
        cay_buf_append(&self->in, piece, (size_t)got);
    else if (got == 0)
        self->is_ended = true;
    else if (got != -EAGAIN)
        self->broken = (int)got;
    if (self->broken)
        cay_stream_close(stream);
}

static void on_sent(struct cay_stream *)
{
}

static void on_broken(struct cay_stream *stream, int neg_errno)
{
    CAY_CONTAINER_OF(stream, struct fixture, stream)->broken = neg_errno;
    cay_stream_close(stream);
}

static const struct cay_stream_events events = {on_readable, on_sent, on_broken};

static void never(struct cay_timer *)
{
}

static void connect_client(struct fixture *self, const char *protocols)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    struct cay_tls_session *session = cay_tls_accept(self->tls, pair[0]);
    assert_non_null(session);
    assert_int_equal(
        cay_stream_open(&self->stream, self->loop, pair[0], session, &events, 16 << 20), 0);
    self->peer = pair[1];
    self->client = tls_pair_connect(&self->pair, pair[1], protocols);
}

static int setup(void **state)
{
    struct fixture *self = cay_new(struct fixture);
    struct cay_error err = {};
    signal(SIGPIPE, SIG_IGN);
    self->peer = -1;
    self->stream.fd = -1;
    tls_pair_open(&self->pair);
    assert_int_equal(cay_loop_create(&self->loop), 0);
    cay_timer_open(&self->alive, self->loop, never);
    cay_timer_start(&self->alive, 3600000, 0);
    assert_true(cay_tls_create(self->pair.cert, self->pair.key, &self->tls, &err));
    cay_buf_init(&self->in, 16 << 20);
    *state = self;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *self = *state;
    cay_stream_close(&self->stream);
    SSL_free(self->client);
    if (self->peer >= 0)
        close(self->peer);
    cay_timer_close(&self->alive);
    cay_loop_destroy(self->loop);
    cay_tls_destroy(self->tls);
    tls_pair_close(&self->pair);
    cay_buf_finish(&self->in);
    free(self);
    return 0;
}

static void turn(struct fixture *self)
{
    for (int i = 0; i < 4; i++)
        uv_run(&self->loop->uv, UV_RUN_NOWAIT);
}

static int handshake(struct fixture *self)
{
    int status = 0;
    for (int i = 0; i < 50 && (status = SSL_do_handshake(self->client)) != 1; i++)
        turn(self);
    turn(self);
    return status;
}

static void protocols_are_negotiated(void **state)
{
    struct fixture *self = *state;
    static const struct {
        const char *offer;
        const char *chosen; /* NULL: the handshake fails; "": none was agreed on */
    } cases[] = {
        {"\x02h2\x08http/1.1", "h2"},
        {"\x08http/1.1\x02h2", "http/1.1"},
        {"\x08http/1.1", "http/1.1"},
        {NULL, ""},
        {"\x03"
         "foo",
         NULL},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        connect_client(self, cases[i].offer);
        assert_int_equal(handshake(self) == 1, cases[i].chosen != NULL);
        const unsigned char *chosen = NULL;
        unsigned len = 0;
        SSL_get0_alpn_selected(self->client, &chosen, &len);
        if (cases[i].chosen)
            assert_true(cay_str_is((struct cay_str){(const char *)chosen, len}, cases[i].chosen));
        else
            assert_int_equal(self->broken, -EPROTO);
        cay_stream_close(&self->stream);
        SSL_free(cay_take_ptr(self->client));
        close(cay_take_fd(self->peer));
    }
}

static void old_versions_are_refused(void **state)
{
    struct fixture *self = *state;
    connect_client(self, NULL);
    SSL_set_security_level(self->client, 0);
    SSL_set_max_proto_version(self->client, TLS1_1_VERSION);
    assert_int_not_equal(handshake(self), 1);
    assert_int_equal(self->broken, -EPROTO);
}

static void large_records_are_read_to_their_end(void **state)
{
    struct fixture *self = *state;
    connect_client(self, NULL);
    assert_int_equal(handshake(self), 1);
    cay_autofree char *bytes = cay_alloc(100000);
    for (int i = 0; i < 100000; i++)
        bytes[i] = (char)(i * 7 >> 2);
    int sent = 0;
    while (sent < 100000) {
        int put = SSL_write(self->client, bytes + sent, CAY_MIN(16384, 100000 - sent));
        sent += put > 0 ? put : 0;
        turn(self);
    }
    for (int i = 0; i < 200 && self->in.len < 100000; i++)
        turn(self);
    assert_int_equal(self->in.len, 100000);
    assert_memory_equal(self->in.data, bytes, 100000);
}

static void what_tls_holds_waits_while_reading_waits(void **state)
{
    struct fixture *self = *state;
    connect_client(self, NULL);
    assert_int_equal(handshake(self), 1);
    char bytes[5000] = "x";
    assert_int_equal(SSL_write(self->client, bytes, sizeof(bytes)), sizeof(bytes));
    while (!self->in.len)
        uv_run(&self->loop->uv, UV_RUN_NOWAIT);
    cay_stream_want_read(&self->stream, false);
    size_t before = self->in.len;
    turn(self);
    assert_int_equal(self->in.len, before);
    cay_stream_want_read(&self->stream, true);
    for (int i = 0; i < 50 && self->in.len < sizeof(bytes); i++)
        turn(self);
    assert_int_equal(self->in.len, sizeof(bytes));
}

static void large_answers_arrive_whole(void **state)
{
    struct fixture *self = *state;
    connect_client(self, NULL);
    assert_int_equal(handshake(self), 1);
    size_t total = 3 << 20;
    cay_autofree char *bytes = cay_alloc(total);
    for (size_t i = 0; i < total; i++)
        bytes[i] = (char)(i * 13 >> 3);
    cay_stream_write(&self->stream, bytes, total);
    turn(self);
    assert_true(cay_stream_queued(&self->stream) > 0);
    cay_auto(cay_buf_finish) struct cay_buf got;
    cay_buf_init(&got, 2 * total);
    while (got.len < total) {
        char *room = cay_buf_reserve(&got, 16384);
        int len = SSL_read(self->client, room, 16384);
        if (len > 0)
            cay_buf_grew(&got, (size_t)len);
        else
            turn(self);
    }
    assert_memory_equal(got.data, bytes, total);
}

static void an_end_is_told_from_a_cut(void **state)
{
    struct fixture *self = *state;
    char byte = 0;
    connect_client(self, NULL);
    assert_int_equal(handshake(self), 1);
    cay_stream_write(&self->stream, "x", 1);
    turn(self);
    cay_stream_end(&self->stream);
    assert_int_equal(SSL_read(self->client, &byte, 1), 1);
    int status = SSL_read(self->client, &byte, 1);
    assert_int_equal(SSL_get_error(self->client, status), SSL_ERROR_ZERO_RETURN);
    /* It still reads. */
    assert_int_equal(SSL_write(self->client, "more", 4), 4);
    turn(self);
    assert_true(cay_str_is(cay_buf_str(&self->in), "more"));
}

static void the_clients_end_is_an_end_and_its_cut_is_not(void **state)
{
    struct fixture *self = *state;
    connect_client(self, NULL);
    assert_int_equal(handshake(self), 1);
    SSL_shutdown(self->client);
    turn(self);
    assert_true(self->is_ended);
    cay_stream_close(&self->stream);
    SSL_free(cay_take_ptr(self->client));
    close(cay_take_fd(self->peer));

    self->is_ended = false;
    connect_client(self, NULL);
    assert_int_equal(handshake(self), 1);
    close(cay_take_fd(self->peer));
    turn(self);
    assert_false(self->is_ended);
    assert_int_not_equal(self->broken, 0);
}

static void what_is_not_tls_is_refused(void **state)
{
    struct fixture *self = *state;
    connect_client(self, NULL);
    assert_true(send(self->peer, "GET / HTTP/1.1\r\n\r\n", 18, 0) == 18);
    turn(self);
    assert_int_equal(self->broken, -EPROTO);
}

static void a_renewed_certificate_leaves_old_sessions_alone(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    connect_client(self, NULL);
    cay_tls_destroy(self->tls);
    assert_true(cay_tls_create(self->pair.cert, self->pair.key, &self->tls, &err));
    assert_int_equal(handshake(self), 1);
    assert_int_equal(SSL_write(self->client, "x", 1), 1);
    turn(self);
    assert_int_equal(self->in.len, 1);
}

static void bad_files_are_named(void **state)
{
    struct fixture *self = *state;
    struct cay_tls *tls = NULL;
    struct cay_error err = {};
    assert_false(cay_tls_create("/nonexistent", self->pair.key, &tls, &err));
    assert_non_null(strstr(err.text, "/nonexistent"));
    assert_false(cay_tls_create(self->pair.cert, self->pair.cert, &tls, &err));
    assert_non_null(strstr(err.text, "cert.pem"));
    struct tls_pair other;
    tls_pair_open(&other);
    assert_false(cay_tls_create(self->pair.cert, other.key, &tls, &err));
    assert_non_null(strstr(err.text, other.key));
    tls_pair_close(&other);
    assert_null(tls);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(protocols_are_negotiated),
        CASE(old_versions_are_refused),
        CASE(large_records_are_read_to_their_end),
        CASE(what_tls_holds_waits_while_reading_waits),
        CASE(large_answers_arrive_whole),
        CASE(an_end_is_told_from_a_cut),
        CASE(the_clients_end_is_an_end_and_its_cut_is_not),
        CASE(what_is_not_tls_is_refused),
        CASE(a_renewed_certificate_leaves_old_sessions_alone),
        CASE(bad_files_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

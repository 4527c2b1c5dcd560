/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/loop_internal.h"
#include "io/stream.h"

enum { QUEUE_BYTES_MAX = 4 << 20, PIECE_BYTES = 1000 };

struct fixture {
    struct cay_loop *loop;
    struct cay_timer alive; /* a loop with nothing to wait for does not turn */
    struct cay_stream stream;
    int peer;
    struct cay_buf in;
    int readable_count;
    int sent_count;
    int broken; /* 0, or the errno it was told */
    bool is_ended;
    bool close_when_readable;
    bool close_when_sent;
};

static void on_readable(struct cay_stream *stream)
{
    struct fixture *self = CAY_CONTAINER_OF(stream, struct fixture, stream);
    self->readable_count++;
    if (self->close_when_readable) {
        cay_stream_close(stream);
        return;
    }
    char piece[PIECE_BYTES];
    ssize_t got = cay_stream_read(stream, piece, sizeof(piece));
    if (got > 0)
        cay_buf_append(&self->in, piece, (size_t)got);
    else if (got == 0)
        self->is_ended = true;
    else if (got != -EAGAIN)
        self->broken = (int)got;
}

static void on_sent(struct cay_stream *stream)
{
    struct fixture *self = CAY_CONTAINER_OF(stream, struct fixture, stream);
    self->sent_count++;
    if (self->close_when_sent)
        cay_stream_close(stream);
}

static void on_broken(struct cay_stream *stream, int neg_errno)
{
    struct fixture *self = CAY_CONTAINER_OF(stream, struct fixture, stream);
    assert_int_equal(self->broken, 0);
    self->broken = neg_errno;
    cay_stream_close(stream);
}

static const struct cay_stream_events events = {on_readable, on_sent, on_broken};

static void never(struct cay_timer *)
{
}

static int setup(void **state)
{
    struct fixture *self = cay_new(struct fixture);
    int pair[2];
    assert_int_equal(cay_loop_create(&self->loop), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    assert_int_equal(
        cay_stream_open(&self->stream, self->loop, pair[0], NULL, &events, QUEUE_BYTES_MAX), 0);
    self->peer = pair[1];
    cay_timer_open(&self->alive, self->loop, never);
    cay_timer_start(&self->alive, 3600000, 0);
    cay_buf_init(&self->in, 16 << 20);
    *state = self;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *self = *state;
    cay_stream_close(&self->stream);
    cay_stream_close(&self->stream); /* twice is once */
    if (self->peer >= 0)
        close(self->peer);
    cay_timer_close(&self->alive);
    cay_loop_destroy(self->loop);
    cay_buf_finish(&self->in);
    free(self);
    return 0;
}

static void turn(struct fixture *self)
{
    uv_run(&self->loop->uv, UV_RUN_NOWAIT);
}

static void turns(struct fixture *self, int count)
{
    while (count-- > 0)
        turn(self);
}

static size_t receive_all(struct fixture *self)
{
    static char bytes[1 << 16];
    size_t total = 0;
    ssize_t got = 0;
    while ((got = recv(self->peer, bytes, sizeof(bytes), 0)) > 0)
        total += (size_t)got;
    return total;
}

static void what_is_sent_is_read(void **state)
{
    struct fixture *self = *state;
    assert_int_equal(send(self->peer, "hello", 5, 0), 5);
    turns(self, 2);
    assert_true(cay_str_is(cay_buf_str(&self->in), "hello"));
    assert_int_equal(self->readable_count, 1);
}

static void writes_of_one_turn_travel_together(void **state)
{
    struct fixture *self = *state;
    cay_stream_write(&self->stream, "a", 1);
    cay_stream_write(&self->stream, "b", 1);
    cay_buf_append_text(cay_stream_out(&self->stream), "c");
    cay_stream_wrote(&self->stream);
    assert_int_equal(cay_stream_queued(&self->stream), 3);
    char bytes[8];
    assert_int_equal(recv(self->peer, bytes, sizeof(bytes), 0), -1);
    turn(self);
    assert_int_equal(recv(self->peer, bytes, sizeof(bytes), 0), 3);
    assert_memory_equal(bytes, "abc", 3);
    assert_int_equal(self->sent_count, 1);
    assert_int_equal(cay_stream_queued(&self->stream), 0);
    assert_int_equal(self->stream.out.cap, 0); /* an idle stream holds no buffer */
}

static void a_peer_that_does_not_read_leaves_it_queued(void **state)
{
    struct fixture *self = *state;
    cay_autofree char *bytes = cay_alloc(2 << 20);
    for (size_t i = 0; i < 2 << 20; i++)
        bytes[i] = (char)(i * 31 >> 3);
    cay_stream_write(&self->stream, bytes, 2 << 20);
    turns(self, 5);
    size_t queued = cay_stream_queued(&self->stream);
    assert_true(queued > 0 && queued < 2 << 20);
    assert_int_equal(self->sent_count, 1);
    /* All arrives, in order, in as many steps as it takes. */
    cay_auto(cay_buf_finish) struct cay_buf got;
    cay_buf_init(&got, 4 << 20);
    while (got.len < 2 << 20) {
        char *room = cay_buf_reserve(&got, 30000);
        ssize_t len = recv(self->peer, room, 30000, 0);
        if (len > 0)
            cay_buf_grew(&got, (size_t)len);
        turn(self);
    }
    assert_memory_equal(got.data, bytes, 2 << 20);
    assert_int_equal(cay_stream_queued(&self->stream), 0);
    assert_true(self->sent_count > 3);
    assert_int_equal(self->broken, 0);
}

static void the_queue_has_a_backstop(void **state)
{
    struct fixture *self = *state;
    cay_autofree char *bytes = cay_alloc(QUEUE_BYTES_MAX);
    cay_stream_write(&self->stream, bytes, QUEUE_BYTES_MAX);
    turn(self);
    assert_int_equal(self->broken, 0);
    cay_stream_write(&self->stream, bytes, QUEUE_BYTES_MAX);
    turn(self);
    assert_int_equal(self->broken, -ENOBUFS);
}

static void reading_can_wait(void **state)
{
    struct fixture *self = *state;
    cay_stream_want_read(&self->stream, false);
    assert_int_equal(send(self->peer, "hello", 5, 0), 5);
    turns(self, 5);
    assert_int_equal(self->readable_count, 0);
    cay_stream_want_read(&self->stream, true);
    turns(self, 2);
    assert_true(cay_str_is(cay_buf_str(&self->in), "hello"));
}

static void a_half_close_is_an_end_and_writing_goes_on(void **state)
{
    struct fixture *self = *state;
    assert_int_equal(send(self->peer, "hello", 5, 0), 5);
    shutdown(self->peer, SHUT_WR);
    turns(self, 5);
    assert_true(cay_str_is(cay_buf_str(&self->in), "hello"));
    assert_true(self->is_ended);
    assert_true(self->stream.is_read_over);
    int seen = self->readable_count;
    turns(self, 5);
    assert_int_equal(self->readable_count, seen); /* it does not spin on the end */
    cay_stream_write(&self->stream, "bye", 3);
    turns(self, 2);
    assert_int_equal(receive_all(self), 3);
    assert_int_equal(self->broken, 0);
}

static void our_half_close_is_the_peers_end(void **state)
{
    struct fixture *self = *state;
    cay_stream_write(&self->stream, "bye", 3);
    turn(self);
    cay_stream_end(&self->stream);
    char bytes[8];
    assert_int_equal(recv(self->peer, bytes, sizeof(bytes), 0), 3);
    assert_int_equal(recv(self->peer, bytes, sizeof(bytes), 0), 0);
    assert_int_equal(send(self->peer, "more", 4, 0), 4);
    turns(self, 2);
    assert_true(cay_str_is(cay_buf_str(&self->in), "more"));
}

static void a_peer_that_goes_is_noticed_while_reading_waits(void **state)
{
    struct fixture *self = *state;
    cay_stream_want_read(&self->stream, false);
    turn(self);
    close(cay_take_fd(self->peer));
    turns(self, 3);
    assert_int_equal(self->broken, -ECONNRESET);
}

static void writing_to_a_peer_that_is_gone_breaks(void **state)
{
    struct fixture *self = *state;
    close(cay_take_fd(self->peer));
    cay_stream_write(&self->stream, "x", 1);
    turn(self);
    assert_int_equal(self->broken, -EPIPE);
    assert_int_equal(cay_stream_queued(&self->stream), 0);
    /* Nobody listens, nothing is kept. */
    cay_stream_write(&self->stream, "x", 1);
    assert_int_equal(self->stream.out.cap, 0);
}

/* The peer closes while bytes of ours are unread: an error stands on the socket beside the data. */
static void what_a_peer_sent_before_it_broke_is_read(void **state)
{
    struct fixture *self = *state;
    cay_stream_write(&self->stream, "unread", 6);
    turn(self);
    static char bytes[20 * PIECE_BYTES];
    assert_int_equal(send(self->peer, bytes, sizeof(bytes), 0), sizeof(bytes));
    close(cay_take_fd(self->peer));
    turns(self, 40);
    assert_int_equal(self->in.len, sizeof(bytes));
    assert_true(self->is_ended || self->broken);
}

static void callbacks_may_close(void **state)
{
    struct fixture *self = *state;
    self->close_when_readable = true;
    assert_int_equal(send(self->peer, "hello", 5, 0), 5);
    cay_stream_write(&self->stream, "x", 1);
    turns(self, 3);
    assert_int_equal(self->stream.fd, -1);
    assert_int_equal(self->readable_count, 1);
}

static void the_sent_callback_may_close(void **state)
{
    struct fixture *self = *state;
    self->close_when_sent = true;
    cay_stream_write(&self->stream, "x", 1);
    turns(self, 3);
    assert_int_equal(self->stream.fd, -1);
    assert_int_equal(self->sent_count, 1);
}

static void a_failed_stream_breaks_at_the_end_of_the_turn(void **state)
{
    struct fixture *self = *state;
    cay_stream_fail(&self->stream);
    assert_int_equal(self->broken, 0);
    turn(self);
    assert_int_equal(self->broken, -ENOBUFS);
}

static void closing_takes_it_out_of_the_flush_list(void **state)
{
    struct fixture *self = *state;
    struct fixture *others[3];
    for (size_t i = 0; i < CAY_COUNT(others); i++) {
        others[i] = cay_new(struct fixture);
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
                         0);
        assert_int_equal(
            cay_stream_open(&others[i]->stream, self->loop, pair[0], NULL, &events, 4096), 0);
        others[i]->peer = pair[1];
        cay_stream_write(&others[i]->stream, "x", 1);
    }
    cay_stream_write(&self->stream, "x", 1);
    for (size_t i = 0; i < CAY_COUNT(others); i++) {
        size_t place = (i + 1) % CAY_COUNT(others);
        cay_stream_close(&others[place]->stream);
        close(others[place]->peer);
        free(others[place]);
    }
    turn(self);
    assert_int_equal(receive_all(self), 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_is_sent_is_read),
        CASE(writes_of_one_turn_travel_together),
        CASE(a_peer_that_does_not_read_leaves_it_queued),
        CASE(the_queue_has_a_backstop),
        CASE(reading_can_wait),
        CASE(a_half_close_is_an_end_and_writing_goes_on),
        CASE(our_half_close_is_the_peers_end),
        CASE(a_peer_that_goes_is_noticed_while_reading_waits),
        CASE(writing_to_a_peer_that_is_gone_breaks),
        CASE(what_a_peer_sent_before_it_broke_is_read),
        CASE(callbacks_may_close),
        CASE(the_sent_callback_may_close),
        CASE(a_failed_stream_breaks_at_the_end_of_the_turn),
        CASE(closing_takes_it_out_of_the_flush_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

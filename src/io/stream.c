/* SPDX-License-Identifier: Apache-2.0 */
#include "io/stream.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/loop_internal.h"
#include "io/tls.h"

static void break_stream(struct cay_stream *stream, int neg_errno)
{
    if (stream->is_broken)
        return;
    stream->is_broken = true;
    cay_watch_set(&stream->watch, 0);
    stream->events->broken(stream, neg_errno);
}

static void update_watch(struct cay_stream *stream)
{
    unsigned events = stream->want_read ? CAY_READY_READ : CAY_READY_HANGUP;
    if (stream->is_read_over)
        events = 0;
    /* What is on the flush list is sent before the loop waits; only what is left then is waited
     * for. */
    bool is_blocked = cay_stream_queued(stream) && !stream->in_flush_list;
    /* A TLS read may have to write first; there is no read while none is wanted. */
    if (is_blocked || (stream->want_read && stream->tls && cay_tls_wants_write(stream->tls)))
        events |= CAY_READY_WRITE;
    cay_watch_set(&stream->watch, events);
}

/* Sends until done or blocked. False when the stream broke (and may be gone). */
static bool flush(struct cay_stream *stream)
{
    size_t before = stream->out_sent;
    while (cay_stream_queued(stream)) {
        const char *data = stream->out.data + stream->out_sent;
        size_t len = cay_stream_queued(stream);
        ssize_t sent = stream->tls ? cay_tls_write(stream->tls, data, len)
                                   : send(stream->fd, data, len, MSG_NOSIGNAL);
        if (sent < 0 && !stream->tls)
            sent = -errno;
        if (sent == -EINTR)
            continue;
        if (sent == -EAGAIN)
            break;
        if (sent <= 0) {
            break_stream(stream, sent ? (int)sent : -EPIPE);
            return false;
        }
        stream->out_sent += (size_t)sent;
    }
    bool progressed = stream->out_sent != before;
    if (progressed)
        stream->progress_ms = cay_loop_now_ms(stream->loop);
    if (!cay_stream_queued(stream)) {
        cay_buf_clear(&stream->out, 0);
        stream->out_sent = 0;
        stream->has_waited = false;
    } else if (stream->out_sent > stream->out.len / 2) {
        cay_buf_consume(&stream->out, stream->out_sent);
        stream->out_sent = 0;
    }
    update_watch(stream);
    if (progressed)
        stream->events->sent(stream);
    return true;
}

static void on_ready(struct cay_watch *watch, unsigned events)
{
    struct cay_stream *stream = CAY_CONTAINER_OF(watch, struct cay_stream, watch);
    if (events & CAY_READY_HANGUP && !stream->want_read) {
        break_stream(stream, -ECONNRESET);
        return;
    }
    if (events & CAY_READY_WRITE && cay_stream_queued(stream)) {
        if (events & CAY_READY_READ)
            cay_stream_wrote(stream); /* both at once: read now, send at the end of this turn */
        else
            flush(stream);
        if (!(events & CAY_READY_READ))
            return;
    }
    if (stream->want_read)
        stream->events->readable(stream);
}

/* TLS may hold decrypted bytes that the socket no longer shows as readable. */
static void on_kick(struct cay_timer *timer)
{
    struct cay_stream *stream = CAY_CONTAINER_OF(timer, struct cay_stream, kick);
    if (stream->want_read && !stream->is_broken)
        stream->events->readable(stream);
}

int cay_stream_open(struct cay_stream *stream, struct cay_loop *loop, int fd,
                    struct cay_tls_session *tls, const struct cay_stream_events *events,
                    size_t queue_bytes_max)
{
    *stream = (struct cay_stream){.events = events, .loop = loop, .fd = fd, .tls = tls};
    cay_buf_init(&stream->out, queue_bytes_max);
    int status = cay_watch_open(&stream->watch, loop, fd, on_ready);
    if (status < 0) {
        cay_tls_session_destroy(tls);
        close(fd);
        stream->fd = -1;
        return status;
    }
    if (tls)
        cay_timer_open(&stream->kick, loop, on_kick);
    stream->progress_ms = cay_loop_now_ms(loop);
    cay_stream_want_read(stream, true);
    return 0;
}

static void close_all_but_socket(struct cay_stream *stream)
{
    if (stream->in_flush_list) {
        struct cay_stream **at = &stream->loop->flush_first;
        while (*at != stream)
            at = &(*at)->flush_next;
        *at = stream->flush_next;
    }
    stream->is_broken = true;
    cay_watch_close(&stream->watch);
    cay_timer_close(&stream->kick);
    cay_tls_session_destroy(stream->tls);
    cay_buf_finish(&stream->out);
    stream->out_sent = 0;
}

int cay_stream_release(struct cay_stream *stream)
{
    assert(!stream->tls && !cay_stream_queued(stream));
    int fd = cay_take_fd(stream->fd);
    close_all_but_socket(stream);
    return fd;
}

void cay_stream_close(struct cay_stream *stream)
{
    if (stream->fd < 0)
        return;
    close_all_but_socket(stream);
    close(cay_take_fd(stream->fd));
}

void cay_stream_want_read(struct cay_stream *stream, bool want)
{
    stream->want_read = want;
    if (stream->is_broken)
        return;
    update_watch(stream);
    if (want && stream->tls && cay_tls_pending(stream->tls))
        cay_timer_start(&stream->kick, 0, 0);
}

ssize_t cay_stream_read(struct cay_stream *stream, void *data, size_t len)
{
    if (stream->is_broken)
        return -ECONNRESET;
    ssize_t got = 0;
    do {
        got = stream->tls ? cay_tls_read(stream->tls, data, len) : recv(stream->fd, data, len, 0);
        if (got < 0 && !stream->tls)
            got = -errno;
    } while (got == -EINTR);
    if (got > 0)
        stream->progress_ms = cay_loop_now_ms(stream->loop);
    stream->is_read_over = got == 0;
    if (stream->is_read_over)
        update_watch(stream);
    if (stream->tls && got != 0) {
        update_watch(stream);
        if (got > 0 && cay_tls_pending(stream->tls))
            cay_timer_start(&stream->kick, 0, 0);
    }
    return got;
}

void cay_stream_write(struct cay_stream *stream, const void *data, size_t len)
{
    if (stream->is_broken)
        return;
    cay_buf_append(&stream->out, data, len);
    cay_stream_wrote(stream);
}

void cay_stream_wrote(struct cay_stream *stream)
{
    if (stream->in_flush_list || stream->is_broken)
        return;
    /* Nothing was waiting before: from now on the peer can be late, not since its last sign of
     * life. */
    if (!stream->has_waited)
        stream->progress_ms = cay_loop_now_ms(stream->loop);
    stream->has_waited = true;
    stream->in_flush_list = true;
    stream->flush_next = stream->loop->flush_first;
    stream->loop->flush_first = stream;
}

void cay_stream_fail(struct cay_stream *stream)
{
    stream->out.failed = true;
    cay_stream_wrote(stream);
}

void cay_stream_end(struct cay_stream *stream)
{
    assert(!cay_stream_queued(stream));
    if (stream->is_broken)
        return;
    /* Without it the peer could not tell the end of what we sent from a cut connection. */
    if (stream->tls)
        cay_tls_end(stream->tls);
    shutdown(stream->fd, SHUT_WR);
}

void cay_stream_flush_all(struct cay_loop *loop)
{
    while (loop->flush_first) {
        struct cay_stream *stream = loop->flush_first;
        loop->flush_first = stream->flush_next;
        stream->in_flush_list = false;
        if (stream->is_broken)
            continue;
        if (stream->out.failed)
            break_stream(stream, -ENOBUFS);
        else
            flush(stream);
    }
}

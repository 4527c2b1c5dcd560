/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A connected socket, with or without TLS. Reading is pulled: the owner is told there is something
 * to read and reads as much as it has room for. Writing is queued and sent once per turn of the
 * loop, so that the answers of one turn travel in one system call. The queue is bounded by the
 * owner, who looks at cay_stream_queued() before producing more.
 *
 * Order: open -> want_read / read / write ... -> close. Callbacks may close the stream.
 */

#include "base/buf.h"
#include "io/loop.h"

struct cay_tls_session;

struct cay_stream;

struct cay_stream_events {
    /* There may be something to read, or the end of it. Only while want_read is on. */
    void (*readable)(struct cay_stream *stream);
    /* Something queued was sent. */
    void (*sent)(struct cay_stream *stream);
    /* The peer is gone (hung up, reset, broken TLS). Nothing more will be read or sent. */
    void (*broken)(struct cay_stream *stream, int neg_errno);
};

struct cay_stream {
    const struct cay_stream_events *events;
    struct cay_loop *loop;
    int fd;
    struct cay_watch watch;
    struct cay_tls_session *tls; /* NULL for a plain socket */
    struct cay_timer kick;       /* reads what TLS holds back in its own buffer */
    struct cay_buf out;
    size_t out_sent; /* bytes of `out` already gone */
    struct cay_stream *flush_next;
    uint64_t progress_ms; /* when the peer last took or gave a byte */
    bool want_read;
    bool is_read_over; /* the peer will send no more, but may still read */
    bool in_flush_list;
    bool has_waited; /* something is queued, since progress_ms or earlier */
    bool is_broken;
};

/* Takes over fd and tls (also on failure). queue_bytes_max is a backstop: reaching it breaks the
 * stream. */
[[nodiscard]] int cay_stream_open(struct cay_stream *stream, struct cay_loop *loop, int fd,
                                  struct cay_tls_session *tls,
                                  const struct cay_stream_events *events, size_t queue_bytes_max);
void cay_stream_close(struct cay_stream *stream);

/* The socket of a stream without TLS, and without anything read and unused or queued. The stream is
 * closed; the descriptor is the caller's. */
[[nodiscard]] int cay_stream_release(struct cay_stream *stream);

/* With reading off, a hang-up of the peer is still noticed. */
void cay_stream_want_read(struct cay_stream *stream, bool want);

/* > 0 bytes, 0 at the end, -EAGAIN when there is nothing now, another -errno when broken. */
[[nodiscard]] ssize_t cay_stream_read(struct cay_stream *stream, void *data, size_t len);

void cay_stream_write(struct cay_stream *stream, const void *data, size_t len);

/* The queue itself, to write into without a copy; call cay_stream_wrote afterwards. */
static inline struct cay_buf *cay_stream_out(struct cay_stream *stream)
{
    return &stream->out;
}
void cay_stream_wrote(struct cay_stream *stream);

static inline size_t cay_stream_queued(const struct cay_stream *stream)
{
    return stream->out.len - stream->out_sent;
}

/* Breaks it, but not now: `broken` is called at the end of this turn of the loop. */
void cay_stream_fail(struct cay_stream *stream);

/* Tells the peer that nothing more will be sent; reading goes on. The queue must be empty. */
void cay_stream_end(struct cay_stream *stream);

/* Sends what is queued in this turn; called by the loop before it waits. */
void cay_stream_flush_all(struct cay_loop *loop);

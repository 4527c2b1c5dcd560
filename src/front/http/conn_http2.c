/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "front/http/conn.h"
#include "front/http/server_internal.h"

/*
 * HTTP/2 on a connection. nghttp2 keeps the protocol's state and does no I/O: bytes go in by feed
 * and come out by pump, which stops pulling while the stream has enough queued. Flow control is
 * ours: a stream's window opens again only when its handler took the data; the connection's opens
 * at once, so that one stalled stream does not hold up its neighbours. A peer that does not read
 * is not read from either, or it could make nghttp2 queue answers (to PING, to streams over the
 * limit) without end.
 *
 * respond, write and taken never free anything: whoever answers does so in several steps.
 */

enum {
    LINGER_MS = 2000,
    PING_AFTER_MS = 30 * 1000, /* of silence, when exchanges are open */
    PING_ANSWER_MS = 20 * 1000,
};

struct cay_http2_conn {
    nghttp2_session *session;
    uint64_t ping_sent_ms; /* 0: none under way */
    bool goaway_sent;
};

struct http2_exchange {
    struct cay_exchange base; /* first */
    int32_t stream_id;
    size_t head_bytes;
    struct cay_http_header head[CAY_LIMIT_HEADER_COUNT];
    struct cay_buf out; /* not yet taken by nghttp2 */
    size_t out_taken;
    uint64_t progress_ms;     /* when nghttp2 last took some, or there was first some to take */
    uint64_t linger_since_ms; /* 0: the answer is not out, or the request is complete */
    uint64_t linger_bytes;
    bool is_head; /* HEAD: no body is sent */
    bool is_refused;
    bool is_deferred; /* nghttp2 waits for nghttp2_session_resume_data */
    bool has_trailers;
    struct cay_http_header *trailers; /* in the arena */
    size_t trailer_count;
};

static nghttp2_nv to_nv(const struct cay_http_header *header)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)header->name.ptr,
                        .value = (uint8_t *)(uintptr_t)header->value.ptr,
                        .namelen = header->name.len,
                        .valuelen = header->value.len};
}

static void free_exchange(struct http2_exchange *self)
{
    cay_buf_finish(&self->out);
    cay_arena_finish(&self->base.arena);
    free(self);
}

static ssize_t read_body(nghttp2_session *session, int32_t stream_id, uint8_t *room, size_t len,
                         uint32_t *flags, nghttp2_data_source *source, void *)
{
    struct http2_exchange *self = source->ptr;
    size_t left = self->out.len - self->out_taken;
    size_t take = CAY_MIN(left, len);
    if (!take && !self->base.is_finished) {
        self->is_deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    if (take) {
        memcpy(room, self->out.data + self->out_taken, take);
        self->progress_ms = cay_loop_now_ms(self->base.loop);
    }
    self->out_taken += take;
    if (self->out_taken == self->out.len) {
        cay_buf_clear(&self->out, 16 * 1024);
        self->out_taken = 0;
    }
    if (self->base.is_finished && !self->out.len) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (self->has_trailers) {
            nghttp2_nv fields[8];
            assert(self->trailer_count <= CAY_COUNT(fields));
            for (size_t i = 0; i < self->trailer_count; i++)
                fields[i] = to_nv(&self->trailers[i]);
            if (nghttp2_submit_trailer(session, stream_id, fields, self->trailer_count) == 0)
                *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        }
    }
    return (ssize_t)take;
}

static void respond(struct cay_exchange *exchange, int status,
                    const struct cay_http_header *headers, size_t count, int64_t content_length)
{
    struct http2_exchange *self = (struct http2_exchange *)exchange;
    char status_text[4];
    char length_text[24];
    nghttp2_nv fields[32];
    assert(count + 2 <= CAY_COUNT(fields));
    int len = snprintf(status_text, sizeof(status_text), "%d", status);
    struct cay_http_header field = {CAY_STR(":status"), {status_text, (size_t)len}};
    size_t total = 0;
    fields[total++] = to_nv(&field);
    for (size_t i = 0; i < count; i++)
        fields[total++] = to_nv(&headers[i]);
    if (content_length >= 0) {
        len = snprintf(length_text, sizeof(length_text), "%lld", (long long)content_length);
        field = (struct cay_http_header){CAY_STR("content-length"), {length_text, (size_t)len}};
        fields[total++] = to_nv(&field);
    }
    cay_conn_enter(self->base.conn);
    nghttp2_data_provider provider = {.source.ptr = self, .read_callback = read_body};
    if (nghttp2_submit_response(self->base.conn->http2->session, self->stream_id, fields, total,
                                &provider) < 0)
        cay_stream_fail(&self->base.conn->stream);
    cay_conn_leave(self->base.conn);
}

static void resume(struct http2_exchange *self)
{
    if (!self->is_deferred)
        return;
    self->is_deferred = false;
    (void)nghttp2_session_resume_data(self->base.conn->http2->session, self->stream_id);
}

static void write_body(struct cay_exchange *exchange, const void *data, size_t len)
{
    struct http2_exchange *self = (struct http2_exchange *)exchange;
    struct cay_conn *conn = self->base.conn;
    if (self->is_head)
        return;
    cay_conn_enter(conn);
    if (!self->out.len)
        self->progress_ms = cay_loop_now_ms(exchange->loop);
    /* A peer that always leaves some of it would have the rest pile up behind what it took. */
    if (self->out_taken >= self->out.len - self->out_taken) {
        cay_buf_consume(&self->out, self->out_taken);
        self->out_taken = 0;
    }
    cay_buf_append(&self->out, data, len);
    resume(self);
    if (self->out.failed)
        cay_stream_fail(&conn->stream);
    cay_conn_leave(conn);
}

/* After the last frame of a stream nghttp2 calls on_stream_close, which ends the exchange. */
static void finish(struct cay_exchange *exchange, const struct cay_http_header *trailers,
                   size_t count)
{
    struct http2_exchange *self = (struct http2_exchange *)exchange;
    struct cay_conn *conn = self->base.conn;
    cay_conn_enter(conn);
    if (count) {
        self->trailers = cay_arena_array(&exchange->arena, count, sizeof(*trailers));
        for (size_t i = 0; self->trailers && i < count; i++) {
            self->trailers[i].name = cay_arena_str(&exchange->arena, trailers[i].name);
            self->trailers[i].value = cay_arena_str(&exchange->arena, trailers[i].value);
        }
        self->trailer_count = self->trailers ? count : 0;
        self->has_trailers = self->trailers != NULL;
    }
    resume(self);
    cay_conn_leave(conn);
}

static void taken(struct cay_exchange *exchange, size_t len)
{
    struct http2_exchange *self = (struct http2_exchange *)exchange;
    cay_conn_enter(self->base.conn);
    (void)nghttp2_session_consume_stream(self->base.conn->http2->session, self->stream_id, len);
    cay_conn_leave(self->base.conn);
}

static void reset(struct cay_exchange *exchange)
{
    struct http2_exchange *self = (struct http2_exchange *)exchange;
    cay_conn_enter(self->base.conn);
    (void)nghttp2_submit_rst_stream(self->base.conn->http2->session, NGHTTP2_FLAG_NONE,
                                    self->stream_id, NGHTTP2_INTERNAL_ERROR);
    cay_conn_leave(self->base.conn);
}

static size_t queued(const struct cay_exchange *exchange)
{
    const struct http2_exchange *self = (const struct http2_exchange *)exchange;
    return self->out.len - self->out_taken + cay_stream_queued(&self->base.conn->stream);
}

static const struct cay_exchange_ops exchange_ops = {
    .respond = respond,
    .write = write_body,
    .finish = finish,
    .taken = taken,
    .reset = reset,
    .queued = queued,
};

static struct http2_exchange *exchange_of(nghttp2_session *session, int32_t stream_id)
{
    return nghttp2_session_get_stream_user_data(session, stream_id);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct cay_conn *conn = context;
    if (conn->is_doomed)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct http2_exchange *self = cay_new(struct http2_exchange);
    self->stream_id = frame->hd.stream_id;
    self->base.ops = &exchange_ops;
    self->base.is_http2 = true;
    self->base.headers.items = self->head;
    cay_arena_init(&self->base.arena, (size_t)4 * CAY_LIMIT_HEAD_BYTES);
    cay_buf_init(&self->out, CAY_LIMIT_SEND_QUEUE_BYTES);
    cay_exchange_init(&self->base, conn);
    nghttp2_session_set_stream_user_data(session, self->stream_id, self);
    return 0;
}

static void take_path(struct cay_exchange *exchange, struct cay_str target)
{
    const char *mark = memchr(target.ptr, '?', target.len);
    exchange->path = (struct cay_str){target.ptr, mark ? (size_t)(mark - target.ptr) : target.len};
    if (mark)
        exchange->query = (struct cay_str){mark + 1, target.len - exchange->path.len - 1};
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t, void *)
{
    struct http2_exchange *self = exchange_of(session, frame->hd.stream_id);
    if (!self || frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0; /* trailers of a request mean nothing here */
    struct cay_exchange *exchange = &self->base;
    self->head_bytes += name_len + value_len + 32;
    if (self->head_bytes > CAY_LIMIT_HEAD_BYTES ||
        exchange->headers.count == CAY_LIMIT_HEADER_COUNT) {
        self->is_refused = true;
        return 0;
    }
    struct cay_str key =
        cay_arena_str(&exchange->arena, (struct cay_str){(const char *)name, name_len});
    struct cay_str text =
        cay_arena_str(&exchange->arena, (struct cay_str){(const char *)value, value_len});
    if (cay_str_is(key, ":method"))
        exchange->method = text;
    else if (cay_str_is(key, ":path"))
        take_path(exchange, text);
    else if (cay_str_is(key, ":authority"))
        exchange->host = text;
    else if (!cay_str_starts(key, ":"))
        exchange->headers.items[exchange->headers.count++] = (struct cay_http_header){key, text};
    if (cay_str_is(key, "host") && !exchange->host.len)
        exchange->host = text;
    return 0;
}

static void dispatch(struct http2_exchange *self)
{
    struct cay_exchange *exchange = &self->base;
    struct cay_server *server = self->base.conn->server;
    self->is_head = cay_str_is(exchange->method, "HEAD");
    if (self->is_refused) {
        cay_exchange_reply(
            exchange, 431, "application/json",
            CAY_STR("{\"code\":\"invalid_argument\",\"message\":\"the request head is "
                    "larger than this server takes\"}"));
        return;
    }
    server->options.route(exchange, server->options.context);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct cay_conn *conn = context;
    if (conn->is_doomed)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (frame->hd.type == NGHTTP2_PING && frame->hd.flags & NGHTTP2_FLAG_ACK)
        conn->http2->ping_sent_ms = 0;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    struct http2_exchange *self = exchange_of(session, frame->hd.stream_id);
    if (!self)
        return 0;
    bool is_last = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    if (is_last)
        self->base.is_body_over = true;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        dispatch(self);
    if (is_last && self->base.handler && !conn->is_doomed)
        self->base.handler->body_end(&self->base);
    return 0;
}

/* The answer is out and nobody will read the rest of the request. */
static void stop_request(struct http2_exchange *self)
{
    (void)nghttp2_submit_rst_stream(self->base.conn->http2->session, NGHTTP2_FLAG_NONE,
                                    self->stream_id, NGHTTP2_NO_ERROR);
}

static int on_data(nghttp2_session *session, uint8_t, int32_t stream_id, const uint8_t *data,
                   size_t len, void *context)
{
    const struct cay_conn *conn = context;
    if (conn->is_doomed)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    struct http2_exchange *self = exchange_of(session, stream_id);
    (void)nghttp2_session_consume_connection(session, len);
    if (!self)
        return 0;
    self->base.body_bytes += len;
    if (self->base.handler && !self->base.is_finished) {
        self->base.handler->body(&self->base, (const char *)data, len);
        return 0;
    }
    (void)nghttp2_session_consume_stream(session, stream_id, len);
    self->linger_bytes += len;
    if (self->linger_since_ms && self->linger_bytes > CAY_LIMIT_LINGER_BYTES)
        stop_request(self);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t, void *context)
{
    struct cay_conn *conn = context;
    struct http2_exchange *self = exchange_of(session, stream_id);
    if (!self)
        return 0;
    nghttp2_session_set_stream_user_data(session, stream_id, NULL);
    cay_exchange_close(&self->base);
    cay_list_remove(&self->base.in_conn);
    free_exchange(self);
    conn->idle_since_ms = cay_loop_now_ms(conn->server->loop);
    return 0;
}

/* Our END_STREAM went out while the peer is still sending. Some clients read no answer before they
 * have sent everything, and wait for ever after an early RST_STREAM: the rest of the request is
 * dropped for a while first. */
static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *)
{
    if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM) ||
        (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
        return 0;
    struct http2_exchange *self = exchange_of(session, frame->hd.stream_id);
    if (self && !self->base.is_body_over)
        self->linger_since_ms = CAY_MAX(cay_loop_now_ms(self->base.loop), UINT64_C(1));
    return 0;
}

static void feed(struct cay_conn *conn, const char *data, size_t len)
{
    ssize_t used = nghttp2_session_mem_recv(conn->http2->session, (const uint8_t *)data, len);
    if (used < 0)
        cay_conn_doom(conn); /* not even HTTP/2; lesser faults end in a GOAWAY and come to pump */
}

static bool has_room(const struct cay_conn *conn)
{
    return cay_stream_queued(&conn->stream) < CAY_LIMIT_SEND_HIGH_BYTES;
}

static void pump(struct cay_conn *conn)
{
    nghttp2_session *session = conn->http2->session;
    while (has_room(conn) && !conn->is_doomed) {
        const uint8_t *data = NULL;
        ssize_t len = nghttp2_session_mem_send(session, &data);
        if (len < 0)
            cay_stream_fail(&conn->stream);
        if (len <= 0)
            break;
        cay_stream_write(&conn->stream, data, (size_t)len);
    }
    if (conn->is_doomed)
        return;
    cay_stream_want_read(&conn->stream, has_room(conn));
    if (!cay_stream_queued(&conn->stream) && !nghttp2_session_want_read(session) &&
        !nghttp2_session_want_write(session))
        cay_stream_fail(&conn->stream);
}

static void sent(struct cay_conn *conn)
{
    cay_list_for_each (struct cay_exchange, exchange, &conn->exchanges, in_conn) {
        if (exchange->handler && !exchange->is_finished)
            exchange->handler->room(exchange);
    }
}

static void ping(struct cay_conn *conn, uint64_t now_ms)
{
    struct cay_http2_conn *http2 = conn->http2;
    if (http2->ping_sent_ms && now_ms - http2->ping_sent_ms > PING_ANSWER_MS) {
        conn->server->stats.timeouts++;
        cay_conn_doom(conn);
    } else if (!http2->ping_sent_ms && now_ms - conn->stream.progress_ms > PING_AFTER_MS) {
        http2->ping_sent_ms = now_ms;
        (void)nghttp2_submit_ping(http2->session, NGHTTP2_FLAG_NONE, NULL);
    }
}

/* The connection moves, but the peer opens no window for this stream. */
static bool is_stalled(const struct http2_exchange *self, uint64_t now_ms)
{
    uint64_t quiet_ms = now_ms - CAY_MIN(now_ms, self->progress_ms);
    if (self->base.is_patient && !self->base.is_cut)
        return false;
    return self->out.len > self->out_taken && has_room(self->base.conn) &&
           quiet_ms > (self->base.is_cut ? CAY_CUT_QUIET_MS
                                         : self->base.conn->server->options.send_timeout_ms);
}

static void sweep(struct cay_conn *conn, uint64_t now_ms)
{
    struct cay_http2_conn *http2 = conn->http2;
    if (cay_list_empty(&conn->exchanges)) {
        if (!http2->goaway_sent &&
            now_ms - conn->idle_since_ms > conn->server->options.idle_timeout_ms) {
            conn->server->stats.timeouts++;
            http2->goaway_sent = true;
            (void)nghttp2_session_terminate_session(http2->session, NGHTTP2_NO_ERROR);
        }
        return;
    }
    int64_t now_ns = cay_clock_ns();
    cay_list_for_each (struct cay_exchange, exchange, &conn->exchanges, in_conn) {
        struct http2_exchange *self = (struct http2_exchange *)exchange;
        if (self->linger_since_ms) {
            if (now_ms - self->linger_since_ms > LINGER_MS)
                stop_request(self);
        } else if (cay_exchange_is_too_slow(exchange, now_ns) || is_stalled(self, now_ms)) {
            conn->server->stats.timeouts++;
            reset(exchange);
        }
    }
    if (!conn->is_doomed)
        ping(conn, now_ms);
}

static void drain(struct cay_conn *conn)
{
    struct cay_http2_conn *http2 = conn->http2;
    http2->goaway_sent = true;
    (void)nghttp2_submit_goaway(http2->session, NGHTTP2_FLAG_NONE,
                                nghttp2_session_get_last_proc_stream_id(http2->session),
                                NGHTTP2_NO_ERROR, NULL, 0);
}

/* nghttp2_session_del calls no callbacks: the exchanges that doom closed are freed here. */
static void finish_conn(struct cay_conn *conn)
{
    struct cay_http2_conn *http2 = conn->http2;
    cay_list_for_each (struct cay_exchange, exchange, &conn->exchanges, in_conn)
        free_exchange((struct http2_exchange *)exchange);
    nghttp2_session_del(http2->session);
    free(http2);
}

static nghttp2_session *make_session(struct cay_conn *conn)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    nghttp2_session *session = NULL;
    if (nghttp2_session_callbacks_new(&callbacks) < 0)
        return NULL;
    if (nghttp2_option_new(&option) == 0) {
        nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
        nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
        nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
        nghttp2_option_set_no_auto_window_update(option, 1);
        nghttp2_option_set_no_closed_streams(option, 1);
        nghttp2_option_set_stream_reset_rate_limit(option, CAY_LIMIT_H2_RESETS,
                                                   CAY_LIMIT_H2_RESETS_PER_S);
        if (nghttp2_session_server_new2(&session, callbacks, conn, option) < 0)
            session = NULL;
    }
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return session;
}

bool cay_http2_conn_open(struct cay_conn *conn)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, CAY_LIMIT_H2_STREAMS},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, CAY_LIMIT_H2_WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, CAY_LIMIT_HEAD_BYTES},
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
    };
    nghttp2_session *session = make_session(conn);
    if (!session)
        return false;
    conn->http2 = cay_new(struct cay_http2_conn);
    conn->http2->session = session;
    conn->protocol = &cay_conn_http2;
    return nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, CAY_COUNT(settings)) ==
               0 &&
           nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0,
                                                 4 * CAY_LIMIT_H2_WINDOW_BYTES) == 0;
}

const struct cay_conn_protocol cay_conn_http2 = {
    .feed = feed,
    .end = cay_conn_doom,
    .sent = sent,
    .pump = pump,
    .sweep = sweep,
    .drain = drain,
    .finish = finish_conn,
};

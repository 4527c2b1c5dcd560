/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "front/http/conn.h"
#include "front/http/server_internal.h"
#include "wire/http1.h"

/*
 * HTTP/1.1 on a connection: one exchange at a time. Bytes of the next request wait, unparsed, until
 * the answer is complete.
 */

enum {
    LINGER_MS = 2000,
    SKIP_BYTES_MAX = 64 * 1024,
};

enum http1_state {
    HTTP1_HEAD = 0, /* waiting for a request, or in the middle of its head */
    HTTP1_BODY,
    HTTP1_ANSWER, /* the request is complete, its answer is not */
    HTTP1_SKIP,   /* answered early: the little that is left of the body is dropped */
    HTTP1_LINGER, /* answered for good: drop what still comes, so that the peer can read the answer
                   */
};

struct cay_http1_conn {
    struct cay_buf pending; /* bytes not parsed yet */
    struct http1_exchange *current;
    struct cay_http1_chunks chunks;
    uint64_t body_left;
    uint64_t head_since_ms; /* when the first byte of the current head came, 0 = none yet */
    uint64_t linger_bytes;
    size_t untaken_bytes;
    enum http1_state state;
    bool is_chunked;
    bool must_close;       /* after this answer */
    bool was_told_to_wait; /* Expect: 100-continue without our 100: the body may never come */
    bool is_feeding;
};

struct http1_exchange {
    struct cay_exchange base; /* first */
    bool is_chunked;          /* the answer */
    bool is_version_1_0;
    bool is_head; /* HEAD: no body is sent */
    bool wants_keep_alive;
    bool is_routed; /* its handler has seen the head */
};

static void feed(struct cay_conn *conn, const char *data, size_t len);

static struct cay_conn *conn_of(const struct cay_exchange *exchange)
{
    return exchange->conn;
}

static void start_linger(struct cay_conn *conn)
{
    struct cay_http1_conn *http1 = conn->http1;
    http1->state = HTTP1_LINGER;
    cay_buf_clear(&http1->pending, 0);
    conn->idle_since_ms = cay_loop_now_ms(conn->server->loop);
    cay_stream_want_read(&conn->stream, true);
    if (!cay_stream_queued(&conn->stream))
        cay_stream_end(&conn->stream);
}

/* Whoever sends requests without reading the answers has to wait with them. */
static bool has_room(const struct cay_conn *conn)
{
    return cay_stream_queued(&conn->stream) < CAY_LIMIT_SEND_HIGH_BYTES;
}

/* True when the next request can be found: the body is complete, or what is missing is short and
 * known. */
static bool can_go_on(const struct cay_http1_conn *http1)
{
    return http1->state == HTTP1_ANSWER ||
           (http1->state == HTTP1_BODY && !http1->is_chunked && !http1->was_told_to_wait &&
            http1->body_left <= SKIP_BYTES_MAX);
}

static void free_exchange(struct cay_conn *conn)
{
    struct http1_exchange *current = cay_take_ptr(conn->http1->current);
    cay_exchange_close(&current->base);
    cay_list_remove(&current->base.in_conn);
    cay_arena_finish(&current->base.arena);
    free(current);
    conn->http1->untaken_bytes = 0;
}

/* The answer is complete: what is next on this connection? */
static void end_exchange(struct cay_conn *conn)
{
    struct cay_http1_conn *http1 = conn->http1;
    bool must_close = http1->must_close || !can_go_on(http1);
    free_exchange(conn);
    if (conn->is_doomed)
        return;
    if (must_close) {
        start_linger(conn);
        return;
    }
    http1->state = http1->state == HTTP1_BODY ? HTTP1_SKIP : HTTP1_HEAD;
    conn->idle_since_ms = cay_loop_now_ms(conn->server->loop);
    if (conn->is_draining && !http1->pending.len && !cay_conn_has_heir(conn)) {
        start_linger(conn);
        return;
    }
    cay_stream_want_read(&conn->stream, true);
    if (!http1->is_feeding && http1->pending.len)
        feed(conn, NULL, 0);
}

/* After a 101 both directions are bytes until somebody hangs up. */
static void go_raw(struct http1_exchange *self)
{
    struct cay_conn *conn = self->base.conn;
    struct cay_http1_conn *http1 = conn->http1;
    assert(http1->state == HTTP1_ANSWER);
    http1->state = HTTP1_BODY;
    http1->is_chunked = false;
    http1->body_left = UINT64_MAX;
    http1->must_close = true;
    self->is_head = false;
    self->base.is_body_over = false;
    self->base.is_long_lived = true;
    cay_stream_want_read(&conn->stream, true);
}

static void respond(struct cay_exchange *exchange, int status,
                    const struct cay_http_header *headers, size_t count, int64_t content_length)
{
    struct http1_exchange *self = (struct http1_exchange *)exchange;
    struct cay_http1_conn *http1 = self->base.conn->http1;
    struct cay_buf *out = cay_stream_out(&self->base.conn->stream);
    /* A long body still on its way is not waited for: the connection ends with this answer. */
    if (!can_go_on(http1) || !self->wants_keep_alive || exchange->is_last ||
        (self->base.conn->is_draining && !cay_conn_has_heir(self->base.conn)))
        http1->must_close = true;
    cay_buf_printf(out, "HTTP/1.1 %d %s\r\n", status, cay_http_status_text(status));
    for (size_t i = 0; i < count; i++) {
        cay_buf_append_str(out, headers[i].name);
        cay_buf_append(out, ": ", 2);
        cay_buf_append_str(out, headers[i].value);
        cay_buf_append(out, "\r\n", 2);
    }
    /* These have none, and say nothing about it. */
    bool has_no_body = status < 200 || status == 204 || status == 304;
    self->is_head = self->is_head || has_no_body;
    if (status == 101) {
        go_raw(self);
    } else if (has_no_body) {
        ;
    } else if (content_length >= 0) {
        cay_buf_printf(out, "content-length: %lld\r\n", (long long)content_length);
    } else if (self->is_version_1_0) {
        http1->must_close = true; /* its end is the end of the body */
    } else {
        self->is_chunked = true;
        cay_buf_append_text(out, "transfer-encoding: chunked\r\n");
    }
    if (http1->must_close && status != 101)
        cay_buf_append_text(out, "connection: close\r\n");
    else if (self->is_version_1_0)
        cay_buf_append_text(out, "connection: keep-alive\r\n");
    cay_buf_append(out, "\r\n", 2);
    cay_stream_wrote(&self->base.conn->stream);
}

static void write_body(struct cay_exchange *exchange, const void *data, size_t len)
{
    struct http1_exchange *self = (struct http1_exchange *)exchange;
    if (self->is_head)
        return;
    struct cay_buf *out = cay_stream_out(&self->base.conn->stream);
    if (self->is_chunked)
        cay_buf_printf(out, "%zx\r\n", len);
    cay_buf_append(out, data, len);
    if (self->is_chunked)
        cay_buf_append(out, "\r\n", 2);
    cay_stream_wrote(&self->base.conn->stream);
}

static void finish(struct cay_exchange *exchange, const struct cay_http_header *trailers,
                   size_t count)
{
    struct http1_exchange *self = (struct http1_exchange *)exchange;
    struct cay_conn *conn = self->base.conn;
    cay_conn_enter(conn);
    conn->is_cut |= exchange->is_cut;
    if (self->is_chunked && !self->is_head) {
        struct cay_buf *out = cay_stream_out(&conn->stream);
        cay_buf_append(out, "0\r\n", 3);
        for (size_t i = 0; i < count; i++) {
            cay_buf_append_str(out, trailers[i].name);
            cay_buf_append(out, ": ", 2);
            cay_buf_append_str(out, trailers[i].value);
            cay_buf_append(out, "\r\n", 2);
        }
        cay_buf_append(out, "\r\n", 2);
        cay_stream_wrote(&conn->stream);
    }
    end_exchange(conn);
    cay_conn_leave(conn);
}

static void taken(struct cay_exchange *exchange, size_t len)
{
    struct cay_conn *conn = conn_of(exchange);
    struct cay_http1_conn *http1 = conn->http1;
    assert(len <= http1->untaken_bytes);
    http1->untaken_bytes -= len;
    if (http1->state == HTTP1_BODY && http1->untaken_bytes < CAY_LIMIT_BODY_QUEUE_BYTES)
        cay_stream_want_read(&conn->stream, true);
}

static void reset(struct cay_exchange *exchange)
{
    struct cay_conn *conn = conn_of(exchange);
    cay_conn_enter(conn);
    cay_conn_doom(conn);
    cay_conn_leave(conn);
}

static size_t queued(const struct cay_exchange *exchange)
{
    return cay_stream_queued(&conn_of(exchange)->stream);
}

static void tell_to_go_on(struct http1_exchange *self)
{
    struct cay_conn *conn = self->base.conn;
    if (!conn->http1->was_told_to_wait || self->base.status || self->base.is_unsure)
        return;
    conn->http1->was_told_to_wait = false;
    cay_stream_write(&conn->stream, "HTTP/1.1 100 Continue\r\n\r\n", 25);
}

/* Inside of its own making, an exchange may be refused for something else yet. */
static void welcome(struct cay_exchange *exchange)
{
    struct http1_exchange *self = (struct http1_exchange *)exchange;
    if (self->is_routed)
        tell_to_go_on(self);
}

static const struct cay_exchange_ops exchange_ops = {
    .respond = respond,
    .write = write_body,
    .finish = finish,
    .taken = taken,
    .reset = reset,
    .welcome = welcome,
    .queued = queued,
};

static struct cay_str keep(struct cay_arena *arena, struct cay_str text)
{
    return cay_arena_str(arena, text);
}

/* The head's slices point into a buffer that is about to be reused. */
static void keep_head(struct cay_exchange *exchange, const struct cay_http1_head *head)
{
    struct cay_arena *arena = &exchange->arena;
    exchange->method = keep(arena, head->method);
    exchange->path = keep(arena, head->path);
    exchange->query = keep(arena, head->query);
    exchange->host = keep(arena, head->host);
    size_t count = head->headers.count;
    struct cay_http_header *items = cay_arena_array(arena, count, sizeof(*items));
    for (size_t i = 0; items && i < count; i++) {
        items[i].name = keep(arena, head->headers.items[i].name);
        items[i].value = keep(arena, head->headers.items[i].value);
    }
    exchange->headers = (struct cay_http_headers){items, items ? count : 0};
}

static void start_exchange(struct cay_conn *conn, const struct cay_http1_head *head)
{
    struct cay_http1_conn *http1 = conn->http1;
    struct http1_exchange *self = cay_new(struct http1_exchange);
    self->base.ops = &exchange_ops;
    self->is_version_1_0 = head->is_version_1_0;
    self->is_head = cay_str_is(head->method, "HEAD");
    self->wants_keep_alive = head->keep_alive;
    cay_arena_init(&self->base.arena, (size_t)4 * CAY_LIMIT_HEAD_BYTES);
    cay_exchange_init(&self->base, conn);
    keep_head(&self->base, head);
    self->base.is_body_over = !head->has_body;
    http1->current = self;
    http1->must_close = false;
    http1->head_since_ms = 0;
    http1->state = head->has_body ? HTTP1_BODY : HTTP1_ANSWER;
    http1->is_chunked = head->is_chunked;
    http1->chunks = (struct cay_http1_chunks){};
    http1->body_left = head->content_length;
    http1->was_told_to_wait = head->expects_continue && head->has_body;
    conn->server->options.route(&self->base, conn->server->options.context);
    if (conn->is_doomed || http1->current != self)
        return;
    self->is_routed = true;
    tell_to_go_on(self);
    if (!head->has_body && self->base.handler)
        self->base.handler->body_end(&self->base);
}

static void send_refusal(struct cay_conn *conn, int status, const char *text)
{
    char body[256];
    int len = snprintf(body, sizeof(body), "{\"code\":\"%s\",\"message\":\"%s\"}",
                       status == 408 ? "deadline_exceeded" : "invalid_argument", text);
    struct cay_buf *out = cay_stream_out(&conn->stream);
    cay_buf_printf(out,
                   "HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
                   "connection: close\r\n\r\n%s",
                   status, cay_http_status_text(status), len, body);
    cay_stream_wrote(&conn->stream);
    start_linger(conn);
}

/* An answer to what never became an exchange. */
static void refuse(struct cay_conn *conn, int status, const char *text)
{
    conn->server->stats.requests++;
    conn->server->stats.responses_by_class[status / 100]++;
    send_refusal(conn, status, text);
}

/* The rest of the request will not come, or makes no sense. */
static void give_up(struct cay_conn *conn, int status, const char *text)
{
    struct cay_exchange *exchange = &conn->http1->current->base;
    if (exchange->status) {
        cay_conn_doom(conn); /* in the middle of an answer: there is no place for another */
        return;
    }
    exchange->status = status;
    free_exchange(conn);
    if (!conn->is_doomed)
        send_refusal(conn, status, text);
}

/* Each step takes what it can from the front of the bytes; 0 when it must wait for more. */
static size_t feed_head(struct cay_conn *conn, struct cay_str bytes)
{
    struct cay_http1_conn *http1 = conn->http1;
    struct cay_http_header headers[CAY_LIMIT_HEADER_COUNT];
    struct cay_http1_head head;
    struct cay_http1_fault fault;
    if (!http1->head_since_ms)
        http1->head_since_ms = CAY_MAX(cay_loop_now_ms(conn->server->loop), UINT64_C(1));
    ssize_t len = cay_http1_parse_head(bytes, headers, CAY_COUNT(headers), CAY_LIMIT_HEAD_BYTES,
                                       &head, &fault);
    if (len < 0) {
        refuse(conn, fault.status, fault.text);
        return bytes.len;
    }
    if (len > 0)
        start_exchange(conn, &head);
    return (size_t)len;
}

static size_t feed_body(struct cay_conn *conn, struct cay_str bytes)
{
    struct cay_http1_conn *http1 = conn->http1;
    struct cay_exchange *exchange = &http1->current->base;
    struct cay_str data = {bytes.ptr, (size_t)CAY_MIN((uint64_t)bytes.len, http1->body_left)};
    size_t used = data.len;
    bool is_end = false;
    if (http1->is_chunked) {
        ssize_t status =
            cay_http1_chunks_feed(&http1->chunks, bytes.ptr, bytes.len, &data, &is_end);
        if (status < 0) {
            give_up(conn, 400, "the chunks of the body are malformed");
            return bytes.len;
        }
        used = (size_t)status;
    } else {
        http1->body_left -= used;
        is_end = http1->body_left == 0;
    }
    if (is_end) {
        http1->state = HTTP1_ANSWER;
        exchange->is_body_over = true;
        /* Reading stays on until something comes (feed_step): most answers are there before the
         * next request is, and turning it off and on again costs system calls. */
    }
    exchange->body_bytes += data.len;
    http1->untaken_bytes += data.len;
    if (data.len && exchange->handler)
        exchange->handler->body(exchange, data.ptr, data.len);
    bool is_same = !conn->is_doomed && http1->current && &http1->current->base == exchange;
    if (is_same && is_end && exchange->handler)
        exchange->handler->body_end(exchange);
    else if (is_same && !is_end && http1->untaken_bytes >= CAY_LIMIT_BODY_QUEUE_BYTES)
        cay_stream_want_read(&conn->stream, false);
    return used;
}

static size_t skip_body(struct cay_http1_conn *http1, size_t len)
{
    size_t used = (size_t)CAY_MIN((uint64_t)len, http1->body_left);
    http1->body_left -= used;
    if (!http1->body_left)
        http1->state = HTTP1_HEAD;
    return used;
}

static size_t feed_step(struct cay_conn *conn, struct cay_str bytes)
{
    switch (conn->http1->state) {
    case HTTP1_HEAD:
        if (has_room(conn))
            return feed_head(conn, bytes);
        cay_stream_want_read(&conn->stream, false);
        return 0;
    case HTTP1_BODY: return feed_body(conn, bytes);
    case HTTP1_ANSWER: cay_stream_want_read(&conn->stream, false); return 0;
    case HTTP1_SKIP: return skip_body(conn->http1, bytes.len);
    case HTTP1_LINGER:
        conn->http1->linger_bytes += bytes.len;
        if (conn->http1->linger_bytes > CAY_LIMIT_LINGER_BYTES)
            cay_conn_doom(conn);
        return bytes.len;
    }
    return 0;
}

static void feed(struct cay_conn *conn, const char *data, size_t len)
{
    struct cay_http1_conn *http1 = conn->http1;
    http1->is_feeding = true;
    struct cay_str bytes = {data, len};
    struct cay_buf held = {};
    if (http1->pending.len) {
        cay_buf_append(&http1->pending, data, len);
        if (http1->pending.failed) {
            cay_conn_doom(conn);
            return;
        }
        /* Taken out: a step may clear the buffer it is parsing. */
        held = http1->pending;
        cay_buf_init(&http1->pending, held.size_bytes_max);
        bytes = cay_buf_str(&held);
    }
    while (bytes.len && !conn->is_doomed) {
        size_t used = feed_step(conn, bytes);
        if (!used)
            break;
        bytes.ptr += used;
        bytes.len -= used;
    }
    if (bytes.len && !conn->is_doomed)
        cay_buf_append(&http1->pending, bytes.ptr, bytes.len);
    cay_buf_finish(&held);
    http1->is_feeding = false;
}

static void end(struct cay_conn *conn)
{
    /* Between requests with answers still on their way: they are sent before we hang up. */
    enum http1_state state = conn->http1->state;
    if ((state == HTTP1_HEAD || state == HTTP1_LINGER) && cay_stream_queued(&conn->stream))
        start_linger(conn);
    else
        cay_conn_doom(conn);
}

static void sent(struct cay_conn *conn)
{
    struct cay_http1_conn *http1 = conn->http1;
    struct http1_exchange *current = http1->current;
    if (http1->state == HTTP1_LINGER) {
        /* The peer's time to hang up begins when it has everything. */
        conn->idle_since_ms = cay_loop_now_ms(conn->server->loop);
        if (cay_stream_queued(&conn->stream))
            return;
        if (conn->stream.is_read_over)
            cay_conn_doom(conn);
        else
            cay_stream_end(&conn->stream);
    } else if (http1->state == HTTP1_HEAD && has_room(conn)) {
        cay_stream_want_read(&conn->stream, true);
        if (http1->pending.len)
            feed(conn, NULL, 0);
    } else if (current && current->base.handler) {
        current->base.handler->room(&current->base);
    }
}

static void pump(struct cay_conn *conn)
{
    const struct cay_http1_conn *http1 = conn->http1;
    if (http1->state == HTTP1_HEAD && !http1->pending.len && cay_conn_has_heir(conn))
        cay_conn_hand_over(conn);
}

static void sweep(struct cay_conn *conn, uint64_t now_ms)
{
    const struct cay_server_options *options = &conn->server->options;
    struct cay_http1_conn *http1 = conn->http1;
    bool is_late = false;
    switch (http1->state) {
    case HTTP1_HEAD:
        if (http1->head_since_ms && now_ms - http1->head_since_ms > options->head_timeout_ms) {
            conn->server->stats.timeouts++;
            refuse(conn, 408, "the head of the request took too long");
            return;
        }
        is_late = !http1->head_since_ms && now_ms - conn->idle_since_ms > options->idle_timeout_ms;
        break;
    case HTTP1_BODY:
        if (cay_exchange_is_too_slow(&http1->current->base, cay_clock_ns())) {
            conn->server->stats.timeouts++;
            give_up(conn, 408, "the body of the request took too long");
            return;
        }
        break;
    case HTTP1_SKIP:
        is_late = now_ms - conn->idle_since_ms > conn->server->options.head_timeout_ms;
        break;
    case HTTP1_LINGER:
        is_late = !cay_stream_queued(&conn->stream) && now_ms - conn->idle_since_ms > LINGER_MS;
        break;
    case HTTP1_ANSWER: break;
    }
    if (is_late) {
        conn->server->stats.timeouts++;
        cay_conn_doom(conn);
    }
}

static void drain(struct cay_conn *conn)
{
    if (conn->http1->state == HTTP1_HEAD && !conn->http1->pending.len && !cay_conn_has_heir(conn))
        start_linger(conn);
}

static void finish_conn(struct cay_conn *conn)
{
    struct cay_http1_conn *http1 = conn->http1;
    if (http1->current) {
        cay_arena_finish(&http1->current->base.arena);
        free(http1->current);
    }
    cay_buf_finish(&http1->pending);
    free(http1);
}

void cay_http1_conn_open(struct cay_conn *conn)
{
    conn->http1 = cay_new(struct cay_http1_conn);
    conn->protocol = &cay_conn_http1;
    /* A head, and whatever of the next request came with the last read. */
    cay_buf_init(&conn->http1->pending, CAY_LIMIT_HEAD_BYTES + 2 * CAY_LOOP_SCRATCH_BYTES);
}

const struct cay_conn_protocol cay_conn_http1 = {
    .feed = feed,
    .end = end,
    .sent = sent,
    .pump = pump,
    .sweep = sweep,
    .drain = drain,
    .finish = finish_conn,
};

/* SPDX-License-Identifier: Apache-2.0 */
#include "front/http/conn.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/call.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "front/http/server_internal.h"
#include "io/heirs.h"

enum {
    BODY_TIMEOUT_MS = 30 * 1000, /* where the options give none */
    SLOW_BYTES_PER_S = 16 * 1024,
    FIRST_REQUEST_MS = 500, /* of a connection to a server that goes down */
};

void cay_conn_enter(struct cay_conn *conn)
{
    conn->depth++;
}

void cay_conn_leave(struct cay_conn *conn)
{
    assert(conn->depth > 0);
    if (conn->depth == 1 && !conn->is_doomed)
        conn->protocol->pump(conn);
    if (--conn->depth > 0 || !conn->is_doomed)
        return;
    struct cay_server *server = conn->server;
    cay_list_remove(&conn->in_server);
    cay_list_remove(&conn->in_strangers);
    conn->protocol->finish(conn);
    cay_places_leave(&server->places, conn->party);
    free(conn);
    server->stats.connections_open--;
    cay_server_conn_gone(server);
}

void cay_conn_doom(struct cay_conn *conn)
{
    assert(conn->depth > 0);
    if (conn->is_doomed)
        return;
    conn->is_doomed = true;
    cay_list_for_each (struct cay_exchange, exchange, &conn->exchanges, in_conn)
        cay_exchange_close(exchange);
    cay_stream_close(&conn->stream);
}

bool cay_conn_has_heir(const struct cay_conn *conn)
{
    return conn->is_draining && !conn->stream.tls &&
           cay_heirs_collects(cay_loop_heirs(conn->server->loop));
}

void cay_conn_hand_over(struct cay_conn *conn)
{
    if (conn->is_doomed || conn->stream.is_broken || cay_stream_queued(&conn->stream))
        return;
    int fd = cay_stream_release(&conn->stream);
    if (!cay_heirs_give(cay_loop_heirs(conn->server->loop), fd, CAY_HEIR_CONNECTION))
        close(fd);
    cay_conn_doom(conn);
}

static void on_readable(struct cay_stream *stream)
{
    struct cay_conn *conn = CAY_CONTAINER_OF(stream, struct cay_conn, stream);
    cay_conn_enter(conn);
    char *scratch = cay_loop_scratch(stream->loop);
    ssize_t got = cay_stream_read(stream, scratch, CAY_LOOP_SCRATCH_BYTES);
    if (got > 0) {
        conn->server->stats.received_bytes += (uint64_t)got;
        conn->protocol->feed(conn, scratch, (size_t)got);
        cay_wipe(scratch, (size_t)got); /* keys and secrets come this way */
    } else if (got == 0) {
        conn->protocol->end(conn);
    } else if (got != -EAGAIN) {
        cay_conn_doom(conn);
    }
    cay_conn_leave(conn);
}

static void on_sent(struct cay_stream *stream)
{
    struct cay_conn *conn = CAY_CONTAINER_OF(stream, struct cay_conn, stream);
    cay_conn_enter(conn);
    conn->protocol->sent(conn);
    cay_conn_leave(conn);
}

static void on_broken(struct cay_stream *stream, int)
{
    struct cay_conn *conn = CAY_CONTAINER_OF(stream, struct cay_conn, stream);
    cay_conn_enter(conn);
    cay_conn_doom(conn);
    cay_conn_leave(conn);
}

static const struct cay_stream_events stream_events = {
    .readable = on_readable,
    .sent = on_sent,
    .broken = on_broken,
};

void cay_conn_open(struct cay_server *server, int fd, const struct cay_peer *peer,
                   struct cay_party *party, struct cay_tls *tls)
{
    struct cay_conn *conn = cay_new(struct cay_conn);
    conn->server = server;
    conn->peer = *peer;
    conn->party = party;
    conn->protocol = &cay_conn_sniffing;
    conn->opened_ms = cay_loop_now_ms(server->loop);
    conn->idle_since_ms = conn->opened_ms;
    cay_list_init(&conn->exchanges);
    struct cay_tls_session *session = tls ? cay_tls_accept(tls, fd) : NULL;
    int status = cay_stream_open(&conn->stream, server->loop, fd, session, &stream_events,
                                 CAY_LIMIT_SEND_QUEUE_BYTES);
    if (status < 0 || (tls && !session)) {
        if (status >= 0)
            cay_stream_close(&conn->stream);
        cay_places_leave(&server->places, party);
        free(conn);
        return;
    }
    cay_list_push_back(&server->conns, &conn->in_server);
    cay_list_push_back(&party->strangers, &conn->in_strangers);
    server->stats.connections_open++;
}

/* The HTTP/2 preface starts with "PRI", which is no method of HTTP/1.1. */
static void sniff(struct cay_conn *conn, const char *data, size_t len)
{
    static const char preface[3] = {'P', 'R', 'I'};
    size_t known = conn->sniffed_len;
    size_t look = CAY_MIN(len, sizeof(preface) - known);
    bool may_be_http2 = memcmp(data, preface + known, look) == 0;
    if (may_be_http2 && known + look < sizeof(preface)) {
        memcpy(conn->sniffed + known, data, look);
        conn->sniffed_len = (unsigned char)(known + look);
        return;
    }
    if (!may_be_http2)
        cay_http1_conn_open(conn);
    else if (!cay_http2_conn_open(conn)) {
        cay_conn_doom(conn);
        return;
    }
    if (known)
        conn->protocol->feed(conn, conn->sniffed, known);
    if (!conn->is_doomed)
        conn->protocol->feed(conn, data, len);
}

static void sniff_sweep(struct cay_conn *conn, uint64_t now_ms)
{
    /* Nothing yet: a client may open connections ahead of need, but a TLS handshake may not dawdle.
     */
    uint64_t limit = conn->stream.tls || conn->sniffed_len ? conn->server->options.head_timeout_ms
                                                           : conn->server->options.idle_timeout_ms;
    bool is_late = now_ms - conn->opened_ms > limit;
    if (is_late)
        conn->server->stats.timeouts++;
    if (is_late ||
        (conn->is_draining && now_ms - conn->server->draining_since_ms > FIRST_REQUEST_MS))
        cay_conn_doom(conn);
}

/* Who has just come is about to ask something. */
static void sniff_drain(struct cay_conn *conn)
{
    if (conn->stream.tls)
        cay_conn_doom(conn);
}

static void sniff_pump(struct cay_conn *conn)
{
    if (cay_conn_has_heir(conn) && !conn->sniffed_len)
        cay_conn_hand_over(conn);
}

static void nothing(struct cay_conn *)
{
}

const struct cay_conn_protocol cay_conn_sniffing = {
    .feed = sniff,
    .end = cay_conn_doom,
    .sent = nothing,
    .pump = sniff_pump,
    .sweep = sniff_sweep,
    .drain = sniff_drain,
    .finish = nothing,
};

static uint64_t next_id(struct cay_server *server)
{
    uint64_t count = ++server->exchange_count;
    return CAY_MAX(cay_hash(server->id_key, (struct cay_str){(const char *)&count, sizeof(count)}),
                   UINT64_C(1));
}

void cay_exchange_init(struct cay_exchange *exchange, struct cay_conn *conn)
{
    exchange->server = conn->server;
    exchange->loop = conn->server->loop;
    exchange->peer = &conn->peer;
    exchange->conn = conn;
    exchange->is_tls = conn->stream.tls != NULL;
    exchange->started_ns = cay_clock_ns();
    exchange->id = next_id(conn->server);
    cay_list_push_back(&conn->exchanges, &exchange->in_conn);
    conn->server->stats.exchanges_open++;
    conn->server->stats.requests++;
}

static void write_access_log(const struct cay_exchange *exchange)
{
    char id[CAY_REQUEST_ID_BYTES];
    bool is_good = exchange->status / 100 == 2 &&
                   (!exchange->log_code || strcmp(exchange->log_code, "ok") == 0);
    cay_request_id(exchange->id, id);
    cay_log(exchange->is_piece && is_good ? CAY_DEBUG : CAY_INFO, "http.request",
            CAY_S("method", exchange->method), CAY_S("path", exchange->path), CAY_S("request", id),
            CAY_I("status", exchange->status),
            CAY_S("code", exchange->log_code ? exchange->log_code : "-"),
            CAY_S("key", exchange->log_key ? exchange->log_key : "-"),
            CAY_S("peer", exchange->peer->text),
            CAY_D("took", cay_clock_ns() - exchange->started_ns), CAY_U("in", exchange->body_bytes),
            CAY_U("out", exchange->sent_bytes));
}

void cay_exchange_close(struct cay_exchange *exchange)
{
    struct cay_server *server = exchange->server;
    if (exchange->is_closed)
        return;
    exchange->is_closed = true;
    const struct cay_handler *handler = cay_take_ptr(exchange->handler);
    if (handler)
        handler->closed(exchange);
    cay_places_end_call(&server->places, cay_take_ptr(exchange->call));
    server->stats.exchanges_open--;
    server->stats.responses_by_class[CAY_MIN(exchange->status / 100, 5)]++;
    server->stats.sent_bytes += exchange->sent_bytes;
    if (server->options.has_access_log)
        write_access_log(exchange);
}

bool cay_exchange_is_too_slow(const struct cay_exchange *exchange, int64_t now_ns)
{
    if (exchange->is_long_lived || exchange->is_body_over)
        return false;
    uint64_t age_ms = (uint64_t)(now_ns - exchange->started_ns) / CAY_NS_PER_MS;
    uint64_t limit_ms = exchange->server->options.body_timeout_ms;
    return age_ms >
           (limit_ms ? limit_ms : BODY_TIMEOUT_MS) + exchange->body_bytes * 1000 / SLOW_BYTES_PER_S;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "egress/conn.h"

/*
 * Two sockets and the bytes between them. What one side does not take at once is kept, at most
 * EGRESS_PIECE_BYTES of it, and nothing more is read from the other until it is gone. What
 * the client says is looked at before it is passed on.
 */

static struct egress_conn *conn_of(struct egress_side *side, bool is_client)
{
    return is_client ? CAY_CONTAINER_OF(side, struct egress_conn, client)
                     : CAY_CONTAINER_OF(side, struct egress_conn, server);
}

void egress_side_close(struct egress_side *side, struct egress *egress, bool is_reset)
{
    const struct linger at_once = {.l_onoff = 1};
    if (side->watch.fd >= 0 && is_reset)
        (void)setsockopt(side->watch.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    egress_unwatch(egress, &side->watch);
    free(cay_take_ptr(side->rest));
    side->rest_len = side->rest_sent = side->rest_allowed = 0;
}

static void count_bytes(struct egress_conn *conn, bool is_from_client, size_t len)
{
    struct cay_egress_totals *totals = &conn->egress->receipts.totals;
    *(is_from_client ? &conn->sent_bytes : &conn->received_bytes) += len;
    *(is_from_client ? &totals->sent_bytes : &totals->received_bytes) += len;
}

/* What waits for this side to take it. */
static size_t left(const struct egress_side *side)
{
    return side->rest_allowed - side->rest_sent;
}

/* Keeps what could not be sent. */
static void keep(struct egress_side *side, const char *bytes, size_t len)
{
    if (!side->rest)
        side->rest = cay_alloc(EGRESS_PIECE_BYTES);
    memcpy(side->rest, bytes, len);
    side->rest_len = side->rest_allowed = len;
    side->rest_sent = 0;
}

/* False: broken. */
static bool send_rest(struct egress_side *side)
{
    while (left(side)) {
        ssize_t sent = send(side->watch.fd, side->rest + side->rest_sent, left(side),
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN;
        side->rest_sent += (size_t)sent;
    }
    if (side->rest_len == side->rest_allowed) {
        free(cay_take_ptr(side->rest));
        side->rest_len = side->rest_sent = side->rest_allowed = 0;
    }
    return true;
}

static void set_events(struct egress_conn *conn)
{
    struct egress_side *sides[] = {&conn->client, &conn->server};
    for (size_t i = 0; i < 2; i++) {
        struct egress_side *side = sides[i];
        const struct egress_side *other = sides[1 - i];
        uint32_t events = left(side) ? EPOLLOUT : 0;
        if (!side->is_read_over && !left(other) && other->rest_len < EGRESS_PIECE_BYTES)
            events |= EPOLLIN;
        (void)egress_watch(conn->egress, &side->watch, events);
    }
}

/* Passes the end of one direction on when all before it is gone. False: both are over. */
static bool pass_ends(struct egress_conn *conn)
{
    struct egress_side *sides[] = {&conn->client, &conn->server};
    for (size_t i = 0; i < 2; i++) {
        struct egress_side *to = sides[1 - i];
        if (sides[i]->is_read_over && !to->is_write_over && !left(to)) {
            to->is_write_over = true;
            (void)shutdown(to->watch.fd, SHUT_WR);
        }
    }
    return !conn->client.is_write_over || !conn->server.is_write_over;
}

/* Allows what may be passed on of what is held back. False: the connection is over. */
static bool judge(struct egress_conn *conn)
{
    struct egress_side *to = &conn->server;
    size_t held = to->rest_len - to->rest_allowed;
    if (!held)
        return true;
    conn->sniff.intercepts = egress_must_intercept(conn);
    ssize_t count = egress_sniff(&conn->sniff, conn->name, to->rest + to->rest_allowed, held);
    if (count == 0 && to->rest_len == EGRESS_PIECE_BYTES && !left(to) && !to->rest_sent)
        count = -CAY_EGRESS_MALFORMED;
    if (count < 0) {
        egress_conn_end(conn, CAY_EGRESS_REFUSED, (enum cay_egress_why) - count);
        return false;
    }
    to->rest_allowed += (size_t)count;
    return true;
}

static bool pass_on(struct egress_conn *conn)
{
    if (send_rest(&conn->server))
        return true;
    egress_conn_end(conn, CAY_EGRESS_ALLOWED, CAY_EGRESS_UNREACHABLE);
    return false;
}

/* One piece from one side to the other. False: the connection is over. */
static bool move(struct egress_conn *conn, bool is_from_client)
{
    struct egress_side *from = is_from_client ? &conn->client : &conn->server;
    struct egress_side *to = is_from_client ? &conn->server : &conn->client;
    char *piece = conn->egress->scratch;
    if (is_from_client && (conn->sniff.phase != EGRESS_SNIFF_THROUGH || to->rest_len))
        return egress_relay_hear(conn) && pass_on(conn);
    ssize_t len = recv(from->watch.fd, piece, EGRESS_PIECE_BYTES, MSG_DONTWAIT);
    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (len < 0) {
        egress_conn_end(conn, CAY_EGRESS_ALLOWED, CAY_EGRESS_UNREACHABLE);
        return false;
    }
    from->is_read_over = len == 0;
    count_bytes(conn, is_from_client, (size_t)len);
    if (len == 0)
        return true;
    /* Servers of HTTP and TLS do not speak first. */
    if (!is_from_client && !conn->sent_bytes && !conn->has_shy_server)
        conn->sniff.phase = EGRESS_SNIFF_THROUGH;
    if (!is_from_client && egress_sniff_answered(&conn->sniff, piece, (size_t)len) &&
        !(judge(conn) && pass_on(conn)))
        return false;
    ssize_t sent = send(to->watch.fd, piece, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        egress_conn_end(conn, CAY_EGRESS_ALLOWED, CAY_EGRESS_UNREACHABLE);
        return false;
    }
    sent = CAY_MAX(sent, 0);
    if (sent < len)
        keep(to, piece + sent, (size_t)(len - sent));
    return true;
}

static void on_ready(struct egress_side *side, bool is_client, uint32_t events)
{
    struct egress_conn *conn = conn_of(side, is_client);
    const struct egress_side *other = is_client ? &conn->server : &conn->client;
    if (events & EPOLLERR) {
        egress_conn_end(conn, CAY_EGRESS_ALLOWED, CAY_EGRESS_UNREACHABLE);
        return;
    }
    if (events & EPOLLOUT && !send_rest(side)) {
        egress_conn_end(conn, CAY_EGRESS_ALLOWED, CAY_EGRESS_UNREACHABLE);
        return;
    }
    if (events & (EPOLLIN | EPOLLHUP) && !side->is_read_over && !left(other) &&
        !move(conn, is_client))
        return;
    if (pass_ends(conn))
        set_events(conn);
    else
        egress_conn_end(conn, CAY_EGRESS_ALLOWED, 0);
}

static void on_server(struct egress_watch *watch, uint32_t events)
{
    on_ready(CAY_CONTAINER_OF(watch, struct egress_side, watch), false, events);
}

void egress_on_client(struct egress_watch *watch, uint32_t events)
{
    on_ready(CAY_CONTAINER_OF(watch, struct egress_side, watch), true, events);
}

void egress_relay_start(struct egress_conn *conn)
{
    conn->phase = EGRESS_RELAYS;
    conn->deadline_ms = 0;
    conn->client.watch.ready = egress_on_client;
    conn->server.watch.ready = on_server;
    if (!send_rest(&conn->server))
        egress_conn_end(conn, CAY_EGRESS_ALLOWED, CAY_EGRESS_UNREACHABLE);
    else if (pass_ends(conn))
        set_events(conn);
    else
        egress_conn_end(conn, CAY_EGRESS_ALLOWED, 0);
}

bool egress_relay_hear(struct egress_conn *conn)
{
    struct egress_side *to = &conn->server;
    if (!to->rest)
        to->rest = cay_alloc(EGRESS_PIECE_BYTES);
    if (to->rest_sent) {
        memmove(to->rest, to->rest + to->rest_sent, to->rest_len - to->rest_sent);
        to->rest_len -= to->rest_sent;
        to->rest_allowed -= to->rest_sent;
        to->rest_sent = 0;
    }
    ssize_t len = to->rest_len < EGRESS_PIECE_BYTES
                      ? recv(conn->client.watch.fd, to->rest + to->rest_len,
                             EGRESS_PIECE_BYTES - to->rest_len, MSG_DONTWAIT)
                      : -1;
    if (len < 0 && (to->rest_len == EGRESS_PIECE_BYTES || errno == EAGAIN || errno == EINTR))
        return true;
    if (len < 0) {
        egress_conn_end(conn, CAY_EGRESS_FAILED, CAY_EGRESS_LEFT);
        return false;
    }
    conn->client.is_read_over = len == 0;
    count_bytes(conn, true, (size_t)len);
    to->rest_len += (size_t)len;
    return judge(conn);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "front/http/server.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/id.h"
#include "front/http/conn.h"
#include "front/http/server_internal.h"

enum { SWEEP_MS = 1000 };

/* Without its length: it ends with the connection. */
static const char farewell[] =
    "HTTP/1.1 429 Too Many Requests\r\n"
    "content-type: application/json\r\n"
    "connection: close\r\n\r\n"
    "{\"code\":\"resource_exhausted\",\"message\":\"the daemon has as many connections or files "
    "open "
    "as it may have; close some, end sessions, or raise its limits (max_connections, "
    "LimitNOFILE)\"}";

static const char farewell_of_many[] =
    "HTTP/1.1 429 Too Many Requests\r\n"
    "content-type: application/json\r\n"
    "connection: close\r\n\r\n"
    "{\"code\":\"resource_exhausted\",\"message\":\"too many connections come from this address, "
    "which leaves too few of max_connections for others; close some, or send several calls over "
    "one\"}";

/* HTTP/2 reads on whatever a stream of it does, so there the connection is never the patient one.
 */
static bool is_patient(const struct cay_conn *conn)
{
    const struct cay_exchange *exchange =
        CAY_LIST_ITEM(cay_list_first(&conn->exchanges), struct cay_exchange, in_conn);
    return exchange && exchange->is_patient && !exchange->is_http2 && !conn->is_cut;
}

static void on_sweep(struct cay_timer *timer)
{
    struct cay_server *server = CAY_CONTAINER_OF(timer, struct cay_server, sweep);
    uint64_t now_ms = cay_loop_now_ms(server->loop);
    cay_list_for_each (struct cay_conn, conn, &server->conns, in_server) {
        cay_conn_enter(conn);
        uint64_t quiet_ms = now_ms - CAY_MIN(now_ms, conn->stream.progress_ms);
        uint64_t limit_ms = conn->is_cut ? CAY_CUT_QUIET_MS : server->options.send_timeout_ms;
        if (cay_stream_queued(&conn->stream) && quiet_ms > limit_ms && !is_patient(conn)) {
            server->stats.timeouts++;
            cay_conn_doom(conn);
        } else {
            conn->protocol->sweep(conn, now_ms);
        }
        cay_conn_leave(conn);
    }
}

bool cay_peer_administers(const struct cay_peer *peer)
{
    return peer->is_unix && (peer->uid == 0 || peer->uid == geteuid());
}

/* Who comes to call goes before others from there who wait with it: nobody can keep its neighbours
 * away by opening connections. */
static bool make_way(struct cay_party *party)
{
    enum { LOOKS_MAX = 16 };
    for (int i = 0; party && i < LOOKS_MAX; i++) {
        struct cay_list_node *node = cay_list_pop_front(&party->strangers);
        struct cay_conn *conn = CAY_LIST_ITEM(node, struct cay_conn, in_strangers);
        if (!conn)
            return false;
        if (cay_list_empty(&conn->exchanges)) {
            cay_conn_enter(conn);
            cay_conn_doom(conn);
            cay_conn_leave(conn);
            return true;
        }
        cay_list_push_back(&party->strangers, node);
    }
    return false;
}

static void on_accepted(struct cay_listener *listener, int fd, const struct cay_peer *peer)
{
    struct cay_server_listener *place =
        CAY_CONTAINER_OF(listener, struct cay_server_listener, listener);
    struct cay_server *server = place->server;
    server->stats.connections_accepted++;
    bool is_full = false;
    struct cay_party *party =
        cay_places_take(&server->places, peer->from, cay_peer_administers(peer), &is_full);
    if (!party && !is_full && make_way(cay_places_find(&server->places, peer->from)))
        party = cay_places_grant(&server->places, peer->from);
    if (!party) {
        server->stats.connections_refused++;
        cay_listener_refuse(fd, is_full || place->use_tls ? listener->farewell : farewell_of_many);
        return;
    }
    cay_conn_open(server, fd, peer, party, place->use_tls ? server->tls : NULL);
}

struct cay_server *cay_server_create(struct cay_loop *loop,
                                     const struct cay_server_options *options)
{
    assert(options->route);
    struct cay_server *server = cay_new(struct cay_server);
    server->loop = loop;
    server->options = *options;
    cay_random_bytes(server->id_key, sizeof(server->id_key));
    cay_places_init(&server->places, options->connection_count_max);
    cay_list_init(&server->conns);
    cay_timer_open(&server->sweep, loop, on_sweep);
    cay_timer_start(&server->sweep, SWEEP_MS, SWEEP_MS);
    return server;
}

static bool refuse_more(struct cay_error *err)
{
    return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the daemon listens on at most %d addresses",
                    CAY_SERVER_LISTENERS_MAX);
}

bool cay_server_listen(struct cay_server *server, const char *address, bool use_tls,
                       const char **out_address, struct cay_error *err)
{
    if (server->listener_count == CAY_SERVER_LISTENERS_MAX)
        return refuse_more(err);
    struct cay_server_listener *place = &server->listeners[server->listener_count];
    *place = (struct cay_server_listener){.server = server, .use_tls = use_tls};
    if (!cay_listener_open(&place->listener, server->loop, address, on_accepted, err))
        return false;
    place->listener.farewell = place->use_tls ? NULL : farewell;
    server->listener_count++;
    *out_address = place->listener.address;
    return true;
}

bool cay_server_listen_managed(struct cay_server *server, int fd, bool use_tls,
                               const char **out_address, struct cay_error *err)
{
    if (server->listener_count == CAY_SERVER_LISTENERS_MAX) {
        close(fd);
        return refuse_more(err);
    }
    struct cay_server_listener *place = &server->listeners[server->listener_count];
    *place = (struct cay_server_listener){.server = server, .use_tls = use_tls};
    if (!cay_listener_open_managed(&place->listener, server->loop, fd, on_accepted, err))
        return false;
    place->use_tls = use_tls && !place->listener.is_unix;
    place->listener.farewell = place->use_tls ? NULL : farewell;
    server->listener_count++;
    *out_address = place->listener.address;
    return true;
}

void cay_server_adopt(struct cay_server *server, int fd)
{
    struct cay_peer peer;
    if (!cay_peer_of(fd, &peer)) {
        close(fd);
        return;
    }
    server->stats.connections_accepted++;
    cay_conn_open(server, fd, &peer, cay_places_grant(&server->places, peer.from), NULL);
}

void cay_server_set_tls(struct cay_server *server, struct cay_tls *tls)
{
    cay_tls_destroy(server->tls);
    server->tls = tls;
}

static void close_listeners(struct cay_server *server)
{
    for (size_t i = 0; i < server->listener_count; i++)
        cay_listener_close(&server->listeners[i].listener);
    server->listener_count = 0;
}

void cay_server_cut(struct cay_server *server)
{
    /* Taken out while the list is walked: the last one to go would report it drained. */
    void (*drained)(void *) = cay_take_ptr(server->drained);
    cay_list_for_each (struct cay_conn, conn, &server->conns, in_server) {
        cay_conn_enter(conn);
        cay_conn_doom(conn);
        cay_conn_leave(conn);
    }
    server->drained = drained;
    cay_server_conn_gone(server);
}

static void on_cut(struct cay_timer *timer)
{
    cay_server_cut(CAY_CONTAINER_OF(timer, struct cay_server, cut));
}

void cay_server_conn_gone(struct cay_server *server)
{
    if (server->is_draining && server->drained && cay_list_empty(&server->conns)) {
        void (*drained)(void *) = cay_take_ptr(server->drained);
        drained(server->drained_context);
    }
}

void cay_server_drain(struct cay_server *server, uint64_t limit_ms, void (*drained)(void *context),
                      void *context)
{
    if (server->is_draining)
        return;
    server->is_draining = true;
    server->draining_since_ms = cay_loop_now_ms(server->loop);
    server->drained_context = context;
    close_listeners(server);
    cay_timer_open(&server->cut, server->loop, on_cut);
    cay_timer_start(&server->cut, limit_ms, 0);
    cay_list_for_each (struct cay_conn, conn, &server->conns, in_server) {
        cay_conn_enter(conn);
        conn->is_draining = true;
        conn->protocol->drain(conn);
        cay_conn_leave(conn);
    }
    /* Only now may the last one to leave say so: the list is no longer walked. */
    server->drained = drained;
    cay_server_conn_gone(server);
}

void cay_server_destroy(struct cay_server *server)
{
    if (!server)
        return;
    assert(cay_list_empty(&server->conns));
    close_listeners(server);
    cay_timer_close(&server->sweep);
    cay_timer_close(&server->cut);
    cay_tls_destroy(server->tls);
    cay_places_finish(&server->places);
    free(server);
}

const struct cay_server_stats *cay_server_stats(const struct cay_server *server)
{
    return &server->stats;
}

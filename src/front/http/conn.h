/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A client's connection, private to this room. The first bytes decide which protocol drives it: the
 * HTTP/2 preface, else HTTP/1.1 (ALPN only tells the client what it may send). It lives in its
 * server's list until it is doomed; memory goes when the last function that works on it has left.
 */

#include "base/list.h"
#include "front/http/exchange.h"
#include "front/http/server.h"
#include "io/stream.h"

struct cay_conn;

enum { CAY_CUT_QUIET_MS = 1000 }; /* whoever is to come back anyhow is not waited for longer */

/* What a protocol does with its connection. */
struct cay_conn_protocol {
    /* Bytes arrived. They are gone after the call. */
    void (*feed)(struct cay_conn *conn, const char *data, size_t len);
    /* The peer said it will send no more. */
    void (*end)(struct cay_conn *conn);
    void (*sent)(struct cay_conn *conn);
    /* Last thing before control leaves the connection: hand what is ready to the stream. */
    void (*pump)(struct cay_conn *conn);
    /* Once a second: enforce the time limits. */
    void (*sweep)(struct cay_conn *conn, uint64_t now_ms);
    /* The server is going down: finish what runs, take nothing new. */
    void (*drain)(struct cay_conn *conn);
    void (*finish)(struct cay_conn *conn);
};

extern const struct cay_conn_protocol cay_conn_sniffing;
extern const struct cay_conn_protocol cay_conn_http1;
extern const struct cay_conn_protocol cay_conn_http2;

struct cay_http1_conn;
struct cay_http2_conn;

struct cay_conn {
    struct cay_stream stream;
    struct cay_list_node in_server;
    struct cay_server *server;
    const struct cay_conn_protocol *protocol;
    union {
        struct cay_http1_conn *http1;
        struct cay_http2_conn *http2;
    };
    struct cay_list exchanges;
    struct cay_peer peer;
    struct cay_party *party; /* who has it: its peer, or the owner that called last */
    struct cay_list_node in_strangers;
    uint64_t opened_ms;
    uint64_t idle_since_ms; /* when the last exchange ended */
    unsigned depth;         /* functions at work on it */
    bool is_doomed;
    bool is_draining;
    bool is_cut; /* an exchange of it was */
    char sniffed[3];
    unsigned char sniffed_len;
};

/* Takes over fd, for who took a place for it. */
void cay_conn_open(struct cay_server *server, int fd, const struct cay_peer *peer,
                   struct cay_party *party, struct cay_tls *tls);

/* Around everything that works on a connection; leaving may free it. */
void cay_conn_enter(struct cay_conn *conn);
void cay_conn_leave(struct cay_conn *conn);

/* Hangs up. Exchanges are closed, the memory goes at the last leave. */
void cay_conn_doom(struct cay_conn *conn);

/* The server goes down and another goes on with this connection, between two requests. */
[[nodiscard]] bool cay_conn_has_heir(const struct cay_conn *conn);
/* Nothing of the next request was read. Waits until all answers are sent. */
void cay_conn_hand_over(struct cay_conn *conn);

/* HTTP/2: starts the session for the bytes that were sniffed. False when out of memory. */
[[nodiscard]] bool cay_http2_conn_open(struct cay_conn *conn);
void cay_http1_conn_open(struct cay_conn *conn);

/* Life of an exchange: init when the head is known, then routed; close tells the handler and the
 * access log, once. Its place in conn->exchanges and its memory are the protocol's. */
void cay_exchange_init(struct cay_exchange *exchange, struct cay_conn *conn);
void cay_exchange_close(struct cay_exchange *exchange);

/* True when a request arrives more slowly than the server puts up with. */
[[nodiscard]] bool cay_exchange_is_too_slow(const struct cay_exchange *exchange, int64_t now_ns);

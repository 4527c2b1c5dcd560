/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The HTTP server: listeners, connections, limits of time and number, draining. It knows nothing of
 * what is served: every request goes to `route`.
 *
 * Order: create -> listen* -> (loop runs) -> drain -> drained callback -> destroy.
 */

#include "base/error.h"
#include "front/http/exchange.h"
#include "io/loop.h"
#include "io/tls.h"

struct cay_server_options {
    /* Gives the exchange its handler (or answers at once). */
    void (*route)(struct cay_exchange *exchange, void *context);
    void *context;
    size_t connection_count_max;
    uint64_t head_timeout_ms; /* from the first byte of a request to the end of its head */
    uint64_t body_timeout_ms; /* for a unary body, besides a second per 16 KiB; 0 = 30 s */
    uint64_t idle_timeout_ms; /* between requests */
    uint64_t send_timeout_ms; /* without the peer taking a byte of what is queued */
    bool has_access_log;
};

struct cay_server_stats {
    uint64_t connections_accepted;
    uint64_t connections_refused;
    uint64_t requests;
    uint64_t responses_by_class[6]; /* [2] = 2xx …; [0]: the peer left before an answer */
    uint64_t received_bytes;
    uint64_t sent_bytes;
    uint64_t timeouts;
    size_t connections_open;
    size_t exchanges_open;
};

struct cay_server;

struct cay_server *cay_server_create(struct cay_loop *loop,
                                     const struct cay_server_options *options);

/* Root and the daemon's own user, at the Unix socket. */
[[nodiscard]] bool cay_peer_administers(const struct cay_peer *peer);

/* Every connection must be gone: drained. */
void cay_server_destroy(struct cay_server *server);

/* Listens; with `tls` (borrowed, may be replaced by set_tls) the connections speak TLS. The bound
 * address goes to *out_address and lives as long as the server. */
[[nodiscard]] bool cay_server_listen(struct cay_server *server, const char *address, bool use_tls,
                                     const char **out_address, struct cay_error *err);

/* The same on a socket that listens already, which it takes over. */
[[nodiscard]] bool cay_server_listen_managed(struct cay_server *server, int fd, bool use_tls,
                                             const char **out_address, struct cay_error *err);

/* Takes over a connection between two requests, without TLS, that another server had. */
void cay_server_adopt(struct cay_server *server, int fd);

/* For connections accepted from now on. The server takes it over. */
void cay_server_set_tls(struct cay_server *server, struct cay_tls *tls);

/* Stops listening, lets what runs finish, cuts the rest after limit_ms; then calls drained once.
 * When the heirs of the loop collect, they get the listeners and every connection without TLS that
 * is between two requests: its client notices nothing. */
void cay_server_drain(struct cay_server *server, uint64_t limit_ms, void (*drained)(void *context),
                      void *context);

/* Hangs up on everybody who is left, now. */
void cay_server_cut(struct cay_server *server);

const struct cay_server_stats *cay_server_stats(const struct cay_server *server);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One request and its answer, whatever HTTP version carries it. A connection makes it once the head
 * is there and hands it to the router, which gives it a handler. The connection owns it; `closed`
 * is the last a handler hears of it.
 *
 * Handler: body* -> body_end -> (respond -> write* -> finish), in any overlap; room when more may
 * be written; closed exactly once, with or without a finished answer.
 */

#include "api/limits.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/list.h"
#include "io/listener.h"
#include "wire/http.h"

struct cay_conn;
struct cay_exchange;
struct cay_party;
struct cay_server;

struct cay_handler {
    /* Part of the request's body. Taken with cay_exchange_taken, now or when there is room for
     * more. */
    void (*body)(struct cay_exchange *exchange, const char *data, size_t len);
    void (*body_end)(struct cay_exchange *exchange);
    /* Something written has been sent. */
    void (*room)(struct cay_exchange *exchange);
    /* Over: answered and sent on its way, or the peer is gone. */
    void (*closed)(struct cay_exchange *exchange);
};

/* The connection's half. */
struct cay_exchange_ops {
    void (*respond)(struct cay_exchange *exchange, int status,
                    const struct cay_http_header *headers, size_t count, int64_t content_length);
    void (*write)(struct cay_exchange *exchange, const void *data, size_t len);
    void (*finish)(struct cay_exchange *exchange, const struct cay_http_header *trailers,
                   size_t count);
    void (*taken)(struct cay_exchange *exchange, size_t len);
    void (*reset)(struct cay_exchange *exchange);
    void (*welcome)(struct cay_exchange *exchange); /* NULL: nobody waits for that */
    size_t (*queued)(const struct cay_exchange *exchange);
};

struct cay_exchange {
    const struct cay_exchange_ops *ops;
    const struct cay_handler *handler; /* NULL until routed */
    void *state;                       /* the handler's */
    struct cay_server *server;
    struct cay_loop *loop;
    const struct cay_peer *peer;
    struct cay_conn *conn;
    struct cay_party *call; /* whose the request is, once that is known */
    struct cay_list_node in_conn;
    struct cay_arena arena; /* the head, and small things that live as long */

    struct cay_str method;
    struct cay_str path;
    struct cay_str query;
    struct cay_str host;
    struct cay_http_headers headers;
    bool is_http2;
    bool is_tls;
    bool is_body_over;
    bool is_cut;        /* set by the handler: the peer comes back for what it does not take soon */
    bool is_long_lived; /* set by the handler: a stream, to which no rate of arrival applies */
    bool is_piece;      /* set by the handler: one of very many, logged only when it fails */
    bool is_patient;    /* set by the handler: the answer may stay unread as long as it likes */
    bool is_last;       /* HTTP/1.1: the connection ends with its answer */
    bool is_unsure;     /* not known who calls: who waits with the body is not told to go on */

    int status;       /* of the answer, 0 before it started */
    bool is_finished; /* the answer is complete */
    bool is_closed;
    int64_t started_ns; /* monotonic */
    uint64_t id;        /* in the access log, and in what the request caused */
    uint64_t body_bytes;
    uint64_t sent_bytes;
    const char *log_code; /* what the handler adds to the access log: a Connect code */
    const char *log_key;  /* and whose key it was */
};

/* content_length < 0: not known in advance. */
void cay_exchange_respond(struct cay_exchange *exchange, int status,
                          const struct cay_http_header *headers, size_t count,
                          int64_t content_length);
void cay_exchange_write(struct cay_exchange *exchange, const void *data, size_t len);

/* The exchange may be freed inside (after `closed`): not to be touched afterwards. */
void cay_exchange_finish(struct cay_exchange *exchange, const struct cay_http_header *trailers,
                         size_t count);

/* A whole answer. */
void cay_exchange_reply(struct cay_exchange *exchange, int status, const char *content_type,
                        struct cay_str body);

/* {"code":…,"message":…} with the reason's HTTP status: how every door but RPC says no. */
void cay_exchange_reply_error(struct cay_exchange *exchange, const struct cay_error *err);

/* The handler is through with that much of the body. */
void cay_exchange_taken(struct cay_exchange *exchange, size_t len);

/* Breaks it off: nothing sensible can be answered any more. As finish, it may free the exchange. */
void cay_exchange_reset(struct cay_exchange *exchange);

/* Not unsure any more: a peer that waits to hear so (Expect: 100-continue) may send its body. */
void cay_exchange_welcome(struct cay_exchange *exchange);

/* It is known who calls. RESOURCE_EXHAUSTED when the owner has more than its share of connections,
 * or too many calls under way; administrators are not bound. */
[[nodiscard]] bool cay_exchange_belongs(struct cay_exchange *exchange, const char *owner,
                                        bool is_admin, struct cay_error *err);

/* How much was written and not sent. */
[[nodiscard]] size_t cay_exchange_unsent(const struct cay_exchange *exchange);

/* True while a producer may go on writing. */
[[nodiscard]] bool cay_exchange_has_room(const struct cay_exchange *exchange);

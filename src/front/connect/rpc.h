/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state of one RPC, private to this room. It begins with its exchange and ends when both the
 * exchange is closed and the verb, if it was started, has answered.
 *
 *   connect.c  from the head of a request to the start of its verb
 *   inbound.c  request bytes to messages
 *   outbound.c messages and errors to response bytes
 *   away.c     what of both is dear, done by a worker
 *   metrics.c  what was counted of them
 */

#include "api/call.h"
#include "front/auth/auth.h"
#include "front/connect/connect.h"
#include "front/http/away.h"
#include "wire/rpc.h"

enum { CAY_RPC_BUCKETS = 8 };

/* Upper bounds of the latency histogram in microseconds; the last bucket has none. */
extern const uint32_t cay_rpc_bucket_us[CAY_RPC_BUCKETS - 1];

struct cay_rpc_method_stats {
    uint64_t by_code[17]; /* cay_connect_code */
    uint64_t buckets[CAY_RPC_BUCKETS];
    uint64_t total_us;
};

/* The door. */
struct cay_connect {
    struct cay_porch *porch;
    struct cay_rpc_method_stats *stats; /* one per method of the service */
};

void cay_connect_metrics(const void *self, struct cay_buf *out);

struct cay_rpc {
    struct cay_call call; /* first */
    struct cay_connect *door;
    struct cay_exchange *exchange; /* NULL once closed */
    struct cay_rpc_kind kind;
    enum cay_rpc_compression request_compression;
    bool accepts_gzip;
    bool is_get;
    bool ignores_unknown_fields; /* of JSON: the client may be newer than this daemon */
    struct cay_timer deadline;
    struct cay_auth auth;
    int64_t started_ns;
    unsigned depth; /* functions at work on it */

    /* Requests. A single message is collected in `body`; a stream of them passes through `body`
     * into `reader`, one at a time. */
    struct cay_buf body;
    struct cay_body_charge charge; /* for it and the reader */
    size_t body_read;              /* bytes of `body` that the reader has */
    struct cay_envelope_reader reader;
    struct cay_buf unpacked;
    struct cay_arena message_arena; /* the current message of a client stream */
    const void *message;            /* decoded, not delivered yet; in message_arena */
    bool has_message;               /* reader holds a complete one */
    bool wants_message;             /* the verb asked for it */
    bool is_body_over;
    bool end_delivered;

    /* While a worker is at it, the bytes and the arena of a message are the worker's. */
    struct cay_away away;
    bool (*at_worker)(struct cay_rpc *rpc, struct cay_error *err);
    void (*came_back)(struct cay_rpc *rpc, const struct cay_error *err);
    struct cay_error away_err;
    const void *response; /* to be encoded; kept */
    bool is_sending;      /* it is a message of a stream, and others follow */
    struct cay_buf answer;
    struct cay_buf packed; /* empty: it goes as it is */

    bool is_known;     /* who calls, and that they may: before that nothing is taken of the body */
    bool is_started;   /* the verb runs */
    bool is_answered;  /* the verb called done or fail */
    bool is_responded; /* the head of the answer is out */
    bool is_over;      /* the answer is complete, as far as the peer is concerned */
};

static inline struct cay_rpc *cay_rpc_of(struct cay_call *call)
{
    return CAY_CONTAINER_OF(call, struct cay_rpc, call);
}

/* Around everything that may run a verb; leaving may free it. */
void cay_rpc_enter(struct cay_rpc *rpc);
void cay_rpc_leave(struct cay_rpc *rpc);

/* Answers with an error, whatever state the call is in, and takes it back from its verb. */
void cay_rpc_give_up(struct cay_rpc *rpc, const struct cay_error *err);

/* The verb may send more, if that is so. */
void cay_rpc_tell_room(struct cay_rpc *rpc);

/* After the decoding of a message: false, and the call is given up, when that failed, or when what
 * the message was decoded to is more than its owner may hold. */
[[nodiscard]] bool cay_rpc_has_decoded(struct cay_rpc *rpc, const struct cay_error *err);

/* inbound.c: decodes the one message of a call that is not client-streaming. */
[[nodiscard]] bool cay_rpc_decode_single(struct cay_rpc *rpc, struct cay_error *err);
/* Delivers what the verb wants and the body has. */
void cay_rpc_pump(struct cay_rpc *rpc);

/* away.c: has a worker do it in the caller's lane, then `came_back` on the loop thread; `err` is
 * NULL when it went well. Not called when the caller has gone, or was answered meanwhile. */
void cay_rpc_send_away(struct cay_rpc *rpc,
                       bool (*at_worker)(struct cay_rpc *rpc, struct cay_error *err),
                       void (*came_back)(struct cay_rpc *rpc, const struct cay_error *err));

/* outbound.c */
void cay_rpc_send_response(struct cay_rpc *rpc, const void *response);
[[nodiscard]] bool cay_rpc_send_message(struct cay_rpc *rpc, const void *message,
                                        struct cay_error *err);
/* Leaves a message of a stream to a worker, and tells the verb of room afterwards; false when it is
 * not so large. What it points to must last as long as the call. */
[[nodiscard]] bool cay_rpc_send_later(struct cay_rpc *rpc, const void *message);
void cay_rpc_send_end(struct cay_rpc *rpc, const struct cay_error *err);

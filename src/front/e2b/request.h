/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One request at the door, private to this room. It begins with its exchange and ends when the
 * exchange is closed and every call it made on the hallway (hall.h) has been answered.
 *
 *   request.c  bodies, answers, errors, the end
 *   gate.c     whether a sandbox takes requests now, and from this caller
 *   control*.c the control plane: one file per noun, control.h lists the handlers
 *   envd*.c    services inside a sandbox: one file per noun, envd.h lists the handlers
 *
 * A handler answers exactly once, now or later, with one of the cay_e2b_reply functions or, for a
 * stream, cay_exchange_respond and what follows it. After an answer the request must not be
 * touched any more, except from on_closed.
 */

#include "api/call.h"
#include "api/cay_v1.h"
#include "base/json.h"
#include "base/list.h"
#include "front/e2b/e2b.h"
#include "front/http/away.h"
#include "front/http/bodies.h"
#include "io/loop.h"
#include "wire/e2b/target.h"
#include "wire/path.h"

struct cay_e2b_inside;
struct cay_e2b_request;

typedef void cay_e2b_handler(struct cay_e2b_request *request);

enum cay_e2b_body {
    CAY_E2B_BODY_WHOLE = 0, /* collected; the handler runs at its end */
    CAY_E2B_BODY_STREAM,    /* the handler runs at once and sets on_body and on_body_end */
};

struct cay_e2b_route {
    const char *method;
    const char *pattern; /* as cay_path_match has it */
    cay_e2b_handler *handle;
    enum cay_e2b_body body;
    bool is_public; /* no token or key needed; of the control plane, the handler looks who it is */
    /* NULL for who may pass, instead of who has the token; or why not. Envd only. */
    const char *(*refusal)(struct cay_e2b_request *request);
    /* What cay_e2b_read or cay_e2b_rpc_read makes of the body. A large one is decoded by a worker,
     * before the handler runs. */
    const struct cay_pb_message *input;
};

struct cay_e2b_request {
    struct cay_e2b *door;
    struct cay_exchange *exchange; /* NULL once closed */
    struct cay_loop *loop;
    const struct cay_e2b_route *route;
    struct cay_body_charge charge; /* for the body */
    struct cay_caller caller;      /* what calls on the hallway are made as */
    struct cay_arena arena;
    struct cay_str params[CAY_PATH_PARAMS_MAX]; /* of the path */

    /* Requests to a sandbox. */
    struct cay_str sandbox_id; /* empty: the control plane */
    uint16_t port;
    const struct cay_e2b_inside *inside; /* who answers behind the gate */
    struct cay_v1_session *session;      /* as it was at the gate; in the arena */
    struct cay_v1_session_tokens *tokens;
    bool is_trusted; /* showed a token of the session, or a key that may know of it */

    struct cay_buf body;  /* of a WHOLE one, as far as it came */
    size_t untaken_bytes; /* of it, while its route is not known */
    bool has_body;
    bool is_body_over;
    bool is_routed;   /* the handler may run once the body is there */
    bool is_answered; /* somebody answered, or the caller is gone */
    unsigned depth;   /* functions at work on it */

    /* The body, decoded. While a worker is at it, it and the arena are the worker's. */
    struct cay_away away;
    struct cay_str payload; /* of it: the message */
    void *message;          /* NULL: not decoded, or it is none */
    int read_status;        /* 0, or why it is none */
    char read_fault[200];   /* and where, as far as that is known */
    bool is_read;

    struct cay_list calls;        /* struct cay_e2b_call, not yet answered */
    struct cay_list_node in_door; /* once it passed the gate of a sandbox */
    struct cay_task cut;          /* the sandbox is paused or gone */
    bool is_cut;

    /* The handler's half. */
    void *state;
    /* Part of a STREAM body; taken with cay_exchange_taken, now or when there is room. */
    void (*on_body)(struct cay_e2b_request *request, const char *data, size_t len);
    void (*on_body_end)(struct cay_e2b_request *request);
    void (*on_room)(struct cay_e2b_request *request);   /* cay_exchange_has_room again */
    void (*on_closed)(struct cay_e2b_request *request); /* the last it hears; frees `state` */
};

/* The door itself, for whoever has shown nothing so far: it looks, and judges what may be told. */
struct cay_caller cay_e2b_door_caller(void);

/* Around whatever may answer; leaving may free it. */
void cay_e2b_enter(struct cay_e2b_request *request);
void cay_e2b_leave(struct cay_e2b_request *request);

struct cay_e2b_request *cay_e2b_request_new(struct cay_e2b *door, struct cay_exchange *exchange);

/* The caller and the route are known: runs the handler, now or when the body is there. */
void cay_e2b_request_go(struct cay_e2b_request *request, const struct cay_e2b_route *route);

/* The route of a table that fits method and path; NULL, and 404 or 405, when none does. */
const struct cay_e2b_route *cay_e2b_route_find(struct cay_e2b_request *request,
                                               const struct cay_e2b_route *routes, size_t count,
                                               int *out_status);

/* Answers. */
/* The head of one, with what all answers of its kind have; the rest is the exchange's. */
void cay_e2b_respond(struct cay_e2b_request *request, int status,
                     const struct cay_http_header *headers, size_t count, int64_t content_length);
void cay_e2b_reply_empty(struct cay_e2b_request *request, int status);
void cay_e2b_reply_json(struct cay_e2b_request *request, int status, struct cay_str json);
void cay_e2b_reply_json_with(struct cay_e2b_request *request, int status, struct cay_str json,
                             const struct cay_http_header *headers, size_t count);
/* {"code":…,"message":…} */
void cay_e2b_reply_fault(struct cay_e2b_request *request, int status, const char *message);
/* The same for an error of the hallway. */
void cay_e2b_reply_error(struct cay_e2b_request *request, const struct cay_error *err);

/* Decodes `payload`, a part of the body, once: request->message, or read_status and read_fault. */
void cay_e2b_decode(struct cay_e2b_request *request, struct cay_str payload,
                    const struct cay_pb_message *desc);

/* The HTTP status by which clients of this wire know an error. */
[[nodiscard]] int cay_e2b_status(const struct cay_error *err);

/* The body as the route's input; an empty one has nothing set. Answers 400 and returns NULL when it
 * is no such message. */
[[nodiscard]] void *cay_e2b_read(struct cay_e2b_request *request,
                                 const struct cay_pb_message *desc);

/* A value of the query; an empty string with a NULL ptr when it is absent. */
[[nodiscard]] struct cay_str cay_e2b_query(struct cay_e2b_request *request, const char *name);

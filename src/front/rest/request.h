/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One request at a door that speaks JSON over HTTP. It begins with its exchange and ends when the
 * exchange is closed and every call it made on the hallway (call.h) has been answered.
 *
 * Order: cay_rest_request_new -> cay_rest_route_find -> whatever the door asks of the caller
 * (cay_rest_authenticate) -> cay_rest_go, which runs the route's handler. A handler answers exactly
 * once, now or later, with one of the cay_rest_reply functions or, for a stream, cay_rest_respond
 * and what follows it. After an answer the request must not be touched any more, except from
 * on_closed.
 */

#include "api/call.h"
#include "base/json.h"
#include "base/list.h"
#include "front/auth/auth.h"
#include "front/http/away.h"
#include "front/http/door.h"
#include "io/loop.h"
#include "wire/path.h"

struct cay_rest_request;

typedef void cay_rest_handler(struct cay_rest_request *request);
/* `err` is as front/auth/auth.h has it. */
typedef void cay_rest_known_fn(struct cay_rest_request *request, const struct cay_error *err);

enum cay_rest_body {
    CAY_REST_BODY_WHOLE = 0, /* collected; the handler runs at its end */
    CAY_REST_BODY_STREAM,    /* the handler runs at once and sets on_body and on_body_end */
};

struct cay_rest_route {
    const char *method;
    const char *pattern; /* as cay_path_match has it */
    cay_rest_handler *handle;
    enum cay_rest_body body;
    bool is_public; /* nothing needs to be shown, or the handler looks at it */
    /* Why the caller may not, or NULL; where that is no matter of a key or token. For the door to
     * ask. */
    const char *(*refusal)(struct cay_rest_request *request);
    /* What cay_rest_read makes of the body. A large one is decoded by a worker, before the handler
     * runs. */
    const struct cay_pb_message *input;
};

/* The HTTP status of a reason, where it is not that of the table of reasons. */
struct cay_rest_status {
    enum cay_reason reason;
    int status;
};

/* How a door speaks. */
struct cay_rest_dialect {
    size_t own_bytes; /* of request->own */
    /* An error as JSON. */
    void (*write_fault)(struct cay_json_writer *json, int status, const char *message);
    const struct cay_rest_status *statuses;
    size_t status_count;
    const struct cay_http_header *headers; /* of every answer */
    size_t header_count;
    /* Where in the body the message stands; false when it does not stand there as a whole. NULL: it
     * is the body. */
    bool (*payload)(const struct cay_rest_request *request, struct cay_str *out_payload);
    /* The exchange is gone; the request may live on. NULL: nobody needs to know. */
    void (*closed)(struct cay_rest_request *request);
};

struct cay_rest_request {
    struct cay_porch *porch;
    const struct cay_rest_dialect *dialect;
    void *own;                     /* the door's, zeroed at first; goes with the request */
    struct cay_exchange *exchange; /* NULL once closed */
    struct cay_loop *loop;
    const struct cay_rest_route *route;
    struct cay_body_charge charge; /* for the body */
    struct cay_auth auth;          /* who asks, while that is not known */
    cay_rest_known_fn *on_known;   /* of cay_rest_authenticate */
    struct cay_caller caller;      /* what calls on the hallway are made as */
    struct cay_arena arena;
    struct cay_str params[CAY_PATH_PARAMS_MAX]; /* of the path */

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

    struct cay_list calls; /* struct cay_rest_call, not yet answered */

    /* The handler's half. */
    void *state;
    /* Part of a STREAM body; taken with cay_exchange_taken, now or when there is room. */
    void (*on_body)(struct cay_rest_request *request, const char *data, size_t len);
    void (*on_body_end)(struct cay_rest_request *request);
    void (*on_room)(struct cay_rest_request *request);   /* cay_exchange_has_room again */
    void (*on_closed)(struct cay_rest_request *request); /* the last it hears; frees `state` */
};

/* Around whatever may answer; leaving may free it. */
void cay_rest_enter(struct cay_rest_request *request);
void cay_rest_leave(struct cay_rest_request *request);

struct cay_rest_request *cay_rest_request_new(struct cay_porch *porch,
                                              struct cay_exchange *exchange,
                                              const struct cay_rest_dialect *dialect);

/* Who calls, by what they have shown: sets the caller. `on_known` runs once, maybe inside, unless
 * the exchange is closed first. */
void cay_rest_authenticate(struct cay_rest_request *request, cay_rest_known_fn *on_known);

/* What opened the door to the caller does so no longer (front/auth/auth.h): ends the request, as a
 * verb would that failed with `err`. */
void cay_rest_lapsed(struct cay_auth *auth, const struct cay_error *err);

/* The caller and the route are known: runs the handler, now or when the body is there. */
void cay_rest_go(struct cay_rest_request *request, const struct cay_rest_route *route);

/* The route of a table that fits method and path; NULL, and 404 or 405, when none does. */
const struct cay_rest_route *cay_rest_route_find(struct cay_rest_request *request,
                                                 const struct cay_rest_route *routes, size_t count,
                                                 int *out_status);

/* Answers. */
/* The head of one, with what all answers of its kind have; the rest is the exchange's. */
void cay_rest_respond(struct cay_rest_request *request, int status,
                      const struct cay_http_header *headers, size_t count, int64_t content_length);
void cay_rest_reply_empty(struct cay_rest_request *request, int status);
void cay_rest_reply_json(struct cay_rest_request *request, int status, struct cay_str json);
void cay_rest_reply_json_with(struct cay_rest_request *request, int status, struct cay_str json,
                              const struct cay_http_header *headers, size_t count);
/* An error, as the door writes it. */
void cay_rest_reply_fault(struct cay_rest_request *request, int status, const char *message);
/* The same for an error of the hallway. */
void cay_rest_reply_error(struct cay_rest_request *request, const struct cay_error *err);

/* Decodes `payload`, a part of the body, once: request->message, or read_status and read_fault. */
void cay_rest_decode(struct cay_rest_request *request, struct cay_str payload,
                     const struct cay_pb_message *desc);

/* The HTTP status by which clients of the door know an error. */
[[nodiscard]] int cay_rest_status(const struct cay_rest_request *request,
                                  const struct cay_error *err);

/* Whether it is that field of a call's request that is at fault. */
[[nodiscard]] bool cay_rest_error_is_of(const struct cay_error *err, const char *field);

/* The body as the route's input; an empty one has nothing set. Answers 400 and returns NULL when it
 * is no such message. */
[[nodiscard]] void *cay_rest_read(struct cay_rest_request *request,
                                  const struct cay_pb_message *desc);

/* A value of the query; an empty string with a NULL ptr when it is absent. */
[[nodiscard]] struct cay_str cay_rest_query(struct cay_rest_request *request, const char *name);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Between the parts that look after connections: conn.c, resolve.c, relay.c. */

#include "egress/egress.h"
#include "egress/sniff.h"

struct egress_side {
    struct egress_watch watch; /* first: the callback gets its address */
    char *rest;                /* to be sent to this side; NULL: nothing */
    size_t rest_len, rest_sent;
    size_t rest_allowed; /* what is behind it is held back until more is known */
    bool is_read_over;   /* it sends no more */
    bool is_write_over;  /* nothing more is sent to it */
};

enum egress_phase {
    EGRESS_QUESTIONS = 1, /* it asks for names, by TCP */
    EGRESS_ASKS,          /* whether it may be */
    EGRESS_WAITS,         /* for the client's first words */
    EGRESS_RESOLVES,
    EGRESS_DIALS,
    EGRESS_RELAYS,
    EGRESS_INTERCEPTS, /* it is looked into, and not about to reach somebody */
};

struct egress_intercept;

struct egress_conn {
    struct cay_list_node in_list; /* of the living, or the dead */
    struct egress *egress;
    enum egress_phase phase;
    struct egress_side client;
    struct egress_side server;
    struct egress_watch lookup; /* its socket to the resolver */
    uint16_t asked[2];          /* numbers of the questions that are open; 0: none */
    uint64_t asked_ms;          /* the last time */
    struct cay_ip upstream[EGRESS_UPSTREAM_MAX];
    size_t upstream_count, upstream_next;
    bool was_guarded; /* an address that was found may not be dialled */
    uint64_t began_ms;
    uint64_t deadline_ms; /* 0: none */
    struct cay_ip to;     /* whom it is for, when it is not a name */
    uint16_t port;
    char name[CAY_NAME_SIZE]; /* empty: it is for an address */
    char rule[CAY_EGRESS_RULE_BYTES_MAX + 1];
    uint32_t ask_id;     /* the question that it waits for; 0: none */
    bool is_let_through; /* by an answer, without a rule */
    bool has_shy_server; /* on this port it is the client who speaks first */
    struct egress_sniff sniff;
    struct egress_intercept *intercept;  /* NULL: nobody looks into it */
    uint64_t sent_bytes, received_bytes; /* by the sandbox */
};

/* Ends it, as a reset to both sides unless all went well, with a receipt. It is dead from now on;
 * its memory goes at the end of the turn. */
void egress_conn_end(struct egress_conn *conn, enum cay_egress_verdict verdict,
                     enum cay_egress_why why);

/* It may be: on to whom it is for. */
void egress_conn_admit(struct egress_conn *conn);

/* asks.c: it waits from now on. False: too many do. */
[[nodiscard]] bool egress_ask(struct egress_conn *conn);
/* No longer, for whatever reason. */
void egress_ask_leave(struct egress_conn *conn);

/* Nobody can be reached: the same, but that a client whose connection is looked into is told. */
void egress_conn_fail(struct egress_conn *conn, enum cay_egress_verdict verdict,
                      enum cay_egress_why why);
/* What a receipt says of it, but verdict and why. */
void egress_conn_describe(const struct egress_conn *conn, struct cay_egress_receipt *out);
/* Whoever it is for is looked for, and dialled. */
void egress_conn_reach(struct egress_conn *conn);

/* resolve.c: asks for the addresses of its name; then egress_conn_dial. */
void egress_resolve(struct egress_conn *conn);
/* The same again, when nobody has answered for a while. */
void egress_resolve_tick(struct egress_conn *conn);
/* One connection after the other, to what was found. */
void egress_conn_dial(struct egress_conn *conn);
void egress_conn_found(struct egress_conn *conn);

/* relay.c */
void egress_relay_start(struct egress_conn *conn);
void egress_on_client(struct egress_watch *watch, uint32_t events);
/* Takes what the client says; what may be passed on is allowed. False: the connection is over. */
[[nodiscard]] bool egress_relay_hear(struct egress_conn *conn);
void egress_side_close(struct egress_side *side, struct egress *egress, bool is_reset);

/* intercept.c, or plain.c: is what this connection says to be read? */
[[nodiscard]] bool egress_must_intercept(const struct egress_conn *conn);
/* Its hello is held back in server.rest. */
void egress_intercept_begin(struct egress_conn *conn);
void egress_intercept_dialled(struct egress_conn *conn);
/* An answer of ours; false when there can be none. */
[[nodiscard]] bool egress_intercept_refuse(struct egress_conn *conn,
                                           enum cay_egress_verdict verdict, enum cay_egress_why why,
                                           const char *detail);
void egress_intercept_tick(struct egress_conn *conn);
/* Do the rules of now allow what is under way on it? */
[[nodiscard]] bool egress_intercept_is_allowed(const struct egress_conn *conn);
/* Before its end: tells of the request that is under way. True: it has told of some, and the
 * connection needs no receipt. */
[[nodiscard]] bool egress_intercept_close(struct egress_conn *conn, enum cay_egress_verdict verdict,
                                          enum cay_egress_why why);
void egress_intercept_free(struct egress_conn *conn);

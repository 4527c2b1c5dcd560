/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Between the parts that look into connections: intercept.c, the bytes; judge.c, what they say. */

#include "egress/conn.h"
#include "egress/tls.h"
#include "wire/egress/secrets.h"
#include "wire/http_pass.h"

enum {
    EGRESS_INTERCEPTS_MAX = 256,   /* connections */
    EGRESS_HELD_BYTES = 64 * 1024, /* of one direction, before and after it is looked at */
    EGRESS_RECORD_BYTES = 16 * 1024,
    EGRESS_TO_SERVER_BYTES = EGRESS_HELD_BYTES + 2 * EGRESS_RECORD_BYTES + 128 * 1024,
    EGRESS_TO_CLIENT_BYTES = 2 * EGRESS_HELD_BYTES + 4 * 1024,
    EGRESS_SHAKE_MS = 15'000,
    EGRESS_LINGER_MS = 2000, /* in which a client reads our last words */
};

struct egress_interception {
    struct egress_tls *tls;
    struct cay_egress_secrets secrets;
    uint64_t used_told_ms[CAY_EGRESS_SECRETS_MAX]; /* of each; 0: not yet */
    size_t conn_count;
};

/* The request that is under way. */
struct egress_request {
    char *method, *path; /* NULL: none is */
    uint64_t began_ms;
    uint64_t sent_before, received_before;
    char rule[CAY_EGRESS_RULE_BYTES_MAX + 1];
};

struct egress_intercept {
    char *early; /* what the client has said before it was looked into */
    struct egress_tls_side client, server;
    struct cay_http_pass pass;
    struct cay_buf heard;     /* of the client, not looked at */
    struct cay_buf to_server; /* may have values of secrets */
    struct cay_buf said;      /* by the server, not looked at */
    struct cay_buf to_client;
    struct egress_request request;
    uint64_t leaf_asked_ms;
    bool has_reached; /* the server is looked for, or there */
    bool has_told;    /* some request has a receipt */
    bool is_ending;   /* nothing is passed on any more but what is in to_client */
    bool is_silent;   /* both directions are closed; the client is to notice */
    bool is_shut;     /* to the server, when HTTP was left */
};

/* judge.c: what has been heard goes on to to_server, or is refused. 1 when something was done, 0
 * when nothing could be, -1 when the connection is over. */
[[nodiscard]] int egress_judge_heard(struct egress_conn *conn);
/* The same of what the server has said. */
[[nodiscard]] int egress_judge_said(struct egress_conn *conn);
/* The server says no more. */
void egress_judge_end(struct egress_conn *conn);
/* Writes an answer of ours. */
void egress_judge_reply(struct egress_conn *conn, enum cay_egress_why why, const char *detail);
/* A receipt for the request that is under way, if one is. */
void egress_judge_tell(struct egress_conn *conn, enum cay_egress_verdict verdict,
                       enum cay_egress_why why);

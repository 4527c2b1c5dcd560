/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A server on the echo service, and clients at the other end of socket pairs. Nothing runs but in
 * harness_turn: tests decide when the server sees what a client did.
 */

#include "base/buf.h"
#include "front/http/conn.h"
#include "front/http/server_internal.h"
#include "front/router.h"
#include "tests/unit/front/echo.h"

struct harness {
    struct cay_loop *loop;
    struct echo echo;
    struct cay_router router;
    struct cay_server *server;
    bool is_held_up; /* a turn does not wait for workers */
};

void harness_open(struct harness *harness);
/* The same on another service, with E2B's doors. */
void harness_open_on(struct harness *harness, struct cay_service *service,
                     const struct cay_e2b_options *e2b);

/* Hangs up on everybody, answers what is held, and checks that nothing is left. */
void harness_close(struct harness *harness);

/* Turns of the loop that wait for nothing but workers; enough of them for everything that is ready.
 */
void harness_turn(struct harness *harness);

/* A connection as if accepted from TCP; returns the client's end, non-blocking. */
int harness_connect(struct harness *harness);

/* The newest connection of the server. */
struct cay_conn *harness_conn(const struct harness *harness);

/* Sends all of it while the server runs. */
void harness_send(struct harness *harness, int fd, struct cay_str bytes);

/* Appends what the server has sent by now; true when it hung up. */
bool harness_receive(struct harness *harness, int fd, struct cay_buf *out);

/* Sends a request and gives the answer; the buffer is the caller's to finish. */
void harness_ask(struct harness *harness, int fd, struct cay_str request, struct cay_buf *out);

/* An HTTP/1.1 call of /cay.v1.METHOD; `type` may have more header lines behind it. */
void harness_post(struct harness *harness, int fd, const char *method, const char *type,
                  struct cay_str body);

/* Appends an envelope. */
void harness_envelope(struct cay_buf *out, unsigned char flags, struct cay_str payload);

/* Has `out` that text somewhere? */
bool harness_has(const struct cay_buf *out, const char *text);

/* How often? */
size_t harness_count(const struct cay_buf *out, const char *text);

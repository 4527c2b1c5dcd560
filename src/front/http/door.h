/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A door: which requests are for it, and what becomes of them. Each door exports one of these; the
 * router has them in a table and asks one after the other, so that a new door is its own folder and
 * a line there.
 *
 * Order: create -> (owns -> open)* -> destroy. Loop thread only.
 */

#include "api/service.h"
#include "front/http/bodies.h"
#include "front/http/exchange.h"

struct cay_e2b;
struct cay_e2b_options;

/* What all doors stand on. The router owns it; it is there before the first door and after the
 * last. */
struct cay_porch {
    struct cay_service *service;
    struct cay_bodies bodies;
    struct cay_server *server; /* set once there is one; its numbers stand in /metrics */
    bool allow_anonymous;
    bool is_draining;                          /* /healthz says so */
    const struct cay_e2b_options *e2b_options; /* while doors are created; NULL: shut */
    struct cay_e2b *e2b;                       /* what E2B's doors share: cay_e2b_ref */
    /* What all doors have to say on /metrics. */
    void (*metrics)(const struct cay_porch *porch, struct cay_buf *out);
};

struct cay_door {
    const char *name;
    /* What the next ones get, which is the door's own; NULL: it stays shut. */
    void *(*create)(struct cay_porch *porch);
    void (*destroy)(void *self); /* NULL: there is nothing to do */
    /* From the head alone: is the request for this door, right or wrong? */
    bool (*owns)(const void *self, const struct cay_exchange *exchange);
    /* Gives it a handler, or answers it. */
    void (*open)(void *self, struct cay_exchange *exchange);
    /* Its part of /metrics. NULL: none. */
    void (*metrics)(const void *self, struct cay_buf *out);
};

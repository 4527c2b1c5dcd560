/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which door a request goes through: to a sandbox by its headers or host name, the few plain pages
 * (/healthz, /metrics) by their exact path, E2B's control plane by the first segment of its path;
 * everything else is an RPC.
 */

#include "front/connect/connect.h"
#include "front/e2b/e2b.h"
#include "front/http/server.h"

struct cay_router {
    struct cay_bodies bodies;
    struct cay_connect_door connect;
    struct cay_e2b_door e2b;
    struct cay_service *service;
    struct cay_server *server; /* set once there is one; its numbers stand in /metrics */
    bool allow_anonymous;
    bool is_draining; /* /healthz says so */
};

/* `e2b` may be NULL: that door is shut. */
void cay_router_init(struct cay_router *router, struct cay_service *service,
                     const struct cay_e2b_options *e2b, bool allow_anonymous);
void cay_router_finish(struct cay_router *router);

/* For cay_server_options.route; the context is the router. */
void cay_router_route(struct cay_exchange *exchange, void *context);

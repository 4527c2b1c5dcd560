/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which door a request goes through: the few plain pages (/healthz, /metrics) by their exact path,
 * everything else is an RPC.
 */

#include "front/connect/connect.h"
#include "front/http/server.h"

struct cay_router {
    struct cay_connect_door connect;
    struct cay_service *service;
    struct cay_server *server; /* set once there is one; its numbers stand in /metrics */
    bool allow_anonymous;
    bool is_draining; /* /healthz says so */
};

void cay_router_init(struct cay_router *router, struct cay_service *service, bool allow_anonymous);
void cay_router_finish(struct cay_router *router);

/* For cay_server_options.route; the context is the router. */
void cay_router_route(struct cay_exchange *exchange, void *context);

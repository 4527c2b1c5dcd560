/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Which door a request goes through: the first of a table whose business it is. */

#include "front/http/door.h"

enum { CAY_DOORS_MAX = 8 };

struct cay_router {
    struct cay_porch porch;     /* first */
    void *doors[CAY_DOORS_MAX]; /* what each made of itself; NULL: shut */
};

/* `e2b` stays as long as the router; NULL: its doors are shut. */
void cay_router_init(struct cay_router *router, struct cay_service *service,
                     const struct cay_e2b_options *e2b, bool allow_anonymous);
void cay_router_finish(struct cay_router *router);

/* For cay_server_options.route; the context is the router. */
void cay_router_route(struct cay_exchange *exchange, void *context);

/* The name of the door that a request goes through. */
[[nodiscard]] const char *cay_router_door(const struct cay_router *router,
                                          const struct cay_exchange *exchange);

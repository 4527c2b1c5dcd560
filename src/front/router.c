/* SPDX-License-Identifier: Apache-2.0 */
#include "front/router.h"

#include "front/connect/connect.h"
#include "front/e2b/control/control.h"
#include "front/e2b/envd/envd.h"
#include "front/e2b/proxy/proxy.h"
#include "front/pages.h"

/* The first that owns a request gets it. What is for a sandbox is so whatever its path; an RPC is
 * everything else, also what nobody knows. */
static const struct cay_door *const doors[] = {
    &cay_e2b_envd_door,    &cay_e2b_proxy_door, &cay_pages_door,
    &cay_e2b_control_door, &cay_connect_door,
};
static_assert(CAY_COUNT(doors) <= CAY_DOORS_MAX);

static size_t door_of(const struct cay_router *router, const struct cay_exchange *exchange)
{
    for (size_t i = 0; i < CAY_COUNT(doors) - 1; i++) {
        if (router->doors[i] && doors[i]->owns(router->doors[i], exchange))
            return i;
    }
    return CAY_COUNT(doors) - 1;
}

void cay_router_route(struct cay_exchange *exchange, void *context)
{
    struct cay_router *router = context;
    size_t at = door_of(router, exchange);
    doors[at]->open(router->doors[at], exchange);
}

const char *cay_router_door(const struct cay_router *router, const struct cay_exchange *exchange)
{
    return doors[door_of(router, exchange)]->name;
}

static void write_metrics(const struct cay_porch *porch, struct cay_buf *out)
{
    const struct cay_router *router = (const struct cay_router *)porch; /* its first member */
    for (size_t i = 0; i < CAY_COUNT(doors); i++) {
        if (router->doors[i] && doors[i]->metrics)
            doors[i]->metrics(router->doors[i], out);
    }
}

void cay_router_init(struct cay_router *router, struct cay_service *service,
                     const struct cay_e2b_options *e2b, bool allow_anonymous)
{
    *router = (struct cay_router){.porch = {.service = service,
                                            .allow_anonymous = allow_anonymous,
                                            .e2b_options = e2b,
                                            .metrics = write_metrics}};
    cay_bodies_init(&router->porch.bodies, 0, 0);
    for (size_t i = 0; i < CAY_COUNT(doors); i++)
        router->doors[i] = doors[i]->create(&router->porch);
    router->porch.e2b_options = NULL;
}

void cay_router_finish(struct cay_router *router)
{
    for (size_t i = 0; i < CAY_COUNT(doors); i++) {
        if (router->doors[i] && doors[i]->destroy)
            doors[i]->destroy(router->doors[i]);
    }
    cay_bodies_finish(&router->porch.bodies);
}

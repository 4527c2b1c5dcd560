/* SPDX-License-Identifier: Apache-2.0 */
#include "front/router.h"

#include "front/auth/auth.h"
#include "front/metrics.h"

struct page {
    const char *path;
    bool needs_key;
    void (*show)(struct cay_router *router, struct cay_exchange *exchange);
};

static void show_health(struct cay_router *router, struct cay_exchange *exchange)
{
    if (router->is_draining)
        cay_exchange_reply(exchange, 503, "application/json",
                           CAY_STR("{\"status\":\"draining\"}\n"));
    else
        cay_exchange_reply(exchange, 200, "application/json", CAY_STR("{\"status\":\"ok\"}\n"));
}

static void show_metrics(struct cay_router *router, struct cay_exchange *exchange)
{
    cay_auto(cay_buf_finish) struct cay_buf page;
    cay_buf_init(&page, 4 * 1024 * 1024);
    cay_metrics_write(router, &page);
    cay_exchange_reply(exchange, 200, "text/plain; version=0.0.4; charset=utf-8",
                       cay_buf_str(&page));
}

static const struct page pages[] = {
    {"/healthz", false, show_health},
    {"/metrics", true, show_metrics},
};

static void open_page(struct cay_router *router, struct cay_exchange *exchange,
                      const struct page *page)
{
    struct cay_error err = {};
    struct cay_caller caller = {};
    if (!cay_str_is(exchange->method, "GET") && !cay_str_is(exchange->method, "HEAD")) {
        cay_exchange_reply(exchange, 405, "application/json",
                           CAY_STR("{\"code\":\"invalid_argument\",\"message\":\"this page is read "
                                   "by GET\"}"));
        return;
    }
    bool may_see = !page->needs_key ||
                   cay_auth(exchange, router->service, router->allow_anonymous, &caller, &err);
    if (may_see &&
        caller.session_id[0]) /* there is nothing but the session for who has its token */
        may_see = cay_fail(&err, CAY_R_PERMISSION_DENIED, "this page needs an API key");
    if (!may_see)
        cay_exchange_reply_error(exchange, &err);
    else
        page->show(router, exchange);
}

void cay_router_route(struct cay_exchange *exchange, void *context)
{
    struct cay_router *router = context;
    if (cay_e2b_door_open_sandbox(&router->e2b, exchange))
        return;
    for (size_t i = 0; i < CAY_COUNT(pages); i++) {
        if (cay_str_is(exchange->path, pages[i].path)) {
            open_page(router, exchange, &pages[i]);
            return;
        }
    }
    if (!cay_e2b_door_open_control(&router->e2b, exchange))
        cay_connect_door_open(&router->connect, exchange);
}

void cay_router_init(struct cay_router *router, struct cay_service *service,
                     const struct cay_e2b_options *e2b, bool allow_anonymous)
{
    static const struct cay_e2b_options shut;
    *router = (struct cay_router){.service = service, .allow_anonymous = allow_anonymous};
    cay_bodies_init(&router->bodies, 0, 0);
    cay_connect_door_init(&router->connect, service, allow_anonymous);
    cay_e2b_door_init(&router->e2b, service, e2b ? e2b : &shut, allow_anonymous);
    router->connect.bodies = &router->bodies;
    router->e2b.bodies = &router->bodies;
}

void cay_router_finish(struct cay_router *router)
{
    cay_e2b_door_finish(&router->e2b);
    cay_connect_door_finish(&router->connect);
    cay_bodies_finish(&router->bodies);
}

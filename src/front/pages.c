/* SPDX-License-Identifier: Apache-2.0 */
#include "front/pages.h"

#include <stdlib.h>

#include "front/auth/auth.h"
#include "front/metrics.h"

struct page {
    const char *path;
    bool needs_key;
    void (*show)(const struct cay_porch *porch, struct cay_exchange *exchange);
};

static void show_health(const struct cay_porch *porch, struct cay_exchange *exchange)
{
    if (porch->is_draining)
        cay_exchange_reply(exchange, 503, "application/json",
                           CAY_STR("{\"status\":\"draining\"}\n"));
    else
        cay_exchange_reply(exchange, 200, "application/json", CAY_STR("{\"status\":\"ok\"}\n"));
}

static void show_metrics(const struct cay_porch *porch, struct cay_exchange *exchange)
{
    cay_auto(cay_buf_finish) struct cay_buf page;
    cay_buf_init(&page, 4 * 1024 * 1024);
    cay_metrics_write(porch, &page);
    cay_exchange_reply(exchange, 200, "text/plain; version=0.0.4; charset=utf-8",
                       cay_buf_str(&page));
}

static const struct page pages[] = {
    {"/healthz", false, show_health},
    {"/metrics", true, show_metrics},
};

static const struct page *page_of(const struct cay_exchange *exchange)
{
    for (size_t i = 0; i < CAY_COUNT(pages); i++) {
        if (cay_str_is(exchange->path, pages[i].path))
            return &pages[i];
    }
    return NULL;
}

static bool owns(const void *, const struct cay_exchange *exchange)
{
    return page_of(exchange);
}

/* Somebody at a page that needs a key, while it is not known who. */
struct visit {
    struct cay_auth auth;
    const struct cay_porch *porch;
    struct cay_exchange *exchange; /* NULL once closed */
    const struct page *page;
    bool is_known;
};

static void visit_body(struct cay_exchange *exchange, const char *, size_t len)
{
    cay_exchange_taken(exchange, len);
}

static void visit_ignore(struct cay_exchange *)
{
}

static void visit_closed(struct cay_exchange *exchange)
{
    struct visit *visit = exchange->state;
    cay_auth_cancel(&visit->auth);
    visit->exchange = NULL;
    if (!visit->is_known)
        free(visit);
}

static void known(struct cay_auth *auth, const struct cay_error *err)
{
    struct visit *visit = CAY_CONTAINER_OF(auth, struct visit, auth);
    struct cay_error own = {};
    visit->is_known = true;
    /* There is nothing but the session for who has its token. */
    if (!err && auth->caller.session_id[0]) {
        cay_fail(&own, CAY_R_PERMISSION_DENIED, "this page needs an API key");
        err = &own;
    }
    if (err)
        cay_exchange_reply_error(visit->exchange, err);
    else
        visit->page->show(visit->porch, visit->exchange);
    if (visit->exchange)
        visit->is_known = false; /* it ends with its exchange */
    else
        free(visit);
}

static void receive(const struct cay_porch *porch, struct cay_exchange *exchange,
                    const struct page *page)
{
    static const struct cay_handler handler = {
        .body = visit_body, .body_end = visit_ignore, .room = visit_ignore, .closed = visit_closed};
    static const struct cay_auth_asker asker = {.done = known};
    struct visit *visit = cay_new(struct visit);
    visit->porch = porch;
    visit->exchange = exchange;
    visit->page = page;
    exchange->state = visit;
    exchange->handler = &handler;
    cay_auth_start(&visit->auth, exchange, porch->service, porch->allow_anonymous, &asker);
}

static void open_page(void *self, struct cay_exchange *exchange)
{
    const struct page *page = page_of(exchange);
    if (!cay_str_is(exchange->method, "GET") && !cay_str_is(exchange->method, "HEAD"))
        cay_exchange_reply(exchange, 405, "application/json",
                           CAY_STR("{\"code\":\"invalid_argument\",\"message\":\"this page is read "
                                   "by GET\"}"));
    else if (page->needs_key)
        receive(self, exchange, page);
    else
        page->show(self, exchange);
}

static void *create(struct cay_porch *porch)
{
    return porch;
}

const struct cay_door cay_pages_door = {
    .name = "pages",
    .create = create,
    .owns = owns,
    .open = open_page,
};

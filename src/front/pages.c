/* SPDX-License-Identifier: Apache-2.0 */
#include "front/pages.h"

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

static void open_page(void *self, struct cay_exchange *exchange)
{
    const struct cay_porch *porch = self;
    const struct page *page = page_of(exchange);
    struct cay_error err = {};
    struct cay_caller caller = {};
    if (!cay_str_is(exchange->method, "GET") && !cay_str_is(exchange->method, "HEAD")) {
        cay_exchange_reply(exchange, 405, "application/json",
                           CAY_STR("{\"code\":\"invalid_argument\",\"message\":\"this page is read "
                                   "by GET\"}"));
        return;
    }
    bool may_see = !page->needs_key ||
                   cay_auth(exchange, porch->service, porch->allow_anonymous, &caller, &err);
    if (may_see &&
        caller.session_id[0]) /* there is nothing but the session for who has its token */
        may_see = cay_fail(&err, CAY_R_PERMISSION_DENIED, "this page needs an API key");
    if (!may_see)
        cay_exchange_reply_error(exchange, &err);
    else
        page->show(porch, exchange);
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

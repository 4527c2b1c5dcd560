/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/control/control.h"

#include "front/e2b/control/handlers.h"
#include "front/e2b/control/orders.h"
#include "front/e2b/ref.h"
#include "wire/e2b/e2b.h"

/* clang-format off */
static const struct cay_rest_route routes[] = {
    {"POST",   "/v2/sandboxes",                    cay_e2b_create, .input = &e2b_new_sandbox_desc},
    {"POST",   "/sandboxes",                       cay_e2b_create, .input = &e2b_new_sandbox_desc},
    {"GET",    "/v2/sandboxes",                    cay_e2b_list},
    {"GET",    "/sandboxes",                       cay_e2b_list_running},
    {"GET",    "/sandboxes/{}",                    cay_e2b_info},
    {"DELETE", "/sandboxes/{}",                    cay_e2b_kill},
    {"POST",   "/v2/sandboxes/{}/connect",         cay_e2b_connect, .input = &e2b_connect_sandbox_desc},
    {"POST",   "/sandboxes/{}/connect",            cay_e2b_connect, .input = &e2b_connect_sandbox_desc},
    {"POST",   "/sandboxes/{}/resume",             cay_e2b_connect, .input = &e2b_connect_sandbox_desc},
    {"POST",   "/sandboxes/{}/timeout",            cay_e2b_set_timeout, .input = &e2b_set_timeout_desc},
    {"POST",   "/sandboxes/{}/refreshes",          cay_e2b_refresh, .input = &e2b_refresh_desc},
    {"POST",   "/sandboxes/{}/pause",              cay_e2b_pause, .input = &e2b_pause_sandbox_desc},
    {"GET",    "/sandboxes/{}/metrics",            cay_e2b_metrics},
    {"GET",    "/v2/sandboxes/{}/logs",            cay_e2b_logs},
    {"GET",    "/sandboxes/{}/logs",               cay_e2b_logs},
    {"PUT",    "/sandboxes/{}/network",            cay_e2b_set_network, .input = &e2b_network_desc},
    {"POST",   "/sandboxes/{}/snapshots",          cay_e2b_take_snapshot, .input = &e2b_new_snapshot_desc},
    {"GET",    "/snapshots",                       cay_e2b_list_snapshots},
    {"POST",   "/sandboxes/{}/fork",               cay_e2b_fork, .input = &e2b_fork_sandbox_desc},
    {"GET",    "/templates",                       cay_e2b_list_templates},
    {"GET",    "/templates/aliases/{}",            cay_e2b_template_alias},
    {"POST",   "/v3/templates",                    cay_e2b_order_template, .input = &e2b_new_template_desc},
    {"POST",   "/v2/templates/{}/builds/{}",       cay_e2b_start_build, .input = &e2b_start_template_build_desc},
    {"GET",    "/templates/{}/builds/{}/status",   cay_e2b_build_status},
    {"GET",    "/templates/{}/files/{}",           cay_e2b_files_link},
    {"POST",   "/templates/tags",                  cay_e2b_assign_tags, .input = &e2b_assign_tags_desc},
    {"DELETE", "/templates/tags",                  cay_e2b_remove_tags, .input = &e2b_remove_tags_desc},
    {"GET",    "/templates/{}/tags",               cay_e2b_list_tags},
    {"DELETE", "/templates/{}",                    cay_e2b_delete_template},
    /* By the signature in its query. */
    {"PUT",    "/templates/uploads/{}/{}",         cay_e2b_put_files, CAY_REST_BODY_STREAM, .is_public = true},
};
/* clang-format on */

/* First segments, after a version if there is one. */
static const struct {
    const char *name;
    bool is_missing; /* nothing of it is here */
} nouns[] = {
    {.name = "sandboxes"},
    {.name = "snapshots"},
    {.name = "templates"},
    {.name = "volumes", .is_missing = true},
    {.name = "volumecontent", .is_missing = true},
    {.name = "secrets", .is_missing = true},
};

static bool is_version(struct cay_str segment)
{
    return segment.len == 2 && segment.ptr[0] == 'v' && segment.ptr[1] >= '2' &&
           segment.ptr[1] <= '3';
}

/* Its place in the table, or that of its end. */
static size_t noun_of(struct cay_str path)
{
    struct cay_str segment;
    size_t at = 0;
    if (!cay_str_split(&path, '/', &segment) || segment.len || !cay_str_split(&path, '/', &segment))
        return CAY_COUNT(nouns);
    if (is_version(segment) && !cay_str_split(&path, '/', &segment))
        return CAY_COUNT(nouns);
    while (at < CAY_COUNT(nouns) && !cay_str_is(segment, nouns[at].name))
        at++;
    return at;
}

static const struct cay_rest_route *route_of(struct cay_rest_request *request, int *out_status)
{
    size_t noun = noun_of(request->exchange->path);
    if (noun < CAY_COUNT(nouns) && nouns[noun].is_missing) {
        *out_status = 501;
        return NULL;
    }
    return cay_rest_route_find(request, routes, CAY_COUNT(routes), out_status);
}

static void refuse(struct cay_rest_request *request, const struct cay_error *err)
{
    if (err->reason == CAY_R_RESOURCE_EXHAUSTED)
        cay_rest_reply_fault(request, 429, err->text);
    else if (err->reason != CAY_R_UNAUTHENTICATED)
        cay_rest_reply_error(request, err);
    else
        cay_rest_reply_fault(request, 401,
                             "an API key is needed: set E2B_API_KEY to a key of this daemon "
                             "('cay key create --e2b' makes one)");
}

static void known(struct cay_rest_request *request, const struct cay_error *err)
{
    int status = 0;
    const struct cay_rest_route *route = route_of(request, &status);
    if (err)
        refuse(request, err);
    else if (route)
        cay_rest_go(request, route);
    else
        cay_rest_reply_fault(request, status,
                             status == 405   ? "not by this method"
                             : status == 501 ? "this host has no volumes and secrets of E2B"
                                             : "there is no such call");
}

static void open_control(void *self, struct cay_exchange *exchange)
{
    static const struct cay_rest_dialect dialect = {CAY_E2B_DIALECT};
    int status = 0;
    struct cay_rest_request *request = cay_e2b_request_new(self, exchange, &dialect);
    cay_rest_enter(request);
    const struct cay_rest_route *route = route_of(request, &status);
    if (route && route->is_public)
        cay_rest_go(request, route);
    else
        cay_rest_authenticate(request, known);
    cay_rest_leave(request);
}

static bool owns(const void *, const struct cay_exchange *exchange)
{
    return noun_of(exchange->path) < CAY_COUNT(nouns);
}

static void destroy(void *self)
{
    cay_e2b_orders_close(self);
    cay_e2b_unref(self);
}

const struct cay_door cay_e2b_control_door = {
    .name = "e2b-control",
    .create = cay_e2b_ref,
    .destroy = destroy,
    .owns = owns,
    .open = open_control,
};

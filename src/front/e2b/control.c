/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/control.h"

/* clang-format off */
static const struct cay_e2b_route routes[] = {
    {"POST",   "/v2/sandboxes",              cay_e2b_create},
    {"POST",   "/sandboxes",                 cay_e2b_create},
    {"GET",    "/v2/sandboxes",              cay_e2b_list},
    {"GET",    "/sandboxes",                 cay_e2b_list_running},
    {"GET",    "/sandboxes/{}",              cay_e2b_info},
    {"DELETE", "/sandboxes/{}",              cay_e2b_kill},
    {"POST",   "/v2/sandboxes/{}/connect",   cay_e2b_connect},
    {"POST",   "/sandboxes/{}/connect",      cay_e2b_connect},
    {"POST",   "/sandboxes/{}/resume",       cay_e2b_connect},
    {"POST",   "/sandboxes/{}/timeout",      cay_e2b_set_timeout},
    {"POST",   "/sandboxes/{}/refreshes",    cay_e2b_refresh},
    {"POST",   "/sandboxes/{}/pause",        cay_e2b_pause},
    {"GET",    "/sandboxes/{}/metrics",      cay_e2b_metrics},
    {"GET",    "/v2/sandboxes/{}/logs",      cay_e2b_logs},
    {"GET",    "/sandboxes/{}/logs",         cay_e2b_logs},
    {"PUT",    "/sandboxes/{}/network",      cay_e2b_set_network},
    {"POST",   "/sandboxes/{}/snapshots",    cay_e2b_take_snapshot},
    {"GET",    "/snapshots",                 cay_e2b_list_snapshots},
    {"DELETE", "/templates/{}",              cay_e2b_delete_snapshot},
    {"POST",   "/sandboxes/{}/fork",         cay_e2b_fork},
    {"GET",    "/templates/aliases/{}",      cay_e2b_template_alias},
};
/* clang-format on */

/* First segments, after a version if there is one. */
static const char *const nouns[] = {"sandboxes", "snapshots", "templates",
                                    "volumes",   "secrets",   "volumecontent"};

static bool is_version(struct cay_str segment)
{
    return segment.len == 2 && segment.ptr[0] == 'v' && segment.ptr[1] >= '2' &&
           segment.ptr[1] <= '3';
}

bool cay_e2b_control_owns(struct cay_str path)
{
    struct cay_str segment;
    if (!cay_str_split(&path, '/', &segment) || segment.len || !cay_str_split(&path, '/', &segment))
        return false;
    if (is_version(segment) && !cay_str_split(&path, '/', &segment))
        return false;
    for (size_t i = 0; i < CAY_COUNT(nouns); i++) {
        if (cay_str_is(segment, nouns[i]))
            return true;
    }
    return false;
}

const struct cay_e2b_route *cay_e2b_control_route(struct cay_e2b_request *request, int *out_status)
{
    return cay_e2b_route_find(request, routes, CAY_COUNT(routes), out_status);
}

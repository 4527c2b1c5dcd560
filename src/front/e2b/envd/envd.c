/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/envd/envd.h"

#include "front/e2b/envd/cors.h"
#include "front/e2b/envd/files.h"
#include "front/e2b/envd/handlers.h"
#include "front/e2b/envd/pollers.h"
#include "front/e2b/envd/rpc.h"
#include "front/e2b/envd/signed.h"
#include "front/e2b/gate.h"
#include "front/e2b/ref.h"
#include "front/e2b/token.h"
#include "wire/e2b/e2b.h"

/* clang-format off */
static const struct cay_rest_route routes[] = {
    {"GET",  "/health",                       cay_e2b_envd_health, .is_public = true},
    {"GET",  "/envs",                         cay_e2b_envd_envs},
    {"GET",  "/metrics",                      cay_e2b_envd_metrics},
    {"GET",  "/files",                        cay_e2b_files_get, .refusal = cay_e2b_files_refusal},
    {"POST", "/files",                        cay_e2b_files_post, CAY_REST_BODY_STREAM,
                                              .refusal = cay_e2b_files_refusal},
    {"POST", "/process.Process/List",         cay_e2b_process_list, .input = &e2b_list_request_desc},
    {"POST", "/process.Process/Start",        cay_e2b_process_start, .input = &e2b_start_request_desc},
    {"POST", "/process.Process/Connect",      cay_e2b_process_connect, .input = &e2b_connect_request_desc},
    {"POST", "/process.Process/Update",       cay_e2b_process_update, .input = &e2b_update_request_desc},
    {"POST", "/process.Process/SendInput",    cay_e2b_process_send_input, .input = &e2b_send_input_request_desc},
    {"POST", "/process.Process/StreamInput",  cay_e2b_process_stream_input, CAY_REST_BODY_STREAM},
    {"POST", "/process.Process/SendSignal",   cay_e2b_process_send_signal, .input = &e2b_send_signal_request_desc},
    {"POST", "/process.Process/CloseStdin",   cay_e2b_process_close_stdin, .input = &e2b_close_stdin_request_desc},
    {"POST", "/filesystem.Filesystem/Stat",    cay_e2b_filesystem_stat, .input = &e2b_path_request_desc},
    {"POST", "/filesystem.Filesystem/MakeDir", cay_e2b_filesystem_make_dir, .input = &e2b_path_request_desc},
    {"POST", "/filesystem.Filesystem/Move",    cay_e2b_filesystem_move, .input = &e2b_move_request_desc},
    {"POST", "/filesystem.Filesystem/ListDir", cay_e2b_filesystem_list_dir, .input = &e2b_list_dir_request_desc},
    {"POST", "/filesystem.Filesystem/Remove",  cay_e2b_filesystem_remove, .input = &e2b_path_request_desc},
    {"POST", "/filesystem.Filesystem/WatchDir",         cay_e2b_filesystem_watch_dir, .input = &e2b_watch_dir_request_desc},
    {"POST", "/filesystem.Filesystem/CreateWatcher",    cay_e2b_filesystem_create_watcher, .input = &e2b_watch_dir_request_desc},
    {"POST", "/filesystem.Filesystem/GetWatcherEvents", cay_e2b_filesystem_get_watcher_events, .input = &e2b_watcher_request_desc},
    {"POST", "/filesystem.Filesystem/RemoveWatcher",    cay_e2b_filesystem_remove_watcher, .input = &e2b_watcher_request_desc},
};
/* clang-format on */

/* Is it the path of one of the services? */
static bool is_service(struct cay_str path)
{
    for (size_t i = 0; i < CAY_COUNT(routes); i++) {
        if (cay_str_is(path, routes[i].pattern))
            return true;
    }
    return false;
}

/* NULL: whoever asks may use the route. */
static const char *refusal(struct cay_rest_request *request, const struct cay_rest_route *route)
{
    if (route->is_public)
        return NULL;
    if (route->refusal)
        return route->refusal(request);
    struct cay_str sent = cay_http_header(&request->exchange->headers, "x-access-token");
    return cay_e2b_token_is(sent, cay_e2b_visit(request)->tokens->access_token)
               ? NULL
               : "unauthorized access, please provide a valid access token or method signing if "
                 "supported";
}

/* Does the request carry the sandbox's token, or is its route open? */
static bool admit(struct cay_rest_request *request)
{
    int status = 401;
    const struct cay_rest_route *route =
        cay_rest_route_find(request, routes, CAY_COUNT(routes), &status);
    const char *fault = route           ? refusal(request, route)
                        : status == 404 ? "there is no such page"
                                        : "not by this method";
    request->route = route;
    if (!fault && !route->is_public) /* by the token, or by a signature */
        cay_e2b_visit(request)->is_trusted = cay_e2b_visit(request)->is_by_token = true;
    if (!cay_e2b_may_know(request))
        cay_e2b_reply_unknown(request);
    else if (fault)
        cay_rest_reply_fault(request, route ? 401 : status, fault);
    return !fault && cay_e2b_may_know(request);
}

static void pass(struct cay_rest_request *request)
{
    cay_rest_go(request, request->route);
}

static bool is_question(const struct cay_exchange *exchange, const struct cay_e2b_target *target)
{
    return is_service(exchange->path) && cay_e2b_cors_is_question(exchange, target);
}

static bool owns(const void *self, const struct cay_exchange *exchange)
{
    const struct cay_e2b_target target = cay_e2b_target_of(self, exchange);
    if (target.place == CAY_E2B_SANDBOX)
        return target.port == CAY_E2B_ENVD_PORT;
    return target.place == CAY_E2B_NOWHERE &&
           (cay_e2b_is_signed(exchange) || is_question(exchange, &target));
}

static void open_envd(void *self, struct cay_exchange *exchange)
{
    static const struct cay_rest_dialect dialect = {
        CAY_E2B_DIALECT,
        .headers = cay_e2b_cors_headers,
        .header_count = CAY_E2B_CORS_HEADERS,
        .payload = cay_e2b_rpc_payload,
    };
    static const struct cay_e2b_inside inside = {.admit = admit, .pass = pass};
    const struct cay_e2b_target target = cay_e2b_target_of(self, exchange);
    if (is_question(exchange, &target)) {
        cay_e2b_cors_answer(exchange);
        return;
    }
    struct cay_rest_request *request = cay_e2b_request_to(self, &target, exchange, &dialect);
    cay_rest_enter(request);
    if (target.place == CAY_E2B_SANDBOX)
        cay_e2b_gate(request, &inside);
    else
        cay_e2b_signed(request, &inside);
    cay_rest_leave(request);
}

static void destroy(void *self)
{
    cay_e2b_pollers_close(self);
    cay_e2b_unref(self);
}

const struct cay_door cay_e2b_envd_door = {
    .name = "e2b-envd",
    .create = cay_e2b_ref,
    .destroy = destroy,
    .owns = owns,
    .open = open_envd,
};

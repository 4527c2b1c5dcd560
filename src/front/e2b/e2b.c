/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/e2b.h"

#include <stdlib.h>

#include "base/id.h"
#include "front/auth/auth.h"
#include "front/e2b/control.h"
#include "front/e2b/cors.h"
#include "front/e2b/cutter.h"
#include "front/e2b/gate.h"
#include "front/e2b/orders.h"
#include "front/e2b/pollers.h"
#include "front/e2b/signed.h"

bool cay_e2b_door_open_sandbox(struct cay_e2b_door *door, struct cay_exchange *exchange)
{
    if (!door->is_on)
        return false;
    const struct cay_e2b_target target =
        cay_e2b_target(&exchange->headers, exchange->host, cay_str(door->domain));
    if (cay_e2b_cors_is_question(exchange, &target)) {
        cay_e2b_cors_answer(exchange);
        return true;
    }
    bool is_signed = target.place == CAY_E2B_NOWHERE && cay_e2b_is_signed(exchange);
    if (target.place == CAY_E2B_NOWHERE && !is_signed)
        return false;
    struct cay_e2b_request *request = cay_e2b_request_new(door, exchange);
    cay_e2b_enter(request);
    if (target.place == CAY_E2B_BAD) {
        cay_e2b_reply_fault(request, 400, target.fault);
    } else if (is_signed) {
        if (cay_e2b_signed_find(request))
            cay_e2b_gate(request);
    } else {
        request->sandbox_id = target.id;
        request->port = target.port;
        cay_e2b_gate(request);
    }
    cay_e2b_leave(request);
    return true;
}

static bool authenticate(struct cay_e2b_request *request)
{
    struct cay_error err = {};
    struct cay_exchange *exchange = request->exchange;
    if (!cay_auth(exchange, request->door->service, request->door->allow_anonymous,
                  &request->caller, &err)) {
        if (err.reason == CAY_R_RESOURCE_EXHAUSTED)
            cay_e2b_reply_fault(request, 429, err.text);
        else
            cay_e2b_reply_fault(request, 401,
                                "an API key is needed: set E2B_API_KEY to a key of this daemon "
                                "('cay key create --e2b' makes one)");
        return false;
    }
    exchange->log_key = cay_arena_copy(
        &exchange->arena,
        cay_str(request->caller.key_id[0] ? request->caller.key_id : request->caller.owner));
    return true;
}

bool cay_e2b_door_open_control(struct cay_e2b_door *door, struct cay_exchange *exchange)
{
    if (!door->is_on || !cay_e2b_control_owns(exchange->path))
        return false;
    int status = 0;
    struct cay_e2b_request *request = cay_e2b_request_new(door, exchange);
    cay_e2b_enter(request);
    const struct cay_e2b_route *route = cay_e2b_control_route(request, &status);
    if ((!route || !route->is_public) && !authenticate(request))
        ;
    else if (route)
        cay_e2b_request_go(request, route);
    else
        cay_e2b_reply_fault(request, status,
                            status == 405   ? "not by this method"
                            : status == 501 ? "this host has no volumes and secrets of E2B"
                                            : "there is no such call");
    cay_e2b_leave(request);
    return true;
}

void cay_e2b_door_init(struct cay_e2b_door *door, struct cay_service *service,
                       const struct cay_e2b_options *options, bool allow_anonymous)
{
    *door = (struct cay_e2b_door){
        .service = service,
        .is_on = options->is_on,
        .allow_anonymous = allow_anonymous,
        .domain = cay_strdup(options->domain ? options->domain : ""),
        .template = options->template ? cay_strdup(options->template) : NULL,
        .default_base = options->default_base ? cay_strdup(options->default_base) : NULL,
        .is_network_open = options->is_network_open,
        .images = options->images,
        .image_count = options->image_count,
    };
    cay_list_init(&door->inside);
    cay_list_init(&door->pollers);
    cay_list_init(&door->orders);
    cay_random_bytes(door->secret, sizeof(door->secret));
    if (door->is_on)
        cay_e2b_cutter_open(door);
}

void cay_e2b_door_finish(struct cay_e2b_door *door)
{
    cay_e2b_pollers_close(door);
    cay_e2b_orders_close(door);
    cay_e2b_cutter_close(door);
    free(cay_take_ptr(door->domain));
    free(cay_take_ptr(door->template));
    free(cay_take_ptr(door->default_base));
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cay.test.v1.EchoService behind the hallway: verbs that answer at once, later, in a stream,
 * wrongly or never, so that tests can drive every path of the doors. Calls that are still alive are
 * kept in a list; echo_service_end_calls ends them when nobody can wait for them any more.
 *
 * Besides the key there is one for who may vouch for callers.
 */

#include "api/service.h"
#include "base/list.h"
#include "front/http/server.h"

#define ECHO_GATEWAY_KEY "gateway"

struct echo_service {
    struct cay_service base; /* first */
    struct cay_loop *loop;
    const struct cay_server *server; /* for Stats */
    const char *key;                 /* NULL: none is needed */
    struct cay_list live;            /* calls that have not been answered */
    size_t live_count;
    uint64_t cancelled_count;
    uint64_t received_count;
    uint64_t sent_count;
};

void echo_service_init(struct echo_service *service, struct cay_loop *loop, const char *key);
void echo_service_end_calls(struct echo_service *service);

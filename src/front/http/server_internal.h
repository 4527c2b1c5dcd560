/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/list.h"
#include "front/http/places.h"
#include "front/http/server.h"

enum { CAY_SERVER_LISTENERS_MAX = 8 };

struct cay_server_listener {
    struct cay_listener listener;
    struct cay_server *server;
    bool use_tls;
};

struct cay_server {
    struct cay_loop *loop;
    struct cay_server_options options;
    struct cay_server_stats stats;
    struct cay_places places;
    uint64_t exchange_count;
    uint64_t id_key[2]; /* of exchanges' ids: they tell nobody how many others there were */
    struct cay_tls *tls;
    struct cay_list conns;
    struct cay_timer sweep;
    struct cay_timer cut;
    struct cay_server_listener listeners[CAY_SERVER_LISTENERS_MAX];
    size_t listener_count;
    bool is_draining;
    uint64_t draining_since_ms;
    void (*drained)(void *context);
    void *drained_context;
};

/* The last connection of a draining server is gone. */
void cay_server_conn_gone(struct cay_server *server);
